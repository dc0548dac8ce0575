"""Define the pooling functions of nn.functional whose windows follow from the size of the output: adaptive and
fractional ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

from .._tuples import _list_with_default, _pair, _triple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]  # fmt: skip

_nn = _C.nn_functional


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: int | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `adaptive_max_pool1d` gives, and where the maxima were, as positions in the input's last dimension.

    Args:
        input: the values, (N, C, L) or (C, L).
        output_size: the size of the output; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Returns: (values, indices), both (N, C, L_out) or (C, L_out), whatever return_indices says.

    Errors: RuntimeError for another number of dimensions or a negative size.

    >>> F.adaptive_max_pool1d_with_indices(torch.tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
    (tensor([[3., 5.]]), tensor([[1, 3]]))
    """
    return _C.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: int | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `adaptive_max_pool2d` gives, and where the maxima were, as positions in each plane of H * W elements.

    Args:
        input: the values, (N, C, H, W) or (C, H, W).
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Returns: (values, indices), both (N, C, H_out, W_out) or (C, H_out, W_out), whatever return_indices says.

    Errors: RuntimeError for another number of dimensions or a negative size.

    >>> F.adaptive_max_pool2d_with_indices(torch.arange(16.0).reshape(1, 4, 4), 1)
    (tensor([[[15.]]]), tensor([[[15]]]))
    """
    return _nn.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: int | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `adaptive_max_pool3d` gives, and where the maxima were, as positions in each volume of D * H * W elements.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Returns: (values, indices), both (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), whatever return_indices says.

    Errors: RuntimeError for another number of dimensions or a negative size.

    >>> F.adaptive_max_pool3d_with_indices(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    return _nn.adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))


def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Tensor | Any:
    """Return the maxima of as many windows as the output shall have elements: the i-th covers ``floor(i * L / L_out)`` to
    ``ceil((i + 1) * L / L_out)``.

    Args:
        input: the values, (N, C, L) or (C, L).
        output_size: the size of the output; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Returns: (N, C, L_out) or (C, L_out) of the sizes output_size; with return_indices a pair (values, indices) of such tensors.

    Errors: RuntimeError for another number of dimensions or a negative size.

    >>> F.adaptive_max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 5.0, 4.0]]), 2)
    tensor([[3., 5.]])
    """
    result = adaptive_max_pool1d_with_indices(input, output_size)
    return result if return_indices else result[0]


def adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Tensor | Any:
    """Return the maxima of windows that are laid so that the output has the given height and width.

    Args:
        input: the values, (N, C, H, W) or (C, H, W).
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Returns: (N, C, H_out, W_out) or (C, H_out, W_out) of the sizes output_size; with return_indices a pair (values, indices) of
    such tensors.

    Errors: RuntimeError for another number of dimensions or a negative size.

    >>> F.adaptive_max_pool2d(torch.arange(16.0).reshape(1, 4, 4), (1, None))
    tensor([[[12., 13., 14., 15.]]])
    """
    result = adaptive_max_pool2d_with_indices(input, output_size)
    return result if return_indices else result[0]


def adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Tensor | Any:
    """Return the maxima of windows that are laid so that the output has the given depth, height and width.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Returns: (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out) of the sizes output_size; with return_indices a pair
    (values, indices) of such tensors.

    Errors: RuntimeError for another number of dimensions or a negative size.

    >>> F.adaptive_max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), (1, 1, 2))
    tensor([[[[6., 7.]]]])
    """
    result = adaptive_max_pool3d_with_indices(input, output_size)
    return result if return_indices else result[0]


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """Return the means of windows that are laid so that the output has the given height and width; 1 is the mean of the whole
    image.

    Args:
        input: the values, (N, C, H, W) or (C, H, W).
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.

    Returns: (N, C, H_out, W_out) or (C, H_out, W_out) of the sizes output_size.

    Errors: RuntimeError for another number of dimensions or a negative size.

    >>> F.adaptive_avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), (1, None))
    tensor([[[6., 7., 8., 9.]]])
    """
    return _nn.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """Return the means of windows that are laid so that the output has the given depth, height and width.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.

    Returns: (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out) of the sizes output_size.

    Errors: RuntimeError for another number of dimensions or a negative size.

    >>> F.adaptive_avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    return _nn.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: int | Sequence[int],
                                       output_size: int | Sequence[int] | None = None,
                                       output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                                       _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `fractional_max_pool2d` gives, and where the maxima were, as positions in each plane of H * W elements.

    Args:
        input: the values, (N, C, H, W) or (C, H, W).
        kernel_size: the size of the window, a number or one for each dimension.
        output_size: the sizes of the output, a number or one for each dimension; or
        output_ratio: output sizes over input sizes, in (0, 1); used if output_size is None.
        return_indices: if True, also return where the maxima were.

    Returns: (values, indices), both (N, C, H_out, W_out) or (C, H_out, W_out), whatever return_indices says.

    Errors: ValueError for neither of output_size and output_ratio; RuntimeError for windows that do not fit into the input;
    IndexError for too few dimensions.

    >>> values, indices = F.fractional_max_pool2d_with_indices(torch.randn(1, 1, 9, 9), 2, output_ratio=0.5)
    >>> values.shape, indices.dtype
    (torch.Size([1, 1, 4, 4]), torch.int64)
    """
    output_size, samples = _fractional_setup(
        "fractional_max_pool2d", 2, input, output_size, output_ratio, _random_samples
    )
    return _nn.fractional_max_pool2d(input, _pair(kernel_size), output_size, samples)


def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: int | Sequence[int],
                                       output_size: int | Sequence[int] | None = None,
                                       output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                                       _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `fractional_max_pool3d` gives, and where the maxima were, as positions in each volume of D * H * W elements.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of the window, a number or one for each dimension.
        output_size: the sizes of the output, a number or one for each dimension; or
        output_ratio: output sizes over input sizes, in (0, 1); used if output_size is None.
        return_indices: if True, also return where the maxima were.

    Returns: (values, indices), both (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), whatever return_indices says.

    Errors: ValueError for neither of output_size and output_ratio; RuntimeError for windows that do not fit into the input;
    IndexError for too few dimensions.

    >>> values, indices = F.fractional_max_pool3d_with_indices(torch.randn(1, 1, 9, 9, 9), 2, output_ratio=0.5)
    >>> values.shape, indices.dtype
    (torch.Size([1, 1, 4, 4, 4]), torch.int64)
    """
    output_size, samples = _fractional_setup(
        "fractional_max_pool3d", 3, input, output_size, output_ratio, _random_samples
    )
    return _nn.fractional_max_pool3d(input, _triple(kernel_size), output_size, samples)


