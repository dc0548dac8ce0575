"""Fused layers that round their weights while they train."""

from . import modules
from .modules import *  # noqa: F403
from .modules import __all__ as _names

__all__ = [*_names, "modules"]
