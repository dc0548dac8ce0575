"""Switches of the libraries beneath: each module answers which are there and keeps the flags programs set."""

import importlib

_MODULES = (
    "cpu",
    "cuda",
    "cudnn",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
    "xnnpack",
)


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"facula.backends.{name}")
    raise AttributeError(f"module 'facula.backends' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_MODULES])
