"""Layers for quantised networks: fused ones, ones that imitate rounding while they are trained, and quantised ones."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_MODULES = ("intrinsic", "qat", "quantized")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"facula.ao.nn.{name}")
    from facula._near_names import no_attribute

    raise no_attribute(__name__, name)
