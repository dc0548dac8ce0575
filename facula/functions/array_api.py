"""Define functions of the Python Array API (2024.12) for which PyTorch has no name. They are public at the top level of
facula, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import facula
from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.types import Device

__all__ = [
    "__array_namespace_info__",
    "astype",
    "bitwise_invert",
    "broadcast_arrays",
    "cumulative_prod",
    "cumulative_sum",
    "expand_dims",
    "isdtype",
    "matrix_transpose",
    "permute_dims",
    "repeat",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "vecdot",
]

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def astype(x: Tensor, dtype: facula.dtype, /, *, copy: bool = True, device: Device = None) -> Tensor:
    """Return the values of `x` in another dtype.

    Args:
        x: the tensor.
        dtype: the dtype of the result.
        copy: False gives `x` itself where nothing changes, True always a new tensor.
        device: where the result is; None for where x is.

    Returns: a tensor of the shape of x.

    >>> torch.astype(torch.tensor([1.7, -1.7]), torch.int32)
    tensor([ 1, -1], dtype=torch.int32)
    """
    return x.to(device=device, dtype=dtype, copy=copy)


def isdtype(dtype: facula.dtype, kind: facula.dtype | str | tuple[facula.dtype | str, ...]) -> bool:
    """Return whether a dtype is of a kind.

    Args:
        dtype: the dtype.
        kind: another dtype; "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating" or
            "numeric"; or a tuple of them, one of which is enough.

    Errors: ValueError for other words.

    >>> torch.isdtype(torch.float16, "real floating"), torch.isdtype(torch.uint8, ("bool", torch.int8))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: kind must be {_C._one_of(kind, _KINDS)}")
        if kind == "real floating":
            return dtype.is_floating_point
        if kind == "complex floating":
            return dtype.is_complex
        if kind == "numeric" and (dtype.is_floating_point or dtype.is_complex):
            return True
        return any(dtype is getattr(_C, name) for name in _KINDS[kind])
    return dtype == kind


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Return the bits of integers exchanged, or the logical not of bools.

    Args:
        x: a tensor of integers or bools.

    Returns: a tensor of the shape of x.

    Errors: NotImplementedError for floating-point and complex tensors.

    >>> torch.bitwise_invert(torch.tensor([0, 5]))
    tensor([-1, -6])
    """
    return facula.bitwise_not(x)


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Return the tensors expanded to the shape that they broadcast to, as a tuple of views.

    Args:
        arrays: tensors of shapes that broadcast.

    Errors: RuntimeError where they do not.

    >>> [a.shape for a in torch.broadcast_arrays(torch.ones(3), torch.ones(2, 1))]
    [torch.Size([2, 3]), torch.Size([2, 3])]
    """
    return tuple(facula.broadcast_tensors(*arrays))


def _cumulative(op, identity, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{op}: axis is needed for an array of {x.ndim} dimensions, got None")
        axis = 0
    result = getattr(facula, op)(x, axis, dtype=dtype)
    if not include_initial:
        return result
    shape = list(result.shape)
    shape[axis] = 1
    return facula.cat([facula.full(shape, identity, dtype=result.dtype, device=x.device), result], axis)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: facula.dtype | None = None,
                   include_initial: bool = False) -> Tensor:  # fmt: skip
    """Return the running sums along `axis`.

    Args:
        x: the tensor.
        axis: the dimension; may be left out for one dimension.
        dtype: that of the result; None for that of x, and int64 for smaller integers.
        include_initial: whether the empty sum, 0, stands in front, which makes the result longer by one.

    Returns: a tensor of the shape of x, with one position more along axis where include_initial is True.

    Errors: ValueError for a missing axis where there are several dimensions.

    >>> torch.cumulative_sum(torch.tensor([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
    """
    return _cumulative("cumsum", 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: facula.dtype | None = None,
                    include_initial: bool = False) -> Tensor:  # fmt: skip
    """Return the running products along `axis`.

    Args:
        x: the tensor.
        axis: the dimension; may be left out for one dimension.
        dtype: that of the result; None for that of x, and int64 for smaller integers.
        include_initial: whether the empty product, 1, stands in front, which makes the result longer by one.

    Returns: a tensor of the shape of x, with one position more along axis where include_initial is True.

    Errors: ValueError for a missing axis where there are several dimensions.

    >>> torch.cumulative_prod(torch.tensor([1, 2, 3]), include_initial=True)
    tensor([1, 1, 2, 6])
    """
    return _cumulative("cumprod", 1, x, axis, dtype, include_initial)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """Return a view of `x` with a dimension of size 1 at `axis`.

    Args:
        x: the tensor.
        axis: where the new dimension is; negative ones count from the end.

    Errors: IndexError for an axis outside.

    >>> torch.expand_dims(torch.ones(2, 3), axis=1).shape
    torch.Size([2, 1, 3])
    """
    return x.unsqueeze(axis)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Return a view with the last two dimensions exchanged.

    Args:
        x: a tensor of two or more dimensions.

    >>> torch.matrix_transpose(torch.ones(4, 2, 3)).shape
    torch.Size([4, 3, 2])
    """
    return x.mT


def permute_dims(x: Tensor, /, axes: int | Sequence[int]) -> Tensor:
    """Return a view with the dimensions in the order of `axes`.

    Args:
        x: the tensor.
        axes: each of its dimensions once.

    Errors: RuntimeError where they are not.

    >>> torch.permute_dims(torch.ones(4, 2, 3), (2, 0, 1)).shape
    torch.Size([3, 4, 2])
    """
    return x.permute(tuple(axes))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return each element several times in a row.

    Args:
        x: the tensor.
        repeats: how often, an int; or a tensor with one count for each element along `axis`.
        axis: the dimension along which elements are repeated; None flattens first.

    Returns: a tensor of the shape of x with its elements along axis repeated; a vector where axis is None.

    Errors: RuntimeError for negative repeats, and for a number of counts that is neither one nor the size along axis.

    >>> torch.repeat(torch.tensor([1, 2]), 2), torch.repeat(torch.tensor([1, 2]), torch.tensor([3, 1]))
    (tensor([1, 1, 2, 2]), tensor([1, 1, 1, 2]))
    """
    if isinstance(repeats, facula.Tensor):
        repeats = repeats.to(facula.int64)
    return facula.repeat_interleave(x, repeats, dim=axis)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the elements at `indices` along `axis`.

    Args:
        x: the tensor.
        indices: integers, of a shape that broadcasts with that of x but for `axis`.
        axis: the dimension that the indices count along.

    Errors: RuntimeError or IndexError for an index or an axis outside.

    >>> x = torch.tensor([[3, 1, 2]])
    >>> torch.take_along_axis(x, torch.argsort(x, -1))
    tensor([[1, 2, 3]])
    """
    return facula.take_along_dim(x, indices.to(facula.int64), dim=axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along `axis`, as a tuple of views.

    Args:
        x: a tensor of one or more dimensions.
        axis: the dimension that the slices do not have.

    Returns: a tuple of as many tensors as axis has positions, of the shape of x without it.

    Errors: IndexError for an axis that is not there.

    >>> torch.unstack(torch.tensor([[1, 2], [3, 4]]), axis=1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    return tuple(x.unbind(axis))


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the dot products of vectors along `axis`: sum(conj(x1) * x2).

    Args:
        x1, x2: tensors of equal size along axis, whose other dimensions broadcast; the first is conjugated.
        axis: the dimension of the vectors, which the result does not have.

    Errors: ValueError for vectors of different lengths.

    >>> torch.vecdot(torch.tensor([[1, 2], [3, 4]]), torch.tensor([10, 1]))
    tensor([12, 34])
    """
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: vectors of one length along axis {axis}, got shapes {tuple(x1.shape)} and {tuple(x2.shape)}")
    dtype = facula.promote_types(x1.dtype, x2.dtype)
    x1, x2 = x1.to(dtype), x2.to(dtype)
    a, b = facula.broadcast_tensors(x1.movedim(axis, -1), x2.movedim(axis, -1)) if x1.shape != x2.shape else (x1, x2)
    dim = -1 if x1.shape != x2.shape else axis
    return ((a.conj() if a.is_complex() else a) * b).sum(dim, dtype=dtype)


