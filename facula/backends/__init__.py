"""Provide the switches of the underlying libraries: each module tells whether its library exists and holds the flags
that programs set.
"""

from __future__ import annotations

import contextlib
import sys
import types

from facula._shared.on_demand import _on_demand

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

__getattr__ = _on_demand(__name__, (*_MODULES, "_attention", "_cuda", "_flags"))


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


@contextlib.contextmanager
def __allow_nonbracketed_mutation():
    """Let flags be set within it as everywhere."""
    yield


class _Backends(types.ModuleType):
    @property
    def fp32_precision(self):
        """How exact float32 is on CUDA devices: "ieee", "tf32", or "none" where each part says it."""
        from facula.backends import _cuda

        return _cuda.precision("all")

    @fp32_precision.setter
    def fp32_precision(self, value):
        from facula.backends import _cuda

        _cuda.set_precision("all", value)


sys.modules[__name__].__class__ = _Backends
