"""Fourier transforms with the Array API's arguments (version 2024.12): those of facula.fft, with `axes` for `dim`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import fft as _fft
from facula.fft import fft, fftfreq, hfft, ifft, ihfft, irfft, rfft, rfftfreq

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from facula import Tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq",
    "rfftn",
]  # fmt: skip


def _over_axes(name):
    def transform(x, /, *, s=None, axes=None, norm="backward"):
        return getattr(_fft, name)(x, s, axes, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"As facula.fft.{name} over `axes` (all, or as many as `s` has, when None)."
    return transform


fftn: Callable[..., Tensor]
ifftn: Callable[..., Tensor]
rfftn: Callable[..., Tensor]
irfftn: Callable[..., Tensor]
fftn, ifftn, rfftn, irfftn = map(_over_axes, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The zero frequency moved to the middle of `axes` (an int, a tuple, or None for all)."""
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Undoes fftshift."""
    return _fft.ifftshift(x, axes)