class UniqueAll(NamedTuple):
    """Hold the results of `unique_all`."""

    values: facula.Tensor
    indices: facula.Tensor
    inverse_indices: facula.Tensor
    counts: facula.Tensor


class UniqueCounts(NamedTuple):
    """Hold the results of `unique_counts`."""

    values: facula.Tensor
    counts: facula.Tensor


class UniqueInverse(NamedTuple):
    """Hold the results of `unique_inverse`."""

    values: facula.Tensor
    inverse_indices: facula.Tensor


def first_positions(inverse: Tensor, count: int) -> Tensor:
    """Return where each of `count` values is first, given which value each element is."""
    flat = inverse.reshape(-1)
    positions = facula.arange(flat.numel(), device=flat.device)
    first = facula.full((count,), flat.numel(), dtype=facula.int64, device=flat.device)
    return first.scatter_reduce(0, flat, positions, "amin", include_self=True)


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct values of a tensor in ascending order, where each is first, which one each element is, and their
    counts.

    Args:
        x: a tensor of any shape.

    Returns: a named tuple of values, indices (into x flattened), inverse_indices (of the shape of x) and counts.

    >>> torch.unique_all(torch.tensor([3, 1, 3]))
    UniqueAll(values=tensor([1, 3]), indices=tensor([1, 0]), inverse_indices=tensor([1, 0, 1]), counts=tensor([1, 2]))
    """
    values, inverse, counts = facula.unique(x, return_inverse=True, return_counts=True)
    return UniqueAll(values, first_positions(inverse, len(values)), inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct values of a tensor in ascending order, and how often each is there.

    Args:
        x: a tensor of any shape.

    Returns: a named tuple of values and counts.

    >>> torch.unique_counts(torch.tensor([3, 1, 3]))
    UniqueCounts(values=tensor([1, 3]), counts=tensor([1, 2]))
    """
    return UniqueCounts(*facula.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct values of a tensor in ascending order, and which of them each element is.

    Args:
        x: a tensor of any shape.

    Returns: a named tuple of values and inverse_indices, of the shape of x.

    >>> torch.unique_inverse(torch.tensor([3, 1, 3]))
    UniqueInverse(values=tensor([1, 3]), inverse_indices=tensor([1, 0, 1]))
    """
    return UniqueInverse(*facula.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor | Any:
    """Return the distinct values of a tensor in ascending order.

    Args:
        x: a tensor of any shape.

    >>> torch.unique_values(torch.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    return facula.unique(x)


class _Info:
    """Describe the capabilities, devices and dtypes of this namespace, as the Array API requires."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return facula.get_default_device()

    def devices(self):
        return [_C.device("cpu")]

    def default_dtypes(self, *, device=None):
        real = _C.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": _C.int64,
            "indexing": _C.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        return {name: getattr(_C, name) for k in kinds for name in _KINDS[k]}


def __array_namespace_info__() -> Any:
    """Return an object that answers capabilities(), default_device(), default_dtypes(), devices() and dtypes()."""
    return _Info()
