"""Define the pooling functions of nn.functional with windows of a given size, over inputs (N, C, spatial...) or (C,
spatial...).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from facula import _C
from facula._C import avg_pool1d
from facula._C.nn_functional import avg_pool2d, avg_pool3d

from .._tuples import _pair, _single, _triple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = [
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices",
    "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


_nn = _C.nn_functional


def max_pool1d_with_indices(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                            padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `max_pool1d` gives, and where the maxima were, as positions in the input's last dimension.

    Args:
        input: the values, (N, C, L) or (C, L).
        kernel_size: the size of the window.
        stride: the step of the window. Default: kernel_size.
        padding: the number of elements added at both ends of the dimension; at most half the window.
        dilation: the step between the elements of a window.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        return_indices: if True, also return where the maxima were.

    Returns: (values, indices), both (N, C, L_out) or (C, L_out), where a dimension of size L becomes
    ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, whatever return_indices says.

    Errors: RuntimeError for another number of dimensions, a padding of more than half the window, or an output without
    elements.

    >>> F.max_pool1d_with_indices(torch.tensor([[[1.0, 3.0, 2.0, 5.0]]]), 2)
    (tensor([[[3., 5.]]]), tensor([[[1, 3]]]))
    """
    return _C.max_pool1d_with_indices(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                            padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `max_pool2d` gives, and where the maxima were, as positions in each plane of H * W elements.

    Args:
        input: the values, (N, C, H, W) or (C, H, W).
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of elements added at both ends of each dimension; at most half the window.
        dilation: the step between the elements of a window, a number or one for each dimension.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        return_indices: if True, also return where the maxima were.

    Returns: (values, indices), both (N, C, H_out, W_out) or (C, H_out, W_out), where a dimension of size L becomes
    ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, whatever return_indices says.

    Errors: RuntimeError for another number of dimensions, a padding of more than half the window, or an output without
    elements.

    >>> F.max_pool2d_with_indices(torch.arange(16.0).reshape(1, 4, 4), 2)[1]
    tensor([[[ 5,  7],
             [13, 15]]])
    """
    return _nn.max_pool2d_with_indices(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                            padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `max_pool3d` gives, and where the maxima were, as positions in each volume of D * H * W elements.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of elements added at both ends of each dimension; at most half the window.
        dilation: the step between the elements of a window, a number or one for each dimension.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        return_indices: if True, also return where the maxima were.

    Returns: (values, indices), both (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), where a dimension of size L
    becomes ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, whatever return_indices says.

    Errors: RuntimeError for another number of dimensions, a padding of more than half the window, or an output without
    elements.

    >>> F.max_pool3d_with_indices(torch.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    (tensor([[[[[7.]]]]]), tensor([[[[[7]]]]]))
    """
    return _nn.max_pool3d_with_indices(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


def max_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """Return the maximum of each window of the last dimension. Padding is minus infinity.

    Args:
        input: the values, (N, C, L) or (C, L).
        kernel_size: the size of the window.
        stride: the step of the window. Default: kernel_size.
        padding: the number of elements added at both ends of the dimension; at most half the window.
        dilation: the step between the elements of a window.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        return_indices: if True, also return where the maxima were.

    Returns: (N, C, L_out) or (C, L_out), where a dimension of size L becomes
    ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``; with return_indices a pair (values, indices) of such
    tensors.

    Errors: RuntimeError for another number of dimensions, a padding of more than half the window, or an output without
    elements.

    >>> F.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 5.0]]), 2, stride=1)
    tensor([[3., 3., 5.]])
    """
    if return_indices:
        return max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return _C.max_pool1d(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


def max_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """Return the maximum of each window of the last two dimensions. Padding is minus infinity.

    Args:
        input: the values, (N, C, H, W) or (C, H, W).
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of elements added at both ends of each dimension; at most half the window.
        dilation: the step between the elements of a window, a number or one for each dimension.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        return_indices: if True, also return where the maxima were.

    Returns: (N, C, H_out, W_out) or (C, H_out, W_out), where a dimension of size L becomes
    ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``; with return_indices a pair (values, indices) of such
    tensors.

    Errors: RuntimeError for another number of dimensions, a padding of more than half the window, or an output without
    elements.

    >>> F.max_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    if return_indices:
        return max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return _C.max_pool2d(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


def max_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """Return the maximum of each window of the last three dimensions. Padding is minus infinity.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of elements added at both ends of each dimension; at most half the window.
        dilation: the step between the elements of a window, a number or one for each dimension.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        return_indices: if True, also return where the maxima were.

    Returns: (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), where a dimension of size L becomes
    ``(L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``; with return_indices a pair (values, indices) of such
    tensors.

    Errors: RuntimeError for another number of dimensions, a padding of more than half the window, or an output without
    elements.

    >>> F.max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    if return_indices:
        return max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return _C.max_pool3d(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)


def _unpool_output_size(name: str, input, kernel_size, stride, padding, output_size) -> list[int]:
    """Check the wanted size against the default one; a size may differ by less than one stride either way."""
    n = len(kernel_size)
    sizes = input.shape[-n:]
    default = [(sizes[d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        return default
    wanted = list(output_size)
    if len(wanted) == n + 2:
        wanted = wanted[2:]
    if len(wanted) != n:
        raise ValueError(f"{name}: output_size must have {n} or {n + 2} entries, got {tuple(output_size)}")
    for d in range(n):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < wanted[d] < high:
            raise ValueError(
                f"{name}: output_size[{d}] must be between {low} and {high} (both excluded), got "
                f"{tuple(output_size)}"
            )
    return wanted


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, output_size: Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Undo `max_pool1d`: put the values where ``indices`` says, and zeros elsewhere.

    Args:
        input: the values, (N, C, L) or (C, L).
        indices: where the values were, as pooling with return_indices returns it.
        kernel_size: the size of the window.
        stride: the step of the window. Default: kernel_size.
        padding: the number of elements added at both ends of the dimension; at most half the window.
        output_size: the sizes of the output. Default: ``(size - 1) * stride + kernel_size - 2 * padding`` for each; others must
            be within a stride of that.

    Returns: (N, C, L_out) or (C, L_out), of the dtype of input.

    Errors: ValueError for an output_size out of reach; RuntimeError for indices of another shape or outside the output, and, as
    equal indices may meet, where use_deterministic_algorithms is on.

    >>> values, indices = F.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 5.0]]), 2, return_indices=True)
    >>> F.max_unpool1d(values, indices, 2)
    tensor([[0., 3., 0., 5.]])
    """
    kernel = _single(kernel_size)
    stride = _single(stride) if stride is not None else kernel
    padding = _single(padding)
    size = _unpool_output_size("max_unpool1d", input, kernel, stride, padding, output_size)
    return _nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, output_size: Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Undo `max_pool2d`: put the values where ``indices`` says, and zeros elsewhere.

    Args:
        input: the values, (N, C, H, W) or (C, H, W).
        indices: where the values were, as pooling with return_indices returns it.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of elements added at both ends of each dimension; at most half the window.
        output_size: the sizes of the output. Default: ``(size - 1) * stride + kernel_size - 2 * padding`` for each; others must
            be within a stride of that.

    Returns: (N, C, H_out, W_out) or (C, H_out, W_out), of the dtype of input.

    Errors: ValueError for an output_size out of reach; RuntimeError for indices of another shape or outside the output, and, as
    equal indices may meet, where use_deterministic_algorithms is on.

    >>> values, indices = F.max_pool2d(torch.arange(1.0, 5).reshape(1, 2, 2), 2, return_indices=True)
    >>> F.max_unpool2d(values, indices, 2)
    tensor([[[0., 0.],
             [0., 4.]]])
    """
    kernel = _pair(kernel_size)
    stride = _pair(stride) if stride is not None else kernel
    padding = _pair(padding)
    size = _unpool_output_size("max_unpool2d", input, kernel, stride, padding, output_size)
    return _nn.max_unpool2d(input, indices, size)


def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, output_size: Sequence[int] | None = None) -> Tensor:  # fmt: skip
    """Undo `max_pool3d`: put the values where ``indices`` says, and zeros elsewhere.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        indices: where the values were, as pooling with return_indices returns it.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of elements added at both ends of each dimension; at most half the window.
        output_size: the sizes of the output. Default: ``(size - 1) * stride + kernel_size - 2 * padding`` for each; others must
            be within a stride of that.

    Returns: (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), of the dtype of input.

    Errors: ValueError for an output_size out of reach; RuntimeError for indices of another shape or outside the output, and, as
    equal indices may meet, where use_deterministic_algorithms is on.

    >>> values, indices = F.max_pool3d(torch.arange(1.0, 9).reshape(1, 2, 2, 2), 2, return_indices=True)
    >>> F.max_unpool3d(values, indices, 2)
    tensor([[[[0., 0.],
              [0., 0.]],
    <BLANKLINE>
             [[0., 0.],
              [0., 8.]]]])
    """
    kernel = _triple(kernel_size)
    stride = _triple(stride) if stride is not None else kernel
    padding = _triple(padding)
    size = _unpool_output_size("max_unpool3d", input, kernel, stride, padding, output_size)
    return _nn.max_unpool3d(input, indices, size, stride, padding)


def _lp_pool(pool, n: int, input, norm_type, kernel_size, stride, ceil_mode):
    """Return ``(sum over the window of x ** norm_type) ** (1 / norm_type)``; NaN for a negative sum and norm_type above 1.

    Of an infinite norm_type it is the limit, the largest or smallest magnitude.
    """
    if math.isinf(norm_type):
        largest = (max_pool1d, max_pool2d, max_pool3d)[n - 1]
        sign = 1 if norm_type > 0 else -1
        return sign * largest(sign * input.abs(), kernel_size, stride, ceil_mode=ceil_mode)
    # There is a kernel for means of windows, so that sums are means times the number of elements.
    window = 1
    for size in (kernel_size,) * n if isinstance(kernel_size, int) else kernel_size:
        window *= size
    mean = pool(input.pow(norm_type), kernel_size, () if stride is None else stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu()).mul(window).pow(1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """Return the power sum of each window of the last dimension: ``(sum of x ** norm_type) ** (1 / norm_type)``.

    It is NaN for a negative sum, which an odd norm_type can give.

    Args:
        input: the values, (N, C, L) or (C, L).
        norm_type: the power.
        kernel_size: the size of the window.
        stride: the step of the window. Default: kernel_size.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: output (N, C, L_out) or (C, L_out).

    Returns: (N, C, L_out) or (C, L_out), where a dimension of size L becomes ``(L - kernel_size) // stride + 1``.

    Errors: RuntimeError for another number of dimensions; ZeroDivisionError for a norm_type of 0.

    >>> F.lp_pool1d(torch.tensor([[3.0, 4.0, 0.0, 1.0]]), 2, 2)
    tensor([[5., 1.]])
    """
    return _lp_pool(avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """Return the power sum of each window of the last two dimensions: ``(sum of x ** norm_type) ** (1 / norm_type)``.

    It is NaN for a negative sum, which an odd norm_type can give.

    Args:
        input: the values, (N, C, H, W) or (C, H, W).
        norm_type: the power.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: output (N, C, H_out, W_out) or (C, H_out, W_out).

    Returns: (N, C, H_out, W_out) or (C, H_out, W_out), where a dimension of size L becomes ``(L - kernel_size) // stride + 1``.

    Errors: RuntimeError for another number of dimensions; ZeroDivisionError for a norm_type of 0.

    >>> F.lp_pool2d(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _lp_pool(avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """Return the power sum of each window of the last three dimensions: ``(sum of x ** norm_type) ** (1 / norm_type)``.

    It is NaN for a negative sum, which an odd norm_type can give.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        norm_type: the power.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out).

    Returns: (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), where a dimension of size L becomes
    ``(L - kernel_size) // stride + 1``.

    Errors: RuntimeError for another number of dimensions; ZeroDivisionError for a norm_type of 0.

    >>> F.lp_pool3d(torch.ones(1, 2, 2, 2), 3, 2)
    tensor([[[[2.]]]])
    """
    return _lp_pool(avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)
