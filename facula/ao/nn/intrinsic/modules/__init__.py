"""Define containers of layers that follow each other."""

from .fused import *  # noqa: F403
from .fused import __all__ as _names
from .fused import _FusedModule  # noqa: F401

__all__ = list(_names)