def _fractional_setup(name: str, n: int, input, output_size, output_ratio, samples):
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name}: needs output_size or output_ratio, got neither")
    if output_size is None:
        ratios = (output_ratio,) * n if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
        if len(ratios) > n:
            raise ValueError(f"{name}: output_ratio must be a number or {n} of them, got {output_ratio!r}")
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-n:], ratios)]
    elif isinstance(output_size, int):
        output_size = [output_size] * n
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        samples = facula.rand(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
    return output_size, samples


def fractional_max_pool2d(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
                          output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                          _random_samples: Tensor | None = None) -> Tensor | Any:  # fmt: skip
    """Return the maxima of windows at pseudo-random places, whose steps are such that the output has the given size.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: size of the windows.
        output_size: output H and W; or
        output_ratio: output size over input size, in (0, 1).
        return_indices: if True, also return where the maxima were.

    Returns: (N, C, H_out, W_out) or (C, H_out, W_out); with return_indices a pair (values, indices) of such tensors.

    Errors: ValueError for neither of output_size and output_ratio; RuntimeError for windows that do not fit into the input;
    IndexError for too few dimensions.

    >>> F.fractional_max_pool2d(torch.randn(1, 1, 9, 9), 2, output_size=(4, 5)).shape
    torch.Size([1, 1, 4, 5])
    """
    result = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return result if return_indices else result[0]


def fractional_max_pool3d(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
                          output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                          _random_samples: Tensor | None = None) -> Tensor | Any:  # fmt: skip
    """Return the maxima of windows at pseudo-random places, whose steps are such that the output has the given size.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of the window, a number or one for each dimension.
        output_size: the sizes of the output, a number or one for each dimension; or
        output_ratio: output sizes over input sizes, in (0, 1); used if output_size is None.
        return_indices: if True, also return where the maxima were.

    Returns: (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out); with return_indices a pair (values, indices) of such
    tensors.

    Errors: ValueError for neither of output_size and output_ratio; RuntimeError for windows that do not fit into the input;
    IndexError for too few dimensions.

    >>> F.fractional_max_pool3d(torch.randn(1, 1, 9, 9, 9), 2, output_size=4).shape
    torch.Size([1, 1, 4, 4, 4])
    """
    result = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return result if return_indices else result[0]
