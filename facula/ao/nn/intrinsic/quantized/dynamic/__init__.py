"""Define fused layers on float tensors with quantized weights."""

from . import modules
from .modules import LinearReLU

__all__ = ["LinearReLU", "modules"]
