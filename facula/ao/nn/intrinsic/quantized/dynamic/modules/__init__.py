"""Define fused layers on float tensors with quantized weights."""

from .linear_relu import LinearReLU

__all__ = ["LinearReLU"]
