"""Discrete Fourier transforms. The ops are stated in ops/fft.yaml."""

from .. import _C
from .._C import Tensor  # noqa: F401

__all__ = sorted(name for name in vars(_C.fft) if not name.startswith("_"))
globals().update({name: getattr(_C.fft, name) for name in __all__})
