"""Define Fold and Unfold, which convert images to columns of sliding blocks and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Add up blocks, given as columns, into images: the adjoint of `Unfold`. Where blocks overlap their elements are summed.

    Args:
        output_size: the height and the width of the images, a number or two.
        kernel_size: the size of a block, a number or two.
        dilation: the step between the elements of a block.
        padding: the number of elements that are cut off at both ends of each dimension.
        stride: the step from block to block.

    Shapes: input (N, C * elements of a block, number of blocks) or without N; output (N, C, H, W) or (C, H, W).

    Errors: RuntimeError, when called, for another number of rows or of blocks.

    >>> blocks = torch.ones(1, 4, 4)
    >>> nn.Fold(output_size=3, kernel_size=2)(blocks)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """

    __constants__: ClassVar[list[str]] = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(self, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1) -> None:  # fmt: skip
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """Return the blocks that a window sees as it slides over images, as columns.

    Args:
        kernel_size: the size of the window, a number or two.
        dilation: the step between the elements of the window.
        padding: the number of zeros added at both ends of each dimension.
        stride: the step of the window.

    Shapes: input (N, C, H, W) or (C, H, W); output (N, C * elements of the window, number of blocks) or without N. A
    convolution is a matrix product with these columns.

    Errors: RuntimeError, when called, for a window larger than the padded image, and for another number
    of dimensions.

    >>> nn.Unfold(kernel_size=2)(torch.arange(9.0).reshape(1, 1, 3, 3))
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """

    __constants__: ClassVar[list[str]] = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                 stride: int | Sequence[int] = 1) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
