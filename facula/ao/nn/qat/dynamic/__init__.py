"""Layers that round their weights while they train, and their inputs to levels found anew each time."""

from . import modules
from .modules import Linear

__all__ = ["Linear", "modules"]
