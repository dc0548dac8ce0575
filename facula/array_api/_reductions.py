"""Define the Array API's functions that reduce dimensions, or work along one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula._shared.dims import counted_dims
from facula.functions import array_api as _array_api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod",
    "std", "sum", "var",
]  # fmt: skip


def _axes(x, axis):
    """Return every axis for None; a tuple for one."""
    return tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def _ordered(x):
    """Return uint64 as the int64 of the same order, which reductions know; other tensors as they are."""
    return x.view(facula.int64) ^ -(2**63) if x.dtype is facula.uint64 else x


def _reordered(result, x):
    """Undo _ordered for elements of `x`."""
    return (result ^ -(2**63)).view(facula.uint64) if x.dtype is facula.uint64 else result


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the position of the first largest element along a dimension, int64.

    Args:
        x: the tensor.
        axis: the dimension, None for the position in the flattened tensor.
        keepdims: whether dimensions that are reduced stay, with size 1.

    Errors: IndexError for an axis outside; a tensor without elements has no such position.

    >>> torch.array_api.argmax(torch.tensor([[1, 5], [7, 2]]), axis=1)
    tensor([1, 0])
    """
    return facula.argmax(_ordered(x), axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the position of the first smallest element along a dimension, int64.

    Args:
        x: the tensor.
        axis: the dimension, None for the position in the flattened tensor.
        keepdims: whether dimensions that are reduced stay, with size 1.

    Errors: IndexError for an axis outside; a tensor without elements has no such position.

    >>> torch.array_api.argmin(torch.tensor([[1, 5], [7, 2]]), axis=1)
    tensor([0, 1])
    """
    return facula.argmin(_ordered(x), axis, keepdims)


def max(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the largest elements over dimensions.

    Args:
        x: the tensor.
        axis: a dimension, a tuple of them, or None for all.
        keepdims: whether dimensions that are reduced stay, with size 1.

    Errors: IndexError for an axis outside and one without elements.

    >>> torch.array_api.max(torch.tensor([[1, 5], [7, 2]]), axis=1)
    tensor([5, 7])
    """
    return x.clone() if axis == () else _reordered(facula.amax(_ordered(x), _axes(x, axis), keepdim=keepdims), x)


def min(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the smallest elements over dimensions.

    Args:
        x: the tensor.
        axis: a dimension, a tuple of them, or None for all.
        keepdims: whether dimensions that are reduced stay, with size 1.

    Errors: IndexError for an axis outside and one without elements.

    >>> torch.array_api.min(torch.tensor([[1, 5], [7, 2]]), axis=1)
    tensor([1, 2])
    """
    return x.clone() if axis == () else _reordered(facula.amin(_ordered(x), _axes(x, axis), keepdim=keepdims), x)


def _sum_dtype(x, dtype):
    """Return the dtype of a sum: sums of unsigned integers stay unsigned, where PyTorch's are int64."""
    unsigned = (facula.uint8, facula.uint16, facula.uint32, facula.uint64)
    return facula.uint64 if dtype is None and x.dtype in unsigned else dtype


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: facula.dtype | None = None,
                   include_initial: bool = False) -> Tensor:  # fmt: skip
    """Return the running sums along a dimension.

    Args:
        x: the tensor.
        axis: the dimension; None where there is one only.
        dtype: that of the result; None for the tensor's, of integers of fewer bits int64 or uint64.
        include_initial: whether the empty one, 0, stands in front.

    Errors: ValueError without an axis for other than one dimension.

    >>> torch.array_api.cumulative_sum(torch.tensor([2, 3, 4]), include_initial=True)
    tensor([0, 2, 5, 9])
    """
    return _array_api.cumulative_sum(x, axis=axis, dtype=_sum_dtype(x, dtype), include_initial=include_initial)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: facula.dtype | None = None,
                    include_initial: bool = False) -> Tensor:  # fmt: skip
    """Return the running products along a dimension.

    Args:
        x: the tensor.
        axis: the dimension; None where there is one only.
        dtype: that of the result; None for the tensor's, of integers of fewer bits int64 or uint64.
        include_initial: whether the empty one, 1, stands in front.

    Errors: ValueError without an axis for other than one dimension.

    >>> torch.array_api.cumulative_prod(torch.tensor([2, 3, 4]), include_initial=True)
    tensor([ 1,  2,  6, 24])
    """
    return _array_api.cumulative_prod(x, axis=axis, dtype=_sum_dtype(x, dtype), include_initial=include_initial)


