"""Optimize architectures: quantization (`ao.quantization`) and the layers that it makes (`ao.nn`). Both are loaded on
first use.
"""

from __future__ import annotations

from facula._shared.on_demand import _on_demand

__all__ = ["nn", "quantization"]

__getattr__ = _on_demand(__name__, __all__)
