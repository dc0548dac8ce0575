"""Define the Array API's functions that make, join, order and rearrange tensors, and its sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula
from facula.functions import array_api as _array_api

from ._reductions import _axes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.functions.array_api import UniqueAll, UniqueCounts, UniqueInverse
    from facula.types import Device

__all__ = [
    "arange", "argsort", "broadcast_arrays", "broadcast_to", "concat", "eye", "flip", "full", "linspace", "meshgrid",
    "nonzero", "reshape", "roll", "sort", "squeeze", "stack", "take", "tril", "triu", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip


def arange(start: float, /, stop: float | None = None, step: float = 1, *, dtype: facula.dtype | None = None,
           device: Device = None) -> Tensor:  # fmt: skip
    """Return the numbers from `start` up to, but not including, `stop`; none where `step` leads away.

    Args:
        start: the first number; the end, with 0 as the first, where it stands alone.
        stop: the end.
        step: the distance, not 0.
        dtype: that of the result; None for int64 of ints, else the default dtype.
        device: that of the result.

    >>> torch.array_api.arange(4)
    tensor([0, 1, 2, 3])
    >>> torch.array_api.arange(3, 0, -1)
    tensor([3, 2, 1])
    """
    if stop is None:
        start, stop = 0, start
    if math.copysign(1, step) * (stop - start) <= 0:
        kinds = facula.result_type(facula.tensor(start), facula.tensor(stop + step))
        return facula.empty(0, dtype=dtype or (facula.int64 if not kinds.is_floating_point else None), device=device)
    return facula.arange(start, stop, step, dtype=dtype, device=device)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Return the arrays expanded to their common shape, as a list.

    Args:
        arrays: tensors whose shapes broadcast.

    Errors: RuntimeError for shapes that do not broadcast.

    >>> torch.array_api.broadcast_arrays(torch.ones(2, 1), torch.ones(2))[0].shape
    torch.Size([2, 2])
    """
    return list(facula.broadcast_tensors(*arrays))


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements along a dimension in order.

    Args:
        x: the tensor.
        axis: the dimension.
        descending: whether the largest comes first.
        stable: whether equal elements keep their order.

    Errors: IndexError for an axis outside.

    >>> torch.array_api.sort(torch.tensor([3, 1, 2]), descending=True)
    tensor([3, 2, 1])
    """
    return facula.sort(x, dim=axis, descending=descending, stable=stable).values


def argsort(x: Tensor, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the positions that sort along a dimension, int64.

    Args:
        x: the tensor.
        axis: the dimension.
        descending: whether the largest comes first.
        stable: whether equal elements keep their order.

    Errors: IndexError for an axis outside.

    >>> torch.array_api.argsort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return facula.sort(x, dim=axis, descending=descending, stable=stable).indices


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return the slices at positions along a dimension.

    Args:
        x: the tensor.
        indices: int32 or int64, of one dimension; negative ones count from the end.
        axis: the dimension, None where there is one only.

    Errors: ValueError without an axis for other than one dimension; IndexError for a position outside.

    >>> torch.array_api.take(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([2, 0]), axis=1)
    tensor([[3, 1],
            [6, 4]])
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed for an array of {x.ndim} dimensions, got None")
        axis = 0
    return x.index_select(axis, facula.where(indices < 0, indices + x.shape[axis], indices))


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the positions of the elements other than zero, one tensor for each dimension.

    Args:
        x: the tensor.

    Errors: ValueError for a 0-d tensor.

    >>> torch.array_api.nonzero(torch.tensor([[0, 1], [2, 0]]))
    (tensor([0, 1]), tensor([1, 0]))
    """
    if x.ndim == 0:
        raise ValueError("nonzero: an array of at least one dimension is expected, got 0-d")
    return tuple(facula.nonzero(x).unbind(1))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Return the coordinates of a grid, as a list of tensors of its shape.

    Args:
        arrays: tensors of one dimension.
        indexing: "xy", the first two dimensions exchanged, or "ij".

    Errors: RuntimeError for another indexing.

    >>> torch.array_api.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]))
    [tensor([[1, 2],
            [1, 2]]), tensor([[3, 3],
            [4, 4]])]
    """
    return list(facula.meshgrid(*arrays, indexing=indexing))


def linspace(start: float, stop: float, /, num: int, *, dtype: facula.dtype | None = None, device: Device = None,
             endpoint: bool = True) -> Tensor:  # fmt: skip
    """Return evenly spaced numbers.

    Args:
        start: the first one.
        stop: the last one, or what follows it.
        num: how many.
        dtype: that of the result; None for the default dtype.
        device: that of the result.
        endpoint: whether `stop` is the last one.

    >>> torch.array_api.linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    if endpoint:
        return facula.linspace(start, stop, num, dtype=dtype, device=device)
    return facula.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Return the tensors one after the other along a dimension.

    Args:
        arrays: a sequence of tensors, whose other sizes are equal.
        axis: the dimension; None joins them flattened.

    Errors: ValueError for no tensors, RuntimeError for sizes that differ.

    >>> torch.array_api.concat([torch.tensor([1]), torch.tensor([2, 3])])
    tensor([1, 2, 3])
    """
    if axis is None:
        return facula.cat([a.reshape(-1) for a in arrays], 0)
    return facula.cat(list(arrays), axis)


def full(shape: int | Sequence[int], fill_value: float, *, dtype: facula.dtype | None = None, device: Device = None) -> Tensor:
    """Return a tensor with one number everywhere.

    Args:
        shape: a sequence of sizes, or an int for one dimension.
        fill_value: the number.
        dtype: that of the result; None for what the number says.
        device: that of the result.

    >>> torch.array_api.full(2, 7)
    tensor([7, 7])
    """
    return facula.full((shape,) if isinstance(shape, int) else tuple(shape), fill_value, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: facula.dtype | None = None,
        device: Device = None) -> Tensor:  # fmt: skip
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n_rows: how many rows.
        n_cols: how many columns; None for as many.
        k: which diagonal; a positive one lies above the main one.
        dtype: that of the result; None for the default dtype.
        device: that of the result.

    >>> torch.array_api.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    n_cols = n_rows if n_cols is None else n_cols
    result = facula.zeros(n_rows, n_cols, dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the elements of matrices on and below a diagonal, zeros above.

    Args:
        x: matrices (..., n, m).
        k: which diagonal; a positive one lies above the main one.

    Errors: RuntimeError for vectors.

    >>> torch.array_api.tril(torch.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return facula.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the elements of matrices on and above a diagonal, zeros below.

    Args:
        x: matrices (..., n, m).
        k: which diagonal; a positive one lies above the main one.

    Errors: RuntimeError for vectors.

    >>> torch.array_api.triu(torch.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return facula.triu(x, k)


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """Return the tensor shown in a shape that it broadcasts to, without a copy.

    Args:
        x: the tensor.
        shape: a sequence of sizes.

    Errors: RuntimeError for a shape that it does not broadcast to.

    >>> torch.array_api.broadcast_to(torch.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return facula.broadcast_to(x, tuple(shape))


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Return tensors of one shape along a new dimension.

    Args:
        arrays: a sequence of tensors.
        axis: where the new dimension stands in the result.

    Errors: RuntimeError for no tensors and shapes that differ.

    >>> torch.array_api.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], axis=1)
    tensor([[1, 3],
            [2, 4]])
    """
    return facula.stack(list(arrays), axis)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """Return the same elements in another shape.

    Args:
        x: the tensor.
        shape: a sequence of sizes, one of which may be -1.
        copy: True for memory of its own, False for an error where sharing is impossible, None for what is needed.

    Errors: RuntimeError for sizes that do not fit, and where copy=False cannot be kept.

    >>> torch.array_api.reshape(torch.tensor([1, 2, 3, 4]), (2, -1))
    tensor([[1, 2],
            [3, 4]])
    """
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the elements along dimensions in reverse.

    Args:
        x: the tensor.
        axis: a dimension, a tuple of them, or None for all.

    Errors: IndexError for an axis outside.

    >>> torch.array_api.flip(torch.tensor([1, 2, 3]))
    tensor([3, 2, 1])
    """
    return facula.flip(x, _axes(x, axis))


