"""Define layers that resize images, volumes or sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = ["Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"]


class Upsample(Module):
    """Resize sequences, images or volumes.

    Args:
        size: the sizes of the output, a number or one for each dimension; or
        scale_factor: output sizes over input sizes, a number or one for each dimension.
        mode: the way in which values between are found: 'nearest', 'nearest-exact', 'linear' (of sequences), 'bilinear',
            'bicubic' (of images) or 'trilinear' (of volumes).
        align_corners: if True, let the centers of the corner elements of input and output coincide, otherwise their outer
            edges; for modes that interpolate. None means False.
        recompute_scale_factor: if True, compute positions with the factor that the rounded sizes give.

    Shapes: input (N, C, L), (N, C, H, W) or (N, C, D, H, W); output the same with other sizes.

    Errors: ValueError, when called, for both or neither of size and scale_factor, and for align_corners with 'nearest';
    NotImplementedError for a mode that does not go with the number of dimensions.

    >>> nn.Upsample(scale_factor=2)(torch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    >>> nn.Upsample(size=3, mode="linear", align_corners=True)(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1.0000, 1.5000, 2.0000]]])
    """

    __constants__: ClassVar[list[str]] = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name: str = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor: Any = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resize images: each element of the output is the nearest one of the input. Deprecated: `Upsample` does this.

    Args:
        size: the height and the width of the output, a number or two; or
        scale_factor: output sizes over input sizes, a number or two.

    Shapes: input (N, C, H, W); output the same with other sizes.

    Errors: ValueError, when called, for both or neither of size and scale_factor.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(torch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resize images by bilinear interpolation; corners stay corners. Deprecated: `Upsample` does this with mode 'bilinear' and
    align_corners.

    Args:
        size: the height and the width of the output, a number or two; or
        scale_factor: output sizes over input sizes, a number or two.

    Shapes: input (N, C, H, W); output the same with other sizes.

    Errors: ValueError, when called, for both or neither of size and scale_factor.

    >>> nn.UpsamplingBilinear2d(size=(1, 3))(torch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
