"""Provide discrete Fourier transforms. The ops are stated in ops/fft.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _C
from .._C import Tensor as Tensor

if TYPE_CHECKING:  # the names that are gathered below
    from .._C.fft import *  # noqa: F403

__all__ = sorted(name for name in vars(_C.fft) if not name.startswith("_"))
globals().update({name: getattr(_C.fft, name) for name in __all__})
