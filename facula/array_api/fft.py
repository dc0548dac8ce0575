"""Define Fourier transforms with the Array API's arguments (version 2024.12): those of facula.fft, with `axes` for `dim`."""

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


_TEXT = """Return the transform that torch.fft.{name} computes, over `axes`.

Args:
    x: the tensor.
    s: the lengths along the axes, to which x is cut or padded with zeros; None for its sizes.
    axes: the dimensions; None for all, or the last as many as `s` has entries.
    norm: "backward" divides the inverse by the number of points, "forward" the other one, "ortho" both by its root.

Errors: RuntimeError for a length that is not positive, an axis that comes twice and an unknown norm; IndexError for an axis
outside.

>>> torch.array_api.fft.{name}(torch.ones(2, 4, 4), axes=(1, 2)).shape
torch.Size([2, {size}])
"""


def _over_axes(name):
    def transform(
        x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Tensor:
        return getattr(_fft, name)(x, s, axes, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = _TEXT.format(name=name, size="4, 3" if name == "rfftn" else "4, 4" if name != "irfftn" else "4, 6")
    return transform


fftn: Callable[..., Tensor]
ifftn: Callable[..., Tensor]
rfftn: Callable[..., Tensor]
irfftn: Callable[..., Tensor]
fftn, ifftn, rfftn, irfftn = map(_over_axes, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return the zero frequency moved to the middle.

    Args:
        x: a spectrum in the order of fftfreq.
        axes: an int, a tuple, or None for all.

    Errors: IndexError for an axis outside.

    >>> torch.array_api.fft.fftshift(torch.tensor([0, 1, -1]))
    tensor([-1,  0,  1])
    """
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return the inverse of fftshift.

    Args:
        x: a spectrum with the zero frequency in the middle.
        axes: an int, a tuple, or None for all.

    Errors: IndexError for an axis outside.

    >>> torch.array_api.fft.ifftshift(torch.tensor([-1, 0, 1]))
    tensor([ 0,  1, -1])
    """
    return _fft.ifftshift(x, axes)
