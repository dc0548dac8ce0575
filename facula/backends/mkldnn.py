"""oneDNN, the library behind convolution and matrix products on the CPU."""

import sys

from facula.backends import _flags

enabled = True
deterministic = False
allow_tf32 = False


def is_available():
    """True."""
    return True


def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    """Context: these flags inside."""
    return _flags.held(
        sys.modules[__name__], enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32
    )
