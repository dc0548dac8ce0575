"""Order: sort, topk, medians and quantiles, places in sorted tensors, running sums and extremes."""

import numpy as np

from .._graph import Value
from ._table import lifted, op
from .reduce import summed


def ordered(g, self, k, dim, largest, in_order=True):
    """The k largest or smallest, and where they lie."""
    if self.dtype in ("bool", "int8", "uint8", "int16"):
        values, at = ordered(g, g.cast(self, "int32"), k, dim, largest, in_order)
        return g.cast(values, self.dtype), at
    values, at = g.TopK(self, g.sizes([k]), axis=dim, largest=int(largest), sorted=int(in_order), outputs=2)
    shape = list(self.shape)
    shape[dim] = k if isinstance(k, int) else self.shape[dim] if k is None else None
    values.shape = at.shape = tuple(shape)
    return values, at


@op("topk")
def topk(g, self, k, dim=-1, largest=True, sorted=True):
    if not self.rank:
        return self, g.constant(0)
    return ordered(g, self, k, dim, largest, sorted)


@op("sort")
def sort(g, self, *args, dim=-1, descending=False, stable=None):
    args = [a for a in args if a is not None]
    if args and not isinstance(args[0], (bool, Value)):
        dim, *args = args
    elif len(args) > 1 and isinstance(args[0], bool):  # sort.stable(self, stable, dim, descending)
        _, dim, *args = args
    descending = args[0] if args else descending
    if not self.rank:
        return self, g.constant(0)
    return ordered(g, self, g.size(self, dim), dim, descending)


@op("msort")
def msort(g, self):
    return sort(g, self, dim=0)[0]


@op("argsort")
def argsort(g, self, *args, **kwargs):
    return sort(g, self, *args, **kwargs)[1]


@op("kthvalue")
@lifted
def kthvalue(g, self, k, dim=-1, keepdim=False):
    values, at = ordered(g, self, k, dim, False)
    pick = lambda v: g.cut(v, dim, k - 1, k) if keepdim else g.take(v, k - 1, dim)
    return pick(values), pick(at)


