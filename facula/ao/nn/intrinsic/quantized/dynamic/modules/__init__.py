"""Define fused layers on float tensors with quantised weights."""

from .linear_relu import LinearReLU

__all__ = ["LinearReLU"]
