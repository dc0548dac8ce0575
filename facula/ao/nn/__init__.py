"""Layers for quantised networks: fused ones, ones that imitate rounding while they are trained, and quantised ones."""

import importlib

_MODULES = ("intrinsic", "qat", "quantized")


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"facula.ao.nn.{name}")
    raise AttributeError(f"module 'torch.ao.nn' has no attribute {name!r}")
