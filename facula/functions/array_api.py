"""Functions of the Python Array API (2024.12) that PyTorch has no name for; public at the top level of facula too."""

from __future__ import annotations

import collections

import facula
from facula import _C

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


def astype(x, dtype, /, *, copy=True, device=None):
    """`x` in another dtype; a copy unless copy=False and nothing changes."""
    return x.to(device=device, dtype=dtype, copy=copy)


def isdtype(dtype, kind):
    """Whether `dtype` is `kind`: a dtype, a name such as "integral" or "real floating", or a tuple of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: kind is one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
        if kind == "real floating":
            return dtype.is_floating_point
        if kind == "complex floating":
            return dtype.is_complex
        if kind == "numeric" and (dtype.is_floating_point or dtype.is_complex):
            return True
        return any(dtype is getattr(_C, name) for name in _KINDS[kind])
    return dtype == kind


def bitwise_invert(x, /):
    """As bitwise_not."""
    return facula.bitwise_not(x)


def broadcast_arrays(*arrays):
    """The arrays expanded to their common shape."""
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


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running sums along `axis`; include_initial puts the empty sum, 0, in front."""
    return _cumulative("cumsum", 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running products along `axis`; include_initial puts the empty product, 1, in front."""
    return _cumulative("cumprod", 1, x, axis, dtype, include_initial)


def expand_dims(x, /, axis=0):
    """`x` with a dimension of size 1 at `axis`."""
    return x.unsqueeze(axis)


def matrix_transpose(x, /):
    """The last two dimensions exchanged."""
    return x.mT


def permute_dims(x, /, axes):
    """The dimensions in the order of `axes`."""
    return x.permute(tuple(axes))


def repeat(x, repeats, /, *, axis=None):
    """Each element `repeats` times (an int, or a tensor with one count per element) along `axis`; None: flattened."""
    if isinstance(repeats, facula.Tensor):
        repeats = repeats.to(facula.int64)
    return facula.repeat_interleave(x, repeats, dim=axis)


def take_along_axis(x, indices, /, *, axis=-1):
    """The elements at `indices` along `axis`."""
    return facula.take_along_dim(x, indices.to(facula.int64), dim=axis)


def unstack(x, /, *, axis=0):
    """The slices along `axis`, as a tuple."""
    return tuple(x.unbind(axis))


def vecdot(x1, x2, /, *, axis=-1):
    """The dot products of vectors along `axis`; the first is conjugated."""
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: vectors of one length along axis {axis}, got shapes {list(x1.shape)} and {list(x2.shape)}")
    dtype = facula.promote_types(x1.dtype, x2.dtype)
    x1, x2 = x1.to(dtype), x2.to(dtype)
    a, b = facula.broadcast_tensors(x1.movedim(axis, -1), x2.movedim(axis, -1)) if x1.shape != x2.shape else (x1, x2)
    dim = -1 if x1.shape != x2.shape else axis
    return ((a.conj() if a.is_complex() else a) * b).sum(dim, dtype=dtype)


UniqueAll = collections.namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = collections.namedtuple("UniqueCounts", "values counts")
UniqueInverse = collections.namedtuple("UniqueInverse", "values inverse_indices")


def first_positions(inverse, count):
    """Where each of `count` values is first, given which value each element is."""
    flat = inverse.reshape(-1)
    positions = facula.arange(flat.numel(), device=flat.device)
    first = facula.full((count,), flat.numel(), dtype=facula.int64, device=flat.device)
    return first.scatter_reduce(0, flat, positions, "amin", include_self=True)


def unique_all(x, /):
    """Distinct values in order, the flat index of the first of each, which value each element is, and how often."""
    values, inverse, counts = facula.unique(x, return_inverse=True, return_counts=True)
    return UniqueAll(values, first_positions(inverse, len(values)), inverse, counts)


def unique_counts(x, /):
    """Distinct values in order, and how often each occurs."""
    return UniqueCounts(*facula.unique(x, return_counts=True))


def unique_inverse(x, /):
    """Distinct values in order, and which of them each element is."""
    return UniqueInverse(*facula.unique(x, return_inverse=True))


def unique_values(x, /):
    """Distinct values in order."""
    return facula.unique(x)


class _Info:
    """What this namespace can do, as the Array API asks."""

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


def __array_namespace_info__():
    """An object that answers capabilities(), default_device(), default_dtypes(), devices() and dtypes()."""
    return _Info()
