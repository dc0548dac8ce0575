"""Define fused layers on float tensors with quantised weights."""

from . import modules
from .modules import LinearReLU

__all__ = ["LinearReLU", "modules"]