def prod(x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: facula.dtype | None = None,
         keepdims: bool = False) -> Tensor:  # fmt: skip
    """Return the product over dimensions, 1 of no elements.

    Args:
        x: the tensor.
        axis: a dimension, a tuple of them, or None for all.
        dtype: that of the result; None for the tensor's, of integers of fewer bits int64 or uint64.
        keepdims: whether dimensions that are reduced stay, with size 1.

    Errors: IndexError for an axis outside.

    >>> torch.array_api.prod(torch.tensor([[1, 2], [3, 4]]), axis=1)
    tensor([ 2, 12])
    """
    dtype = _sum_dtype(x, dtype)
    axes = sorted(counted_dims("prod", _axes(x, axis), x.ndim), reverse=True)
    if dtype is None and not axes:
        dtype = facula.prod(x[(0,) * x.ndim]).dtype if x.numel() else None
    result = x if dtype is None else x.to(dtype)
    for a in axes:
        result = facula.prod(result, a, keepdim=keepdims, dtype=dtype)
    return result


def sum(x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: facula.dtype | None = None,
        keepdims: bool = False) -> Tensor:  # fmt: skip
    """Return the sum over dimensions, 0 of no elements.

    Args:
        x: the tensor.
        axis: a dimension, a tuple of them, or None for all.
        dtype: that of the result; None for the tensor's, of integers of fewer bits int64 or uint64.
        keepdims: whether dimensions that are reduced stay, with size 1.

    Errors: IndexError for an axis outside.

    >>> torch.array_api.sum(torch.tensor([[1, 2], [3, 4]]), axis=1)
    tensor([3, 7])
    """
    dtype = _sum_dtype(x, dtype)
    if axis == ():
        return x.to(dtype) if dtype is not None else x + 0 * x.new_zeros(()).sum()
    return facula.sum(x, _axes(x, axis), keepdim=keepdims, dtype=dtype)


def all(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements over dimensions are true, that is not zero.

    Args:
        x: the tensor.
        axis: a dimension, a tuple of them, or None for all.
        keepdims: whether dimensions that are reduced stay, with size 1.

    >>> torch.array_api.all(torch.tensor([[1, 0], [3, 4]]), axis=1)
    tensor([False,  True])
    """
    return _logical(facula.all, x, axis, keepdims)


def any(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return whether some element over dimensions is true, that is not zero.

    Args:
        x: the tensor.
        axis: a dimension, a tuple of them, or None for all.
        keepdims: whether dimensions that are reduced stay, with size 1.

    >>> torch.array_api.any(torch.tensor([[1, 0], [3, 4]]), axis=1)
    tensor([True, True])
    """
    return _logical(facula.any, x, axis, keepdims)


def _logical(op, x, axis, keepdims):
    result = x.to(facula.bool)
    for a in sorted(counted_dims(op.__name__, _axes(x, axis), x.ndim), reverse=True):
        result = op(result, a, keepdim=keepdims)
    return result


def mean(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the mean over dimensions.

    Args:
        x: the tensor, floating or complex.
        axis: a dimension, a tuple of them, or None for all.
        keepdims: whether dimensions that are reduced stay, with size 1.

    Errors: IndexError for an axis outside; NotImplementedError for integers.

    >>> torch.array_api.mean(torch.tensor([[1., 2.], [3., 4.]]), axis=1)
    tensor([1.5000, 3.5000])
    """
    return x.clone() if axis == () else facula.mean(x, _axes(x, axis), keepdim=keepdims)


def std(x: Tensor, /, *, axis: int | Sequence[int] | None = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the standard deviation over dimensions, the root of var.

    Args:
        x: the tensor, floating.
        axis: a dimension, a tuple of them, or None for all.
        correction: what is subtracted from the count of the elements.
        keepdims: whether dimensions that are reduced stay, with size 1.

    >>> torch.array_api.std(torch.tensor([1., 3.]))
    tensor(1.)
    """
    return _spread(facula.std, x, axis, correction, keepdims)


def var(x: Tensor, /, *, axis: int | Sequence[int] | None = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the variance over dimensions, ``sum((x - mean)**2) / (count - correction)``.

    Args:
        x: the tensor, floating.
        axis: a dimension, a tuple of them, or None for all.
        correction: what is subtracted from the count of the elements.
        keepdims: whether dimensions that are reduced stay, with size 1.

    >>> torch.array_api.var(torch.tensor([1., 3.]), correction=1.0)
    tensor(2.)
    """
    return _spread(facula.var, x, axis, correction, keepdims)


def _spread(op, x, axis, correction, keepdims):
    if axis == ():  # every element for itself: a deviation of zero, with 1 - correction degrees of freedom
        return (x - x) / facula.clamp(facula.tensor(1.0 - correction, dtype=x.dtype), min=0)
    return op(x, _axes(x, axis), correction=correction, keepdim=keepdims)


def count_nonzero(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return how many elements over dimensions are not zero.

    Args:
        x: the tensor.
        axis: a dimension, a tuple of them, or None for all.
        keepdims: whether dimensions that are reduced stay, with size 1.

    >>> torch.array_api.count_nonzero(torch.tensor([[0, 1], [2, 3]]), axis=1)
    tensor([1, 2])
    """
    return sum(facula.ne(x, 0), axis=axis, keepdims=keepdims)
