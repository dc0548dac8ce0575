"""Define fused layers on quantized tensors."""

from . import dynamic, modules
from .modules import *  # noqa: F403
from .modules import __all__ as _names

__all__ = [*_names, "dynamic", "modules"]
