"""How classes and modes take over methods, and the switch that treats tensors of subclasses as plain ones.

Apart from `facula.overrides`, so that it loads at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing_extensions import Self


class DisableTorchFunctionSubclass:
    """Within it, tensors of subclasses are treated as plain ones: their `__torch_function__` is not called. Modes stay on.

    >>> class Marked(torch.Tensor):
    ...     pass
    >>> x = torch.ones(2).as_subclass(Marked)
    >>> with torch._C.DisableTorchFunctionSubclass():
    ...     y = x + 1
    >>> type(x + 1).__name__, type(y).__name__
    ('Marked', 'Tensor')
    """

    def __enter__(self) -> Self:
        _C._change_override_disabled(1)
        return self

    def __exit__(self, *exception: object) -> None:
        _C._change_override_disabled(-1)


def overridable(function):
    """Let classes and modes take over a method written here, as they take over those of the core."""
    name = function.__name__
    is_overridden = _C._has_torch_function_variadic

    def method(self, *args, **kwargs):
        if is_overridden(self, *args):
            from facula.overrides import handle_torch_function

            return handle_torch_function(getattr(_C.Tensor, name), (self, *args), self, *args, **kwargs)
        if not (args or kwargs):  # which takes a tenth of a microsecond less
            return function(self)
        return function(self, *args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", function.__doc__
    method.__wrapped__ = function
    return method
