"""Switch the fast path of multi-head attention in evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_fastpath = True


def get_fastpath_enabled() -> bool:
    """Return whether the fast path of multi-head attention may be taken in evaluation: True at the start.

    >>> torch.backends.mha.get_fastpath_enabled()
    True
    """
    return _fastpath


def set_fastpath_enabled(value: Any) -> None:
    """Allow or forbid the fast path.

    Args:
        value: whether it may be taken.

    >>> torch.backends.mha.set_fastpath_enabled(False)
    >>> torch.backends.mha.get_fastpath_enabled()
    False
    >>> torch.backends.mha.set_fastpath_enabled(True)
    """
    global _fastpath
    _fastpath = bool(value)
