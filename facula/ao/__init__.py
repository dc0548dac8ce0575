"""Architecture optimisation: quantisation (`ao.quantization`) and the layers it makes (`ao.nn`); loaded on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["nn", "quantization"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    from facula._near_names import no_attribute

    raise no_attribute(__name__, name)
