"""Translate ops that create tensors."""

import itertools

import numpy as np

from .._graph import Value
from ._table import op
from .shape import diag_embed, meshgrid
from .shape import diagonal as of_matrix


def filled(g, size, value, dtype=None):
    dtype = dtype or g.dtype
    sizes = g.sizes(size)
    if sizes.array is not None and isinstance(value, (int, float, bool)):
        return g.expand(g.constant(value, dtype), list(size)) if sizes.array.size else g.constant(value, dtype)
    return g.Expand(g.scalar(g.tensor(value, dtype)), sizes)


@op("zeros empty empty_strided empty_permuted")
def zeros(g, size, *_, **__):
    return filled(g, size, 0)


@op("ones")
def ones(g, size, **_):
    return filled(g, size, 1)


@op("full")
def full(g, size, fill_value, **_):
    return filled(g, size, fill_value)


@op("new_zeros new_empty new_empty_strided")
def new_zeros(g, self, size, *_, **__):
    return filled(g, size, 0)


@op("new_ones")
def new_ones(g, self, size, **_):
    return filled(g, size, 1)


@op("new_full")
def new_full(g, self, size, fill_value, **_):
    return filled(g, size, fill_value)


@op("zeros_like empty_like")
def zeros_like(g, self, **_):
    return filled(g, g.shape_of(self), 0)


@op("ones_like")
def ones_like(g, self, **_):
    return filled(g, g.shape_of(self), 1)


@op("full_like fill")
def full_like(g, self, fill_value, **_):
    return filled(g, g.shape_of(self), fill_value, None)


@op("zero")
def zero(g, self):
    return filled(g, g.shape_of(self), 0)


@op("arange")
def arange(g, *args, start=None, end=None, step=1, **_):
    if len(args) == 1 and end is not None:
        args = (args[0], end)
    elif not args:
        args = (0 if start is None else start, end)
    first, last, step = (0, args[0], step) if len(args) == 1 else (*args, step)[:3]
    number = lambda v: g.cast(g.scalar(v), g.dtype) if isinstance(v, Value) else g.constant(v, g.dtype)
    # The dtypes that ONNX's Range takes.
    if g.dtype in ("int32", "int64", "float32", "float64", "int16"):
        result = g.Range(number(first), number(last), number(step))
    else:
        wide = lambda v: g.cast(number(v), "float32")
        result = g.cast(g.Range(wide(first), wide(last), wide(step)), g.dtype)
    result.shape = tuple(g.shape)
    return result


@op("linspace")
def linspace(g, start, end, steps, **_):
    places = g.cast(g.Range(0, g.scalar(steps) if isinstance(steps, Value) else steps, 1), "float32")
    start, end = (g.cast(v, "float32") if isinstance(v, Value) else float(v) for v in (start, end))
    return g.cast(places * ((end - start) / max(steps - 1, 1)) + start, g.dtype)


@op("logspace")
def logspace(g, start, end, steps, base=10.0, **_):
    places = g.cast(linspace(g, start, end, steps), "float32")
    base = g.cast(base, "float32") if isinstance(base, Value) else g.constant(float(base))
    return g.cast(g.Pow(base, places), g.dtype)


def two_of(g, size, least):
    """Return the places of the pairs of `size` things, the second at least so much after the first."""
    if isinstance(size, int):
        return np.triu_indices(size, least)
    square = g.expand(g.constant(1, "float32"), [size, size])
    found = g.NonZero(g.Trilu(square, g.constant(least), upper=1))
    return g.take(found, 0, 0), g.take(found, 1, 0)


@op("combinations")
def combinations(g, self, r=2, with_replacement=False):
    size = g.size(self, 0)
    if not isinstance(size, int) and r == 1:
        return g.unsqueeze(self, 1)
    if not isinstance(size, int) and r == 2:
        parts = (g.Gather(self, at, axis=0) for at in two_of(g, size, 0 if with_replacement else 1))
        return g.concat([g.unsqueeze(part, 1) for part in parts], 1)
    if not isinstance(size, int):
        raise NotImplementedError("onnx.export: combinations of a number of elements that varies have no translation to ONNX")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(size), r)), dtype=np.int64).reshape(-1, r)
    return g.take(self, places, 0)


@op("cartesian_prod")
def cartesian_prod(g, tensors):
    if len(tensors) == 1:
        return tensors[0]
    return g.concat([g.unsqueeze(g.reshape(t, [-1]), 1) for t in meshgrid(g, tensors)], 1)


@op("eye")
def eye(g, n, m=None, **_):
    return g.constant(np.eye(n, m if isinstance(m, int) else None), g.dtype)


def _triangle(g, self, diagonal, upper):
    narrow = self.dtype in ("bool", "int32", "uint8", "int8", "int16")
    value = g.cast(self, "int64") if narrow else self
    diagonal = g.scalar(diagonal) if isinstance(diagonal, Value) else g.constant(diagonal)
    return g.cast(g.Trilu(value, diagonal, upper=upper), self.dtype)


@op("tril")
def tril(g, self, diagonal=0):
    return _triangle(g, self, diagonal, 0)


@op("triu")
def triu(g, self, diagonal=0):
    return _triangle(g, self, diagonal, 1)


@op("vander linalg_vander")
def vander(g, x, N=None, increasing=True):
    count = x.shape[-1] if N is None else N
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    return g.Pow(g.unsqueeze(x, x.rank), g.constant(powers, x.dtype))


@op("diag")
def diag(g, self, diagonal=0):
    return diag_embed(g, self, diagonal) if self.rank == 1 else of_matrix(g, self, diagonal)


@op("diagflat")
def diagflat(g, self, offset=0):
    return diag_embed(g, g.reshape(self, [-1]), offset)
