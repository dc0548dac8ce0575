"""Define Parameter and Buffer, tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import facula
from facula import _C

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from facula import Tensor
    from facula.types import Device

__all__ = [
    "Parameter",
    "UninitializedParameter",
    "is_lazy",
    "Buffer",
    "UninitializedBuffer",
    "UninitializedTensorMixin",
]

if TYPE_CHECKING:
    _TensorMeta = type
else:
    _TensorMeta = type(facula.Tensor)


class _ParameterMeta(_TensorMeta):
    """Extend ``isinstance(t, Parameter)`` to tensors of other classes that carry ``_is_param = True``."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Parameter and isinstance(instance, facula.Tensor) and getattr(instance, "_is_param", False):
            return True
        return super().__instancecheck__(instance)


class Parameter(facula.Tensor, metaclass=_ParameterMeta):
    """Mark a tensor so that a module registers it as a parameter when it is assigned to an attribute.

    Args:
        data: the values, of any shape; shared, not copied. Default: an empty tensor.
        requires_grad: if True, record gradients.

    Errors: TypeError for what is no Tensor.

    >>> module = nn.Module()
    >>> module.weight = nn.Parameter(torch.ones(2))
    >>> module.weight
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    >>> len(list(module.parameters()))
    1
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = facula.empty(0)
        kind = type(data)
        if kind is facula.Tensor or kind is Parameter:
            return facula.Tensor._make_subclass(cls, data, requires_grad)
        if not isinstance(data, facula.Tensor):
            raise TypeError(f"{cls.__name__}: data must be a Tensor, got {kind.__name__}")
        # Another tensor class keeps its class; the mark is what makes it a parameter.
        tensor = data.detach().requires_grad_(requires_grad)
        if type(tensor) is not kind:
            raise RuntimeError(
                f"{cls.__name__}: detach() of a {kind.__name__} must give a {kind.__name__}, got "
                f"{type(tensor).__name__}"
            )
        tensor._is_param = True
        return tensor

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(memory_format=facula.preserve_format), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, proto: Any) -> Any:
        from facula._serialization import rebuild

        return rebuild.reduce_parameter(self)

    __torch_function__: Any = _C._disabled_torch_function_impl


_C._set_parameter_class(Parameter)


def is_lazy(param: Tensor | None) -> bool:
    """Return True if a parameter or buffer still waits for its shape.

    Args:
        param: any tensor.

    >>> nn.parameter.is_lazy(nn.UninitializedParameter()), nn.parameter.is_lazy(torch.ones(2))
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


_UNKNOWN_SHAPE = (
    "{0}: can't {1} an uninitialized parameter or buffer (run the lazy module once, or call materialize()), got {2}"
)


class UninitializedTensorMixin:
    """Postpone the shape of a parameter or buffer until the first call of a lazy module.

    Errors: RuntimeError for its shape, ValueError for computing with it.

    >>> isinstance(nn.LazyLinear(2).weight, nn.parameter.UninitializedTensorMixin)
    True
    """

    # What may be called before the shape is known: moving, converting, hashing. Properties are always fine.
    _allowed_names = frozenset(
        [
            "__hash__",
            "__get__",
            "__set__",
            "size",
            "copy_",
            "is_complex",
            "is_floating_point",
            "half",
            "float",
            "double",
            "char",
            "short",
            "int",
            "long",
            "cuda",
            "cpu",
            "to",
            "get_device",
            "_has_compatible_shallow_copy_type",
        ]
    )

    def materialize(self, shape: Sequence[int], device: Device = None, dtype: facula.dtype | None = None) -> None:
        """Give the tensor its shape and make it an ordinary parameter or buffer; its values are not set.

        Args:
            shape: the sizes.
            device: where. Default: where the tensor was to be.
            dtype: of the values. Default: the one that the tensor was to have.

        >>> weight = nn.UninitializedParameter(dtype=torch.float64)
        >>> weight.materialize((2,))
        >>> weight.dtype
        torch.float64
        """
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data: Tensor = facula.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """Not known yet: reading it is a RuntimeError."""
        raise RuntimeError(_UNKNOWN_SHAPE.format(type(self).__name__, "know the shape of", "a read of shape"))

    def share_memory_(self) -> Any:
        """Raise RuntimeError: there is no memory yet.

        >>> try:
        ...     nn.UninitializedParameter().share_memory_()
        ... except RuntimeError:
        ...     print("not yet")
        not yet
        """
        raise RuntimeError(_UNKNOWN_SHAPE.format(type(self).__name__, "share memory on", "a call of share_memory_()"))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, proto: Any) -> Any:
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Tensor | Any:
        name = getattr(func, "__name__", repr(func))
        if name in cls._allowed_names:
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(_UNKNOWN_SHAPE.format(cls.__name__, "compute with", f"a call of {name}"))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """Represent a parameter whose shape is not known yet: it can be moved and converted, and gets its shape by
    `materialize`.

    Args:
        requires_grad: if True, record gradients once it has a shape.
        device, dtype: the device and the dtype that `materialize` uses by default.

    Errors: RuntimeError for its shape, ValueError for computing with it.

    >>> weight = nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', torch.Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Device = None, dtype: facula.dtype | None = None) -> Self:
        return facula.Tensor._make_subclass(cls, facula.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class _BufferMeta(_TensorMeta):
    """Extend ``isinstance(t, Buffer)`` to every tensor that carries ``_is_buffer = True``."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Buffer and isinstance(instance, facula.Tensor) and getattr(instance, "_is_buffer", False):
            return True
        return super().__instancecheck__(instance)


class Buffer(facula.Tensor, metaclass=_BufferMeta):
    """Mark a tensor so that a module registers it as a buffer when it is assigned to an attribute: it is part of the
    module's state, but not learned.

    Args:
        data: the values, of any shape. Default: an empty tensor.
        persistent: if True, it is part of the module's ``state_dict``.

    >>> module = nn.Module()
    >>> module.mean = nn.Buffer(torch.zeros(2))
    >>> list(module.state_dict()), len(list(module.parameters()))
    (['mean'], 0)
    """

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = facula.empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor

    __torch_function__: Any = _C._disabled_torch_function_impl


class MaterializedBuffer(facula.Tensor):
    """Replace an `UninitializedBuffer` once its shape is known, because an object's `__class__` cannot become the
    built-in Tensor class.
    """

    __torch_function__: Any = _C._disabled_torch_function_impl


class UninitializedBuffer(UninitializedTensorMixin, facula.Tensor):
    """Represent a buffer whose shape is not known yet: it can be moved and converted, and gets its shape by
    `materialize`.

    Args:
        requires_grad: if True, record gradients once it has a shape.
        device, dtype: the device and the dtype that `materialize` uses by default.
        persistent: if True, it will be part of the module's ``state_dict``.

    Errors: RuntimeError for its shape, ValueError for computing with it.

    >>> mean = nn.UninitializedBuffer()
    >>> mean.materialize((2, 3))
    >>> mean.shape
    torch.Size([2, 3])
    """

    cls_to_become = MaterializedBuffer

    def __new__(cls, requires_grad: bool = False, device: Device = None, dtype: facula.dtype | None = None,
                persistent: bool = True) -> Self:  # fmt: skip
        tensor = facula.Tensor._make_subclass(cls, facula.empty(0, device=device, dtype=dtype), requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor
