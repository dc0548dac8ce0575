"""cuDNN, which convolves on CUDA devices where it is installed, and its flags."""

import contextlib
import sys
import types

import facula
from facula import _C
from facula.backends import _cuda

benchmark_limit = None
conv = _cuda.PartPrecision("conv")
rnn = _cuda.PartPrecision("rnn")


class _Module(types.ModuleType):
    """The flags are attributes of the module that the library is told about."""

    enabled = _cuda.Switch(True, "cudnn")
    deterministic = _cuda.Switch(False, "deterministic")
    benchmark = _cuda.Switch(False, "benchmark")
    fp32_precision = _cuda.Precision("cuda")

    @property
    def allow_tf32(self):
        """Whether convolutions and recurrent layers of float32 may round to TF32."""
        return conv.fp32_precision == rnn.fp32_precision == "tf32"

    @allow_tf32.setter
    def allow_tf32(self, value):
        said = "tf32" if _cuda.need_bool("allow_tf32", value) else "none"
        conv.fp32_precision = rnn.fp32_precision = said


sys.modules[__name__].__class__ = _Module


def is_available():
    """Whether the library is there."""
    return _C._cuda_library("cudnn")[0]


def version():
    """The library's version, such as 91900; None where it is not there."""
    return _C._cudnn_version() if is_available() else None


def is_acceptable(tensor):
    """Whether cuDNN may compute with the tensor."""
    floating = (facula.float16, facula.bfloat16, facula.float32, facula.float64)
    return sys.modules[__name__].enabled and tensor.is_cuda and tensor.dtype in floating and is_available()


_NAMES = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision")


def set_flags(
    _enabled=None,
    _benchmark=None,
    _benchmark_limit=None,
    _deterministic=None,
    _allow_tf32=None,
    _fp32_precision="none",
):
    """Sets the flags that are not None; gives the previous ones."""
    module = sys.modules[__name__]
    before = tuple(getattr(module, name) for name in _NAMES)
    values = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    for name, value in zip(_NAMES, values):
        if value is not None:
            setattr(module, name, value)
    if _fp32_precision != "none":
        module.fp32_precision = _fp32_precision
    return before


@contextlib.contextmanager
def flags(
    enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, fp32_precision="none"
):
    """Context: these flags inside."""
    said = dict(_cuda._said)
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        set_flags(*before[:2], None, before[3])
        sys.modules[__name__].benchmark_limit = before[2]
        for part in ("conv", "rnn", "matmul"):
            _cuda.set_precision(part, said[part])
        _cuda._said.update(said)
