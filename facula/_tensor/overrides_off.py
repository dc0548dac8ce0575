"""Define the switch that treats tensors of subclasses as plain tensors. It stands apart from `overrides`, so that it
loads at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing_extensions import Self


class DisableTorchFunctionSubclass:
    """Treat tensors of subclasses as plain tensors in a block: their `__torch_function__` is not called. Modes stay on.

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
