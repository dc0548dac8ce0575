"""Report on XNNPACK, which Facula does not use."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: there is no XNNPACK.

    >>> torch.backends.xnnpack.is_available()
    False
    """
    return False
