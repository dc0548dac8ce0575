"""The fast path of multi-head attention in evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_fastpath = True


def get_fastpath_enabled() -> bool:
    """Whether the fast path may be taken."""
    return _fastpath


def set_fastpath_enabled(value: Any) -> None:
    """Allows or forbids the fast path."""
    global _fastpath
    _fastpath = bool(value)
