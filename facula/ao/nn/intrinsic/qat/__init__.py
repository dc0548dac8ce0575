"""Define fused layers that round their weights in training."""

from . import modules
from .modules import *  # noqa: F403
from .modules import __all__ as _names

__all__ = [*_names, "modules"]
