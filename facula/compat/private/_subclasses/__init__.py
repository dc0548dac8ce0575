"""Tensors that only have shapes: programs run on them without memory and without arithmetic."""

from facula._tensor.fake import DataDependentOutputException, FakeTensor, FakeTensorMode, UnsupportedFakeTensorException

__all__ = ["DataDependentOutputException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]
