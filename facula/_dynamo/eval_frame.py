"""The module in which PyTorch defines OptimizedModule."""

from facula._dynamo import OptimizedModule  # noqa: F401
