"""Define types of tensors by shape, some sizes of which need not be known."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from facula.fx._compatibility import compatibility

if TYPE_CHECKING:
    from typing import Any

__all__ = ["TensorType", "Dyn", "is_consistent", "is_more_precise"]


@compatibility(is_backward_compatible=False)
class TensorType:
    """Describe a tensor by its shape.

    Args:
        dim: the sizes; Dyn for those not known.

    >>> from facula.fx.tensor_type import Dyn, TensorType
    >>> TensorType((2, Dyn)), TensorType((2, 3)) == TensorType[2, 3]
    (TensorType[(2, Dyn)], True)
    """

    def __init__(self, dim: Any) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and list(self.__args__) == list(other.__args__)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


class _DynType:
    """Represent a size or type that is not known."""

    def __init__(self):
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    def __hash__(self) -> int:
        return hash("Dyn")

    def __str__(self) -> str:
        return "Dyn"

    __repr__ = __str__


Dyn: Any = _DynType()


def _is_unknown(kind):
    return isinstance(kind, _DynType)


@compatibility(is_backward_compatible=False)
def is_consistent(t1: Any, t2: Any) -> bool:
    """Return whether two types can be of one value.

    Args:
        t1, t2: types or sizes.

    >>> from facula.fx.tensor_type import Dyn, TensorType, is_consistent
    >>> is_consistent(TensorType((2, Dyn)), TensorType((Dyn, 3))), is_consistent(TensorType((2,)), TensorType((3,)))
    (True, False)
    """
    if t1 == t2 or _is_unknown(t1) or _is_unknown(t2):
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(map(is_consistent, t1.__args__, t2.__args__))
    return False


@compatibility(is_backward_compatible=False)
def is_more_precise(t1: Any, t2: Any) -> bool:
    """Return whether the first type says all that the second says.

    Args:
        t1, t2: types or sizes.

    >>> from facula.fx.tensor_type import Dyn, TensorType, is_more_precise
    >>> is_more_precise(TensorType((2, 3)), TensorType((2, Dyn))), is_more_precise(Dyn, TensorType((2,)))
    (True, False)
    """
    if t1 == t2 or _is_unknown(t2):
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(map(is_more_precise, t1.__args__, t2.__args__))
    return False
