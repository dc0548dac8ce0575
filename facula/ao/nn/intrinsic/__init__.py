"""Define fused layers: containers of floating-point layers, `qat` to train with rounding, and `quantized`."""

from __future__ import annotations

from facula._shared.on_demand import _on_demand

from .modules import *  # noqa: F403
from .modules import __all__ as _names
from .modules import _FusedModule  # noqa: F401

__all__ = list(_names)

__getattr__ = _on_demand(__name__, ("qat", "quantized"))
