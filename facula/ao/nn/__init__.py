"""Layers for quantised networks: fused ones, ones that imitate rounding while they are trained, and quantised ones."""

from __future__ import annotations

from facula._shared.on_demand import _on_demand

_MODULES = ("intrinsic", "qat", "quantized")

__getattr__ = _on_demand(__name__, _MODULES)
