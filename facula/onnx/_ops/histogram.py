"""Translate ops that count: histograms, distinct elements."""

import numpy as np

from .._graph import Value
from ._table import op
from .reduce import summed

_END = 2**63 - 1


def _interval(g, x, edges):
    """Return in which interval between the edges each element is (the last one has its right edge), and whether it is in
    one."""
    last = edges.shape[0] - 1
    begun = g.GreaterOrEqual(g.unsqueeze(x, x.rank), edges)
    place = summed(g, g.cast(begun, "int64"), -1) - 1
    top = g.cut(edges, 0, last, last + 1)
    place = g.Where(g.Equal(x, top), g.constant(last - 1), place)
    inside = g.And(g.GreaterOrEqual(x, g.cut(edges, 0, 0, 1)), g.LessOrEqual(x, top))
    return g.where(inside, place, 0), inside


def _weights(g, self, edges, weight, density):
    """Return the weight of rows of `self` in the boxes between the edges of each coordinate."""
    counts = [e.shape[0] - 1 for e in edges]
    if not all(isinstance(c, int) for c in counts):
        raise NotImplementedError("onnx.export: histogram with a number of bins that varies has no translation to ONNX")
    at, inside = None, None
    for d, (line, count) in enumerate(zip(edges, counts)):
        place, there = _interval(g, g.take(self, d, 1), line)
        at = place if at is None else at * count + place
        inside = there if inside is None else g.And(inside, there)
    total = int(np.prod(counts))
    result = g.expand(g.constant(0.0, weight.dtype), [total])
    result = g.ScatterElements(result, at, g.where(inside, weight, 0.0), axis=0, reduction="add")
    result = g.reshape(result, counts)
    if density:
        result = result / summed(g, result)
        for d, line in enumerate(edges):
            widths = g.cut(line, 0, 1, _END) - g.cut(line, 0, 0, -1)
            result = result / g.reshape(widths, [-1 if i == d else 1 for i in range(len(edges))])
    return result


@op("_histogramdd")
def histogramdd(g, self, bins, weight, density):
    return _weights(g, self, bins, weight, density)


def _flat(g, self, edges, weight, density):
    ones = g.expand(g.constant(1.0, self.dtype), [g.numel(self)])
    weight = ones if weight is None else g.reshape(weight, [-1])
    return _weights(g, g.reshape(self, [-1, 1]), [edges], weight, density), edges


@op("histogram.bins_tensor")
def histogram_between(g, self, bins, weight=None, density=False):
    return _flat(g, self, bins, weight, density)


@op("histogram.bin_ct")
def histogram(g, self, bins=100, range=None, weight=None, density=False):
    if range is None:
        low, high = (g.reduce(kind, self) for kind in ("Min", "Max"))
    else:
        low, high = (g.constant(float(v), self.dtype) for v in range)
    point = g.Equal(low, high)
    # A range of one point is widened, as in PyTorch.
    low, high = g.Where(point, low - 0.5, low), g.Where(point, high + 0.5, high)
    step = (high - low) / float(bins)
    steps = g.constant(np.arange(bins + 1), self.dtype)
    before = g.constant(np.arange(bins + 1) < (bins + 1) // 2)
    # The right half is computed from the right end, as linspace does it, so that both ends are exact.
    edges = g.Where(before, steps * step + low, (steps - float(bins)) * step + high)
    return _flat(g, self, edges, weight, density)


# ---- what is distinct


def distinct(g, self):
    values, _, inverse, counts = g.Unique(g.reshape(self, [-1]), outputs=4, sorted=1)
    values.shape = inverse.shape = counts.shape = (None,)
    inverse.dtype = counts.dtype = "int64"
    return values, g.reshape(inverse, g.shape_of(self)), counts


@op("_unique2 _unique")
def unique(g, self, *_, **__):
    return distinct(g, self)


def _runs(g, new):
    """Return, from where runs begin, their beginnings, the run of each element, how long they are."""
    count = g.reshape(g.Size(new), [1])
    places = g.Range(0, g.scalar(count), 1)
    starts = g.Compress(places, new, axis=0)
    starts.shape = (None,)
    inverse = g.CumSum(g.cast(new, "int64"), g.constant(0)) - 1
    ends = g.concat([g.cut(starts, 0, 1, _END), count], 0)
    return starts, inverse, ends - starts


def _begun(g, differs):
    return g.concat([g.constant([True]), differs], 0)


@op("unique_consecutive _unique_consecutive")
def unique_consecutive(g, self, *_, **__):
    line = g.reshape(self, [-1])
    starts, inverse, counts = _runs(g, _begun(g, g.Not(g.Equal(g.cut(line, 0, 1, _END), g.cut(line, 0, 0, -1)))))
    values = g.take(line, starts, 0)
    return values, g.reshape(inverse, g.shape_of(self)), counts


@op("_unique_rows")
def unique_rows(g, self, dim, consecutive):
    """Return where each distinct slice is first, which one each slice is, and how many there are."""
    if not self.rank:
        return g.constant([0]), g.constant([0]), g.constant([1])
    rows = g.permute(self, [dim % self.rank, *(d for d in range(self.rank) if d != dim % self.rank)])
    count = g.size(rows, 0)
    rows = g.reshape(rows, [count, -1] if 0 not in rows.shape else [count, 1])
    if not consecutive:
        return _sorted_rows(g, rows)
    equal = g.Equal(g.cut(rows, 0, 1, _END), g.cut(rows, 0, 0, -1))
    same = g.cast(g.reduce("Min", g.cast(equal, "int32"), [1]), "bool")
    return _runs(g, _begun(g, g.Not(same)))


def _sorted_rows(g, rows):
    _, first, inverse, counts = g.Unique(g.cast(rows, "float32") if rows.dtype == "bool" else rows, outputs=4, axis=0, sorted=1)
    for value in (first, inverse, counts):
        value.dtype, value.shape = "int64", (None,)
    return first, inverse, counts


def padded_positions(g, found, size, fill):
    """Return the first `size` columns of what NonZero found, and `fill` where there are none."""
    more = g.Pad(found, g.constant([0, 0, 0, size]), g.constant(fill))
    more.shape = (found.shape[0], None)
    return g.transpose(g.cut(more, 1, 0, size), 0, 1)


@op("nonzero_static")
def nonzero_static(g, self, size, fill_value=-1):
    if not isinstance(size, int) or isinstance(size, Value):
        raise NotImplementedError("onnx.export: nonzero_static of a size that varies has no translation to ONNX")
    if not self.rank:
        raise NotImplementedError("onnx.export: nonzero_static of a tensor without dimensions has no translation to ONNX")
    found = g.NonZero(g.cast(self, "bool"))
    found.shape = (self.rank, None)
    return padded_positions(g, found, size, fill_value)
