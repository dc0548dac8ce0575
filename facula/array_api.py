"""The namespace that `Tensor.__array_namespace__` gives: the Python Array API, version 2024.12.

A name is looked up here, then in `_array_api`, then in facula. What stands here has a name that PyTorch gives another
meaning or other arguments.
"""

from __future__ import annotations

import sys

import facula
from facula import _array_api

__array_api_version__ = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def namespace(api_version=None):
    """This module, if it follows `api_version`."""
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"__array_namespace__: api_version is one of {', '.join(_VERSIONS)}, got {api_version!r}")
    return sys.modules[__name__]


def __getattr__(name):
    if name in _array_api.__all__:
        return getattr(_array_api, name)
    return getattr(facula, name)


def __dir__():
    return sorted({*globals(), *_array_api.__all__, *dir(facula)})


def _axes(x, axis):
    """Every axis for None; a tuple for one."""
    return tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def max(x, /, *, axis=None, keepdims=False):
    """The largest values over `axis` (an int, a tuple, or None for all)."""
    return facula.amax(x, _axes(x, axis), keepdim=keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """The smallest values over `axis` (an int, a tuple, or None for all)."""
    return facula.amin(x, _axes(x, axis), keepdim=keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product over `axis` (an int, a tuple, or None for all)."""
    axes = sorted((a % x.ndim for a in _axes(x, axis)), reverse=True)
    if dtype is None and not axes:
        dtype = facula.prod(x[(0,) * x.ndim]).dtype if x.numel() else None
    result = x if dtype is None else x.to(dtype)
    for a in axes:
        result = facula.prod(result, a, keepdim=keepdims)
    return result


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum over `axis` (an int, a tuple, or None for all)."""
    if axis == ():
        return x.to(dtype) if dtype is not None else x + 0 * x.new_zeros(()).sum()
    return facula.sum(x, _axes(x, axis), keepdim=keepdims, dtype=dtype)


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements over `axis` are true."""
    return _logical(facula.all, x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Whether some element over `axis` is true."""
    return _logical(facula.any, x, axis, keepdims)


def _logical(op, x, axis, keepdims):
    result = x.to(facula.bool)
    for a in sorted((a % x.ndim for a in _axes(x, axis)), reverse=True):
        result = op(result, a, keepdim=keepdims)
    return result


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation over `axis`, with n - correction degrees of freedom."""
    return facula.std(x, _axes(x, axis), correction=correction, keepdim=keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance over `axis`, with n - correction degrees of freedom."""
    return facula.var(x, _axes(x, axis), correction=correction, keepdim=keepdims)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements along `axis` in order."""
    return facula.sort(x, dim=axis, descending=descending, stable=stable).values


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The indices that sort along `axis`."""
    return facula.sort(x, dim=axis, descending=descending, stable=stable).indices


def take(x, indices, /, *, axis=None):
    """The slices at `indices` along `axis`."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed for an array of {x.ndim} dimensions, got None")
        axis = 0
    return x.index_select(axis, indices)


def nonzero(x, /):
    """The indices of elements other than zero, one tensor per dimension."""
    if x.ndim == 0:
        raise ValueError("nonzero: an array of at least one dimension is expected, got 0-d")
    return tuple(facula.nonzero(x).unbind(1))


def meshgrid(*arrays, indexing="xy"):
    """Coordinate arrays of the grid of 1-D arrays."""
    return list(facula.meshgrid(*arrays, indexing=indexing))


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` evenly spaced numbers from `start` to `stop`, without the latter when endpoint is False."""
    if endpoint:
        return facula.linspace(start, stop, num, dtype=dtype, device=device)
    return facula.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def tensordot(x1, x2, /, *, axes=2):
    """The sums of products over `axes`: a count, or a pair of sequences."""
    return facula.tensordot(x1, x2, dims=axes)


def concat(arrays, /, *, axis=0):
    """The arrays one after the other along `axis`; flattened for None."""
    if axis is None:
        return facula.cat([a.reshape(-1) for a in arrays], 0)
    return facula.cat(list(arrays), axis)


def equal(x1, x2, /):
    """Whether the elements are equal, one by one (the function of this name at the top level gives one bool)."""
    return facula.eq(x1, x2)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """A matrix with ones on diagonal `k` and zeros elsewhere; square unless `n_cols` is given."""
    n_cols = n_rows if n_cols is None else n_cols
    result = facula.zeros(n_rows, n_cols, dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def stack(arrays, /, *, axis=0):
    """The arrays along a new dimension at `axis`."""
    return facula.stack(list(arrays), axis)


def reshape(x, /, shape, *, copy=None):
    """`x` with another shape; copy=True for memory of its own, False to raise where sharing is impossible."""
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def flip(x, /, *, axis=None):
    """The elements along `axis` (an int, a tuple, or None for all) in reverse."""
    return facula.flip(x, _axes(x, axis))


def roll(x, /, shift, *, axis=None):
    """The elements along `axis` moved round by `shift`."""
    return facula.roll(x, shift, axis if axis is not None else ())


def squeeze(x, /, axis):
    """`x` without the dimensions `axis`, which must have size 1."""
    for a in _axes(x, axis):
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: dimensions of size 1 are expected, got size {x.shape[a]} at axis {a}")
    return facula.squeeze(x, _axes(x, axis))


def clip(x, /, min=None, max=None):
    """The elements bounded by `min` and `max`."""
    return x.clone() if min is None and max is None else facula.clamp(x, min, max)
