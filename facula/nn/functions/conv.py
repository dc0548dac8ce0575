"""Define the convolution functions of nn.functional, and the sliding blocks from which they can be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

from .._tuples import _pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor

__all__ = ["fold", "unfold"]

_nn = _C.nn_functional


def unfold(input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
           stride: int | Sequence[int] = 1) -> Tensor:  # fmt: skip
    """Return the windows of images as columns.

    Args:
        input: the images, (N, C, H, W) or (C, H, W).
        kernel_size: the size of the window, a number or one for each dimension.
        dilation: the step between the elements of a window.
        padding: the number of zeros added at both ends of each dimension.
        stride: the step of the window.

    Returns: (N, C * kernel height * kernel width, number of windows), or without N.

    Errors: RuntimeError for another number of dimensions, and for a window larger than the padded image.

    >>> F.unfold(torch.arange(9.0).reshape(1, 1, 3, 3), 2)
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """
    return _nn.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def fold(input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
         padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1) -> Tensor:  # fmt: skip
    """Add columns of windows back up to images; elements that several windows hold are summed. The adjoint of `unfold`.

    Args:
        input: the columns, (N, C * kernel height * kernel width, number of windows), or without N.
        output_size: the height and the width of the images.
        kernel_size: the size of the window, a number or one for each dimension.
        dilation: the step between the elements of a window.
        padding: the number of elements that are left out at both ends of each dimension.
        stride: the step of the window.

    Returns: (N, C, *output_size), or without N.

    Errors: RuntimeError for a number of windows that does not fit the sizes.

    >>> F.fold(F.unfold(torch.ones(1, 1, 3, 3), 2), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    return _nn.col2im(
        input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride)
    )
