"""PyTorch's private name of what makes arrays of tensors and numbers."""

from ._media import to_numpy as make_np

__all__ = ["make_np"]
