"""Layers that follow each other, in one: containers of floating point, `qat` to train with rounding, `quantized`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .modules import *  # noqa: F403
from .modules import __all__ as _names
from .modules import _FusedModule  # noqa: F401

if TYPE_CHECKING:
    from typing import Any

__all__ = list(_names)


def __getattr__(name: str) -> Any:
    if name in ("qat", "quantized"):
        return importlib.import_module(f"{__name__}.{name}")
    from facula._near_names import no_attribute

    raise no_attribute(__name__, name)
