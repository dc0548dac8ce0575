"""Tell whether mixed precision on CUDA is impossible on this machine."""

from __future__ import annotations

import facula

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Return True when there is no CUDA device.

    >>> torch.cuda.amp.amp_definitely_not_available() == (not torch.cuda.is_available())
    True
    """
    return not facula.cuda.is_available()
