"""Set flags of cuDNN, which computes convolutions on CUDA devices where it is installed."""

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
    """Define the flags as attributes of the module; setting one passes it to the library."""

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
    """Return whether cuDNN is there; it is opened when this is first asked.

    >>> torch.backends.cudnn.is_available() == (torch.backends.cudnn.version() is not None)
    True
    """
    return _C._cuda_library("cudnn")[0]


def version() -> Any:
    """Return the library's version, such as 91900; None where it is not there.

    >>> version = torch.backends.cudnn.version()
    >>> version is None or version >= 80000
    True
    """
    return _C._cudnn_version() if is_available() else None


def is_acceptable(tensor: Tensor) -> bool:
    """Return whether cuDNN may compute with a tensor: floating point on a CUDA device, where the library is there and
    `enabled`.

    Args:
        tensor: the tensor.

    >>> torch.backends.cudnn.is_acceptable(torch.ones(2))
    False
    """
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
    """Set the flags that are not None; give the previous ones.

    >>> before = torch.backends.cudnn.set_flags(_benchmark=True)
    >>> torch.backends.cudnn.benchmark
    True
    >>> after = torch.backends.cudnn.set_flags(*before)
    """
    before = tuple(getattr(sys.modules[__name__], name) for name in _NAMES)
    _set((_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision, _depthwise_kernel))
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False,
    allow_tf32: bool = True, fp32_precision: str = "none", depthwise_kernel: str = "auto",
):  # fmt: skip
    """Set these flags inside.

    Args:
        enabled: whether cuDNN is used.
        benchmark: whether ways of a convolution are timed, and the fastest taken.
        benchmark_limit: how many are tried; 0: all.
        deterministic: whether only ways are taken whose results are the same every time.
        allow_tf32: whether factors of float32 may be rounded to TF32.
        fp32_precision: "ieee", "tf32" or "none".
        depthwise_kernel: "auto", "cudnn" or "native", for convolutions of single channels.

    >>> with torch.backends.cudnn.flags(enabled=True, deterministic=True):
    ...     torch.backends.cudnn.deterministic
    True
    >>> torch.backends.cudnn.deterministic
    False
    """
    said = _cuda.settings()
    before = {name: getattr(sys.modules[__name__], name) for name in _NAMES if "32" not in name}
    try:
        _set((enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision, depthwise_kernel))
        yield
    finally:
        for name, value in before.items():
            setattr(sys.modules[__name__], name, value)
        _cuda.restore(said)
