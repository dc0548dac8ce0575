"""cuDNN, which convolves on CUDA devices where it is installed, and its flags."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.backends import _cuda

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

conv: Any = _cuda.PartPrecision("conv")
rnn: Any = _cuda.PartPrecision("rnn")


class _Module(types.ModuleType):
    """The flags are attributes of the module that the library is told about."""

    enabled = _cuda.Switch(True, "cudnn")
    deterministic = _cuda.Switch(False, "deterministic")
    benchmark = _cuda.Switch(False, "benchmark")
    benchmark_limit = _cuda.Number(10, "benchmark_limit")
    depthwise_kernel = _cuda.Word(("auto", "cudnn", "native"), "native_depthwise")
    fp32_precision = _cuda.Precision("cuda")

    @property
    def allow_tf32(self):
        """Whether convolutions and recurrent layers of float32 may round to TF32."""
        return _cuda.cudnn_allows_tf32()

    @allow_tf32.setter
    def allow_tf32(self, value):
        _cuda.set_cudnn_allows_tf32(value)


sys.modules[__name__].__class__ = _Module


def is_available() -> bool:
    """Whether the library is there."""
    return _C._cuda_library("cudnn")[0]


def version() -> Any:
    """The library's version, such as 91900; None where it is not there."""
    return _C._cudnn_version() if is_available() else None


def is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN may compute with the tensor."""
    floating = (facula.float16, facula.bfloat16, facula.float32, facula.float64)
    return sys.modules[__name__].enabled and tensor.is_cuda and tensor.dtype in floating and is_available()


_NAMES = (
    "enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision", "depthwise_kernel"
)  # fmt: skip


def _set(values):
    module = sys.modules[__name__]
    for name, value in zip(_NAMES, values):
        if value is not None:
            setattr(module, name, value)


def set_flags(
    _enabled: Any = None,
    _benchmark: Any = None,
    _benchmark_limit: Any = None,
    _deterministic: Any = None,
    _allow_tf32: Any = None,
    _fp32_precision: str = "none",
    _depthwise_kernel: Any = None,
) -> tuple[Any, ...]:
    """Sets the flags that are not None; gives the previous ones."""
    before = tuple(getattr(sys.modules[__name__], name) for name in _NAMES)
    _set((_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision, _depthwise_kernel))
    return before


@contextlib.contextmanager
def flags(
    enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, fp32_precision="none",
    depthwise_kernel="auto",
):  # fmt: skip
    """Context: these flags inside."""
    said = _cuda.settings()
    before = {name: getattr(sys.modules[__name__], name) for name in _NAMES if "32" not in name}
    try:
        _set((enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision, depthwise_kernel))
        yield
    finally:
        for name, value in before.items():
            setattr(sys.modules[__name__], name, value)
        _cuda.restore(said)