def roll(x: Tensor, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the elements along dimensions moved round; those that leave at one end enter at the other.

    Args:
        x: the tensor.
        shift: by how many positions, an int or a tuple with one for each dimension.
        axis: a dimension, a tuple of them, or None for the flattened tensor.

    >>> torch.array_api.roll(torch.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    return facula.roll(x, shift, axis if axis is not None else ())


def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Any:
    """Return the tensor without some dimensions of size 1.

    Args:
        x: the tensor.
        axis: a dimension or a tuple of them.

    Errors: ValueError for a dimension of another size, IndexError for one outside.

    >>> torch.array_api.squeeze(torch.ones(1, 2, 1), 0).shape
    torch.Size([2, 1])
    """
    for a in _axes(x, axis):
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: dimensions of size 1 are expected, got size {x.shape[a]} at axis {a}")
    return facula.squeeze(x, _axes(x, axis))


def _unique(x, *, return_inverse=False, return_counts=False):
    if not x.is_complex():
        return facula.unique(x, return_inverse=return_inverse, return_counts=return_counts)
    rows = facula.view_as_real(x.reshape(-1).resolve_conj())  # ordered by real parts, then by imaginary parts
    found = facula.unique(rows, return_inverse=return_inverse, return_counts=return_counts, dim=0)
    values, *rest = found if isinstance(found, tuple) else (found,)
    if return_inverse:
        rest[0] = rest[0].reshape(x.shape)
    return (facula.view_as_complex(values), *rest)


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct values in order, the flat position of the first of each, which value each element is, and how often
    each comes.

    Args:
        x: the tensor.

    >>> found = torch.array_api.unique_all(torch.tensor([3, 1, 3]))
    >>> found.values, found.indices, found.inverse_indices, found.counts
    (tensor([1, 3]), tensor([1, 0]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    values, inverse, counts = _unique(x, return_inverse=True, return_counts=True)
    return _array_api.UniqueAll(values, _array_api.first_positions(inverse, len(values)), inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct values in order, and how often each comes.

    Args:
        x: the tensor.

    >>> found = torch.array_api.unique_counts(torch.tensor([3, 1, 3]))
    >>> found.values, found.counts
    (tensor([1, 3]), tensor([1, 2]))
    """
    return _array_api.UniqueCounts(*_unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct values in order, and which of them each element is.

    Args:
        x: the tensor.

    >>> found = torch.array_api.unique_inverse(torch.tensor([3, 1, 3]))
    >>> found.values, found.inverse_indices
    (tensor([1, 3]), tensor([1, 0, 1]))
    """
    return _array_api.UniqueInverse(*_unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct values in order.

    Args:
        x: the tensor.

    >>> torch.array_api.unique_values(torch.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    found = _unique(x)
    return found[0] if isinstance(found, tuple) else found
