"""Report on Intel MKL, which Facula does not use."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: matrix products are OpenBLAS's, oneDNN's and our own.

    >>> torch.backends.mkl.is_available()
    False
    """
    return False
