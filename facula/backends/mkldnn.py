"""Set flags of oneDNN, the library that computes convolutions and matrix products on the CPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from facula.backends import _flags

if TYPE_CHECKING:
    from typing import Any

enabled = True
deterministic = False
allow_tf32 = False


def is_available() -> bool:
    """Return True: products and convolutions are done by oneDNN where the build has it and it is the fastest.

    >>> torch.backends.mkldnn.is_available()
    True
    """
    return True


def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none") -> Any:
    """Set these flags inside.

    Args:
        enabled, deterministic, allow_tf32: kept, and read by no kernel: which library computes is decided by op.
        fp32_precision: accepted.

    >>> with torch.backends.mkldnn.flags(enabled=False):
    ...     torch.backends.mkldnn.enabled
    False
    >>> torch.backends.mkldnn.enabled
    True
    """
    return _flags.held(
        sys.modules[__name__], enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32
    )
