"""Provide fake tensors, which only have shapes: programs run on them without memory and without arithmetic."""

from . import fake_tensor
from .fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode, UnsupportedFakeTensorException

__all__ = ["DataDependentOutputException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]
