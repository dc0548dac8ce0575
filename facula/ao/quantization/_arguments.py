"""Classes with some of their arguments given, as qconfigs hold them: `MinMaxObserver.with_args(dtype=facula.qint8)`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class PartialWrapper:
    """Calls a class with arguments given before; those of `callable_args` are functions called anew for each call."""

    def __init__(self, p: Callable[..., Any]) -> None:
        self.p = p
        self.callable_args: dict[Any, Any] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        made = {name: function() for name, function in self.callable_args.items() if name not in keywords}
        return self.p(*args, **keywords, **made)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> PartialWrapper:
        """The same with more arguments given."""
        return with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Any) -> PartialWrapper:
        """The same with more functions that make arguments."""
        made = PartialWrapper(self.p)
        made.callable_args = {**self.callable_args, **kwargs}
        return made


PartialWrapper.__name__ = PartialWrapper.__qualname__ = "_PartialWrapper"
PartialWrapper.__module__ = "facula.ao.quantization.observer"


def with_args(cls_or_self: Any, **kwargs: Any) -> PartialWrapper:
    """A function that makes the class with these arguments, and can be given more by its own `with_args`.

    Args:
        kwargs: of the class.

    >>> from torch.ao.quantization import MinMaxObserver
    >>> weights = MinMaxObserver.with_args(dtype=torch.qint8).with_args(qscheme=torch.per_tensor_symmetric)
    >>> weights().qscheme
    torch.per_tensor_symmetric
    """
    return PartialWrapper(functools.partial(cls_or_self, **kwargs))


def with_callable_args(cls_or_self: type, **kwargs: Any) -> PartialWrapper:
    """As `with_args`, for arguments that a function makes for each object.

    Args:
        kwargs: functions without arguments, by the names of arguments.

    >>> from torch.ao.quantization import MinMaxObserver
    >>> made = MinMaxObserver.with_callable_args(factory_kwargs=lambda: {"dtype": torch.float64})
    >>> made().min_val.dtype
    torch.float64
    """
    return PartialWrapper(functools.partial(cls_or_self)).with_callable_args(**kwargs)
