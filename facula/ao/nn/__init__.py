"""Define layers of quantized networks: fused layers, layers that imitate rounding in training, and quantized layers."""

from __future__ import annotations

from facula._shared.on_demand import _on_demand

_MODULES = ("intrinsic", "qat", "quantized")

__getattr__ = _on_demand(__name__, _MODULES)
