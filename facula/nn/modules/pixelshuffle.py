"""Define layers that exchange channels for resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Rearrange r * r channels into an image that is r times larger (Shi et al. 2016).

    Args:
        upscale_factor: r, the factor by which height and width grow.

    Shapes: input (..., C * r * r, H, W); output (..., C, H * r, W * r).

    Errors: RuntimeError, when called, for channels that r * r does not divide.

    >>> nn.PixelShuffle(2)(torch.arange(4.0).reshape(1, 4, 1, 1))
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """

    __constants__: ClassVar[list[str]] = ["upscale_factor"]
    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearrange an image into r * r channels that are r times smaller: the inverse of `PixelShuffle`.

    Args:
        downscale_factor: r, the factor by which height and width shrink.

    Shapes: input (..., C, H * r, W * r); output (..., C * r * r, H, W).

    Errors: RuntimeError, when called, for a height or width that r does not divide.

    >>> nn.PixelUnshuffle(2)(torch.arange(4.0).reshape(1, 1, 2, 2)).flatten()
    tensor([0., 1., 2., 3.])
    """

    __constants__: ClassVar[list[str]] = ["downscale_factor"]
    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
