"""Layers that follow each other, in one: containers of floating point, `qat` to train with rounding, `quantized`."""

import importlib

from .modules import *  # noqa: F403
from .modules import __all__ as _names
from .modules import _FusedModule  # noqa: F401

__all__ = list(_names)


def __getattr__(name):
    if name in ("qat", "quantized"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
