"""Whether mixed precision on CUDA is out of the question."""

from __future__ import annotations

import facula

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """True when there is no CUDA device."""
    return not facula.cuda.is_available()