@op("median")
def median(g, self, dim=None, keepdim=False):
    if dim is None:
        flat = g.reshape(self, [-1])
        return median(g, flat, 0)[0]
    size = self.shape[dim] if self.rank else 1
    if not isinstance(size, int):
        raise NotImplementedError("onnx.export: median of a dimension that varies has no translation to ONNX")
    return kthvalue(g, self, (size + 1) // 2, dim, keepdim)


@op("quantile")
def quantile(g, self, q, dim=None, keepdim=False, interpolation="linear"):
    self, dim, whole = (g.reshape(self, [-1]), 0, self.rank) if dim is None or not self.rank else (self, dim % self.rank, 0)
    size = self.shape[dim]
    if not isinstance(size, int):
        raise NotImplementedError("onnx.export: quantile of a dimension that varies has no translation to ONNX")
    values, _ = ordered(g, self, size, dim, False)
    many = isinstance(q, Value) and q.rank == 1
    place = g.reshape(g.tensor(q, self.dtype), [-1]) * float(size - 1)
    low, high = g.Floor(place), g.Ceil(place)
    at = lambda index: g.take(values, g.cast(index, "int64"), dim)
    weight = g.reshape(place - low, [-1 if d == dim else 1 for d in range(self.rank)])
    below, above = at(low), at(high)
    chosen = {
        "linear": lambda: below + (above - below) * weight, "lower": lambda: below, "higher": lambda: above,
        "nearest": lambda: at(g.Round(place)), "midpoint": lambda: (below + above) * 0.5,
    }[interpolation]()  # fmt: skip
    if many:
        chosen = g.permute(chosen, [dim, *(d for d in range(self.rank) if d != dim)])
        dims = range(1, 1 + whole) if whole else [dim + 1]
        return g.unsqueeze(chosen, *dims) if keepdim else chosen
    if keepdim:
        return g.reshape(chosen, [1] * whole) if whole else chosen
    return g.squeeze(chosen, dim)


@op("searchsorted")
def searchsorted(g, sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        shape, sorted_sequence = sorted_sequence.shape, g.GatherElements(sorted_sequence, sorter, axis=-1)
        sorted_sequence.shape = shape
    if sorted_sequence.rank > 1:  # a line for each line of values
        sorted_sequence = g.unsqueeze(sorted_sequence, sorted_sequence.rank - 1)
    return _places(g, sorted_sequence, g.tensor(self, sorted_sequence.dtype), right or side == "right")


@op("bucketize")
def bucketize(g, self, boundaries, out_int32=False, right=False):
    return _places(g, boundaries, g.tensor(self, boundaries.dtype), right)


@op("cumsum")
def cumsum(g, self, dim, dtype=None):
    self = g.cast(self, g.dtype)
    return g.CumSum(self, g.constant(dim)) if self.rank else self


def prefixes(g, self, dim, filler):
    """A matrix of all beginnings of each line: row i holds elements 0 to i, and the filler beyond."""
    dim = dim % self.rank
    moved = g.transpose(self, dim, -1)
    size = self.shape[dim]
    if not isinstance(size, int):
        raise NotImplementedError("onnx.export: running products and extremes along a size that varies have no translation")
    mask = g.constant(np.tril(np.ones((size, size), dtype=bool)))
    return g.Where(mask, g.unsqueeze(moved, moved.rank - 1), g.constant(filler, self.dtype)), dim


@op("cumprod")
@lifted
def cumprod(g, self, dim, dtype=None):
    lines, dim = prefixes(g, g.cast(self, g.dtype), dim, 1)
    return g.transpose(g.reduce("Prod", lines, -1), dim, -1)


_LOWEST = {"float32": -np.inf, "float64": -np.inf, "float16": -np.inf, "int64": -(2**63), "int32": -(2**31)}


def _running(g, self, dim, sign):
    lines, dim = prefixes(g, self, dim, _LOWEST[self.dtype] if sign > 0 else -(_LOWEST[self.dtype] + (self.dtype[0] == "i")))
    kind = "Max" if sign > 0 else "Min"
    at = getattr(g, f"Arg{kind}")(lines, axis=-1, keepdims=0, select_last_index=1)
    at.shape = lines.shape[:-1]
    return g.transpose(g.reduce(kind, lines, -1), dim, -1), g.transpose(at, dim, -1)


@op("cummax")
@lifted
def cummax(g, self, dim):
    return _running(g, self, dim, 1)


@op("cummin")
@lifted
def cummin(g, self, dim):
    return _running(g, self, dim, -1)


@op("logcumsumexp")
@lifted
def logcumsumexp(g, self, dim):
    from .reduce import logsumexp

    lines, dim = prefixes(g, self, dim, -np.inf)
    return g.transpose(logsumexp(g, lines, -1), dim, -1)


@op("diff")
def diff(g, self, n=1, dim=-1, prepend=None, append=None):
    self = g.concat([v for v in (prepend, self, append) if v is not None], dim)
    for _ in range(n):
        high, low = g.cut(self, dim, 1, 2**63 - 1), g.cut(self, dim, 0, -1)
        self = g.Xor(high, low) if self.dtype == "bool" else high - low
    return self


def _places(g, boundaries, values, right):
    test = g.LessOrEqual if right else g.Less
    before = test(boundaries, g.unsqueeze(values, values.rank))
    return g.cast(summed(g, g.cast(before, "int64"), -1), g.dtype)


@op("histc")
def histc(g, self, bins=100, min=0, max=0):
    if min == max:
        raise NotImplementedError("onnx.export: histc between the extremes of its input has no translation to ONNX")
    flat = g.reshape(self, [-1, 1])
    place = g.Floor((flat - float(min)) * (bins / (float(max) - float(min))))
    place = g.Where(g.Equal(flat, float(max)), g.constant(float(bins - 1), self.dtype), place)
    return summed(g, g.cast(g.Equal(place, g.constant(np.arange(bins, dtype=np.float32), self.dtype)), self.dtype), 0)


@op("bincount")
def bincount(g, self, weights=None, minlength=0):
    top = g.Max(g.reduce("Max", self, 0) + 1, minlength) if minlength else g.reduce("Max", self, 0) + 1
    hits = g.Equal(g.unsqueeze(self, 1), g.Range(0, g.cast(top, "int64"), 1))
    counted = g.cast(hits, g.dtype)
    return summed(g, counted if weights is None else counted * g.unsqueeze(g.cast(weights, g.dtype), 1), 0)


@op("trapezoid trapz")
def trapezoid(g, y, x=None, dim=-1, dx=1):
    return summed(g, _trapezoids(g, y, x, dim, dx), dim)


@op("cumulative_trapezoid")
def cumulative_trapezoid(g, y, x=None, dim=-1, dx=1):
    return g.CumSum(_trapezoids(g, y, x, dim, dx), g.constant(dim))


def _trapezoids(g, y, x, dim, dx):
    if isinstance(x, (int, float)):  # trapezoid.dx(y, dx, dim)
        x, dx = None, x
    middle = g.cut(y, dim, 1, 2**63 - 1) + g.cut(y, dim, 0, -1)
    if x is None:
        return middle * (float(dx) / 2)
    x = g.reshape(x, [-1] + [1] * (y.rank - 1 - dim % y.rank)) if x.rank == 1 and y.rank > 1 else x
    dim = dim % y.rank - y.rank
    return middle * (g.cut(x, dim, 1, 2**63 - 1) - g.cut(x, dim, 0, -1)) * 0.5


@op("_unique2 _unique")
def unique(g, self, sorted=True, return_inverse=False, return_counts=False):
    values, _, inverse, counts = g.Unique(g.reshape(self, [-1]), outputs=4, sorted=1)
    values.shape = inverse.shape = counts.shape = (None,)
    inverse.dtype = counts.dtype = "int64"
    inverse = g.reshape(inverse, g.shape_of(self))
    return values, inverse, counts


@op("unique_consecutive")
def unique_consecutive(g, self, return_inverse=False, return_counts=False, dim=None):
    if dim is not None and self.rank > 1:
        raise NotImplementedError("onnx.export: unique_consecutive along a dimension has no translation to ONNX")
    line = g.reshape(self, [-1])
    new = g.Not(g.Equal(g.cut(line, 0, 1, 2**63 - 1), g.cut(line, 0, 0, -1)))
    new = g.concat([g.constant([True]), new], 0)
    starts = g.Compress(g.Range(0, g.scalar(g.Size(line)), 1), new, axis=0)
    inverse = g.CumSum(g.cast(new, "int64"), g.constant(0)) - 1
    starts.shape = (None,)
    ends = g.concat([g.cut(starts, 0, 1, 2**63 - 1), g.reshape(g.Size(line), [1])], 0)
    values = g.Compress(line, new, axis=0)
    values.shape = (None,)
    return values, g.reshape(inverse, g.shape_of(self)), ends - starts
