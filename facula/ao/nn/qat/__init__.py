"""Define layers that round their weights in training."""

from . import dynamic, modules
from .modules import *  # noqa: F403
from .modules import __all__ as _names

__all__ = [*_names, "dynamic", "modules"]
