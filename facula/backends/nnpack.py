"""NNPACK."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: Any) -> Any:
    """Nothing to set; gives the previous flags."""
    return (False,)
