"""Report on OpenMP."""

from __future__ import annotations


def is_available() -> bool:
    """Return True: work is divided among threads in any build.

    >>> torch.backends.openmp.is_available()
    True
    """
    return True
