"""oneDNN, the library behind convolution and matrix products on the CPU."""

import sys

from facula.backends import _flags

enabled = True
deterministic = False
allow_tf32 = False


def is_available():
    """True: products and convolutions are done by oneDNN where the build has it and it is the fastest.

    >>> torch.backends.mkldnn.is_available()
    True
    """
    return True


def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    """Context: these flags inside.

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
