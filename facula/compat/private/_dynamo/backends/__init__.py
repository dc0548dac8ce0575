"""Provide the backends of `torch.compile` by name."""

from facula._shared.on_demand import _on_demand

__getattr__ = _on_demand(__name__, ("common", "debugging", "registry"))
