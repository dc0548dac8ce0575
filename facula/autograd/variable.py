"""Define Variable, the former name of tensors with gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _C

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["Variable"]


class _ExecutionEngine:
    """Provide the methods of the backward engine that programs call."""

    def queue_callback(self, callback):
        """Call a function without arguments when the backward pass that runs has ended. RuntimeError outside of one."""
        _C._queue_callback(callback)


class _VariableMeta(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _C.Tensor)


class Variable(metaclass=_VariableMeta):
    """Make a tensor with its requires_grad set, under a name of old programs. Nothing is wrapped, and every tensor is
    an instance.

    Args:
        data: a tensor, or numbers.
        requires_grad: whether autograd records what is computed from it.
        volatile: changes nothing.

    >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    >>> type(x).__name__, x.requires_grad, isinstance(torch.ones(1), torch.autograd.Variable)
    ('Tensor', True, True)
    """

    _execution_engine = _ExecutionEngine()

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Tensor:
        result = data.detach() if isinstance(data, _C.Tensor) else _C.tensor(data)
        return result.requires_grad_(requires_grad)
