"""The name that tensors with gradients once had."""

from .. import _C

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, value):
        return isinstance(value, _C.Tensor)


class Variable(metaclass=_VariableMeta):
    """`Variable(tensor, requires_grad=False)` gives the tensor itself, with its requires_grad set."""

    def __new__(cls, data, requires_grad=False, volatile=None):
        result = data.detach() if isinstance(data, _C.Tensor) else _C.tensor(data)
        return result.requires_grad_(requires_grad)
