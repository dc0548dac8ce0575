"""Translate ops of order: sort, topk, medians and quantiles, places in sorted tensors, running sums and extremes."""

import numpy as np

from .._graph import Value
from ._table import lifted, op
from .reduce import summed


def ordered(g, self, k, dim, largest, in_order=True):
    """Return the k largest or smallest, and where they lie."""
    # ONNX's TopK takes no booleans, and onnxruntime implements no integers but int32 and int64.
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
    if isinstance(size, int):
        # The median of an even number of elements is the lower of the two in the middle.
        return kthvalue(g, self, (size + 1) // 2, dim, keepdim)
    size = g.size(self, dim)
    results = [g.take(v, g.Div(size - 1, 2), dim) for v in ordered(g, self, size, dim, False)]
    return tuple(results if keepdim else (g.squeeze(r, dim) for r in results))


@op("nanmedian")
def nanmedian(g, self, dim=None, keepdim=False):
    if dim is None:
        return nanmedian(g, g.reshape(self, [-1]), 0)[0]
    if not self.is_floating():
        return median(g, self, dim, keepdim)
    return _nanmedian(g, self, dim, keepdim)


@lifted
def _nanmedian(g, self, dim, keepdim):
    values, at, count = _without_nan(g, self, dim)
    # A line of nothing but NaN has count 0: place 0 is valid, and NaN replaces what is found there.
    place = g.Max(g.Div(count - 1, 2), 0)
    pick = lambda v: _picked(g, v, place, dim)
    none = g.Equal(count, 0)
    results = g.where(none, np.nan, pick(values)), g.where(none, 0, pick(at))
    return results if keepdim else tuple(g.squeeze(r, dim) for r in results)


def _without_nan(g, self, dim):
    """Return the values sorted, with NaN as infinity at the end; where the elements were; and how many are not NaN."""
    size = g.size(self, dim)
    nan = g.IsNaN(self)
    values, at = ordered(g, g.where(nan, np.inf, self), size, dim, False)
    return values, at, summed(g, g.cast(g.Not(nan), "int64"), dim, True)


def _picked(g, values, place, dim):
    result = g.GatherElements(values, place, axis=dim)
    result.shape = place.shape
    return result


@op("nanquantile")
def nanquantile(g, self, q, dim=None, keepdim=False, interpolation="linear"):
    rank = self.rank
    self, dim, whole = (g.reshape(self, [-1]), 0, True) if dim is None or not rank else (self, dim % rank, False)
    values, _, count = _without_nan(g, self, dim)
    last = g.Max(g.cast(count, self.dtype) - 1.0, 0.0)
    many = isinstance(q, Value) and q.rank == 1
    parts = [g.take(q, i, 0) for i in range(q.shape[0])] if many else [q]
    made = []
    for part in parts:
        place = last * g.tensor(part, self.dtype)
        low, high = g.Floor(place), g.Ceil(place)
        at = lambda p: _picked(g, values, g.cast(p, "int64"), dim)
        made.append(_between(g, at, place, low, high, place - low, interpolation))
    made = [g.where(g.Equal(count, 0), np.nan, m) for m in made]
    shape = [1] * rank if whole else None
    made = [(g.reshape(m, shape) if shape is not None else m) if keepdim else g.squeeze(m, dim) for m in made]
    return g.concat([g.unsqueeze(m, 0) for m in made], 0) if many else made[0]


def _between(g, at, place, low, high, weight, interpolation):
    below, above = at(low), at(high)
    return {
        "linear": lambda: below + (above - below) * weight, "lower": lambda: below, "higher": lambda: above,
        "nearest": lambda: at(g.Round(place)), "midpoint": lambda: (below + above) * 0.5,
    }[interpolation]()  # fmt: skip


@op("mode")
@lifted
def mode(g, self, dim=-1, keepdim=False):
    """Return the smallest of the values that occur most often, and where it occurs last."""
    dim = dim % self.rank
    moved = g.transpose(g.cast(self, "int32") if self.dtype == "bool" else self, dim, -1)
    # ONNX has no such op: all pairs are compared, and each element's equals are counted.
    equal = g.Equal(g.unsqueeze(moved, moved.rank), g.unsqueeze(moved, moved.rank - 1))
    counts = summed(g, g.cast(equal, "int64"), -1)
    most = g.Equal(counts, g.reduce("Max", counts, -1, True))
    highest = g.reduce("Max", moved, -1, True)
    # Elements that are rarer become the greatest one, which does not change the least of the others.
    value = g.reduce("Min", g.Where(most, moved, highest), -1, True)
    at = g.ArgMax(g.cast(g.And(most, g.Equal(moved, value)), "int32"), axis=-1, keepdims=1, select_last_index=1)
    at.shape = value.shape
    results = [g.transpose(v, dim, -1) for v in (g.cast(value, self.dtype), at)]
    return tuple(results) if keepdim else tuple(g.squeeze(v, dim) for v in results)


@op("quantile")
def quantile(g, self, q, dim=None, keepdim=False, interpolation="linear"):
    self, dim, whole = (g.reshape(self, [-1]), 0, self.rank) if dim is None or not self.rank else (self, dim % self.rank, 0)
    size = g.size(self, dim)
    values, _ = ordered(g, self, size, dim, False)
    many = isinstance(q, Value) and q.rank == 1
    last = float(size - 1) if isinstance(size, int) else g.cast(size - 1, self.dtype)
    place = g.reshape(g.tensor(q, self.dtype), [-1]) * last
    low, high = g.Floor(place), g.Ceil(place)
    at = lambda index: g.take(values, g.cast(index, "int64"), dim)
    weight = g.reshape(place - low, [-1 if d == dim else 1 for d in range(self.rank)])
    chosen = _between(g, at, place, low, high, weight, interpolation)
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
    """Return a matrix of all beginnings of each line: row i holds elements 0 to i, and the filler beyond."""
    dim = dim % self.rank
    moved = g.transpose(self, dim, -1)
    size = self.shape[dim]
    if isinstance(size, int):
        mask = g.constant(np.tril(np.ones((size, size), dtype=bool)))
    else:
        places = g.Range(0, g.scalar(g.size(self, dim)), 1)
        places.shape = (size,)
        mask = g.LessOrEqual(g.unsqueeze(places, 0), g.unsqueeze(places, 1))
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
    self = g.concat([v for v in (prepend, self, append) if v is not None], dim) if n else self
    for _ in range(n):
        high, low = g.cut(self, dim, 1, 2**63 - 1), g.cut(self, dim, 0, -1)
        self = g.Xor(high, low) if self.dtype == "bool" else high - low
    return self


def _places(g, boundaries, values, right):
    test = g.LessOrEqual if right else g.Less
    # ONNX has no search: the boundaries before each value are counted.
    before = test(boundaries, g.unsqueeze(values, values.rank))
    return g.cast(summed(g, g.cast(before, "int64"), -1), g.dtype)


@op("histc")
def histc(g, self, bins=100, min=0, max=0):
    if min == max:
        raise NotImplementedError("onnx.export: histc between the extremes of its input has no translation to ONNX")
    flat = g.reshape(self, [-1, 1])
    place = g.Floor((flat - float(min)) * (bins / (float(max) - float(min))))
    # The last bin includes its upper end.
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
