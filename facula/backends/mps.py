"""Apple GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


def is_macos13_or_newer(*version: Any) -> bool:
    """False."""
    return False


is_macos_or_newer = is_macos13_or_newer
