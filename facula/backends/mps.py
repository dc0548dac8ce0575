"""Report on Apple GPUs, which Facula does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """Return False: Facula computes on no Apple GPU.

    >>> torch.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """Return False: no build has kernels for Apple GPUs.

    >>> torch.backends.mps.is_built()
    False
    """
    return False


def is_macos13_or_newer(*version: Any) -> bool:
    """Return False: what asks wants to know about Apple GPUs.

    Args:
        version: the number behind 13, which is not read.

    >>> torch.backends.mps.is_macos13_or_newer()
    False
    """
    return False


is_macos_or_newer = is_macos13_or_newer
