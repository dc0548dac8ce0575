"""Translate ops that read and write elements by indices and masks."""

import numpy as np

from .._graph import Value
from ._table import lifted, op
from .compare import masked_fill
from .shape import replaced


def _positions(g, mask):
    """Return where a mask is true, one line for each place."""
    if not mask.rank:  # a place without numbers
        return g.cut(g.Transpose(g.NonZero(g.reshape(mask, [1])), perm=[1, 0]), 1, 0, 0)
    found = g.NonZero(mask)
    return g.Transpose(found, perm=[1, 0])


@op("nonzero argwhere")
def nonzero(g, self):
    return _positions(g, g.cast(self, "bool"))


@op("nonzero_numpy where.nonzero")
def nonzero_tuple(g, self):
    found = g.NonZero(g.cast(self, "bool"))
    return [g.take(found, i, 0) for i in range(self.rank)]


@op("masked_select")
def masked_select(g, self, mask):
    if self.shape != mask.shape:
        self, mask = g.Expand(self, g.Shape(mask)), g.Expand(mask, g.Shape(self))
    return g.Compress(g.Reshape(self, [-1]), g.Reshape(mask, [-1]), axis=0)


def _opened(g, indices):
    """Return masks among indices as the indices of where they are true."""
    result = []
    for index in indices:
        if index is not None and index.dtype in ("bool", "uint8"):
            found = g.NonZero(g.cast(index, "bool"))
            result += [g.take(found, i, 0) for i in range(index.rank)]
        else:
            result.append(index if index is None else g.cast(index, "int64"))
    return result


def _together(g, indices):
    """Return indices broadcast to one shape and laid side by side in a last dimension, and how many dimensions they have."""
    if len(indices) == 1:
        return g.unsqueeze(indices[0], indices[0].rank), indices[0].rank
    rank = max(i.rank for i in indices)
    shapes = {i.shape for i in indices}
    if len(shapes) > 1 or None in next(iter(shapes)):
        total = indices[0]
        for other in indices[1:]:
            total = total + other
        shape = g.Shape(total)
        indices = [g.Expand(i, shape) for i in indices]
        for i in indices:
            i.shape = total.shape
    return g.concat([g.unsqueeze(i, rank) for i in indices], rank), rank


def _front(indices, rank):
    """Return the dimensions with indices, the others, and whether the result's new dimensions stay in their place."""
    at = [d for d, index in enumerate(indices) if index is not None]
    rest = [d for d in range(rank) if d not in at]
    adjacent = at == list(range(at[0], at[-1] + 1))
    return at, rest, adjacent


@op("index")
def index(g, self, indices):
    indices = _opened(g, indices)
    at, rest, adjacent = _front(indices, self.rank)
    if len(at) == 1:
        return g.take(self, indices[at[0]], at[0])
    places, many = _together(g, [indices[d] for d in at])
    # GatherND looks up leading dimensions, so those with indices come first; the new ones go back to their place below.
    picked = g.GatherND(g.permute(self, [*at, *rest]), places)
    picked.shape = (*places.shape[:-1], *(self.shape[d] for d in rest))
    if not adjacent or at[0] == 0:
        return picked
    before = at[0]
    return g.permute(picked, [*range(many, many + before), *range(many), *range(many + before, many + len(rest))])


@op("index_put _unsafe_index_put")
def index_put(g, self, indices, values, accumulate=False):
    values = g.tensor(values, self.dtype)
    single = [i for i in indices if i is not None]
    one_mask = len(single) == 1 and single[0].dtype == "bool" and indices[0] is single[0]
    # For one mask and one number a Where is enough, which needs no search for the true elements.
    if one_mask and not accumulate and values.shape in ((), (1,)):
        mask = single[0]
        mask = g.unsqueeze(mask, *range(mask.rank, self.rank)) if mask.rank < self.rank else mask
        return masked_fill(g, self, mask, values)
    indices = _opened(g, indices)
    at, rest, adjacent = _front(indices, self.rank)
    places, many = _together(g, [indices[d] for d in at])
    order = [*at, *rest]
    moved = g.permute(self, order)
    tail = [g.size(self, d) for d in rest]
    if adjacent and at[0] and values.rank > len(rest) - at[0]:  # the values' dimensions of `rest` lie on both sides
        values = _values_first(g, values, at[0], many, len(rest))
    head = g.cut(g.Shape(places), 0, 0, -1)
    shape = g.Concat(head, g.sizes(tail), axis=0) if tail else head
    written = g.ScatterND(moved, places, g.Expand(values, shape), reduction="add" if accumulate else None)
    return g.permute(written, [order.index(d) for d in range(self.rank)])


def _values_first(g, values, before, many, rest):
    if values.rank < many + rest:
        values = g.unsqueeze(values, *range(many + rest - values.rank))
    return g.permute(values, [*range(before, before + many), *range(before), *range(before + many, many + rest)])


@op("gather")
def gather(g, self, dim, index, sparse_grad=False):
    if not index.rank or not self.rank:
        return self if not index.rank else g.expand(self, g.shape_of(index))
    if 0 in index.shape:  # which may have other dimensions
        return g.expand(g.constant(0, self.dtype), index.shape)
    result = g.GatherElements(self, g.cast(index, "int64"), axis=dim)
    result.shape = index.shape
    return result


@op("take_along_dim")
def take_along_dim(g, self, indices, dim=None):
    if dim is None:
        return g.GatherElements(g.reshape(self, [-1]), g.reshape(indices, [-1]), axis=0)
    dim = dim % self.rank
    both = [g.size(self, d) if self.shape[d] != 1 else g.size(indices, d) for d in range(self.rank)]
    rows = lambda v: g.expand(v, [g.size(v, d) if d == dim else both[d] for d in range(self.rank)])
    return g.GatherElements(rows(self), rows(indices), axis=dim)


@op("take")
def take(g, self, index):
    return g.take(g.reshape(self, [-1]), index, 0)


_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


@op("scatter")
def scatter(g, self, dim, index, src, reduce=None):
    if isinstance(src, Value) and src.shape not in ((), (1,)):
        src = _corner(g, src, index)
    else:
        src = g.expand(g.scalar(g.tensor(src, self.dtype)), g.shape_of(index))
    return _scattered(g, self, dim, index, g.cast(src, self.dtype), _REDUCTIONS[reduce] if reduce else None)


def _corner(g, src, index):
    """Return the part of the source that has an index."""
    for d in range(index.rank):
        if src.shape[d] != index.shape[d]:
            src = g.cut(src, d, 0, g.size(index, d))
    return src


def _scattered(g, self, dim, index, src, reduction):
    src = src if src.rank or not self.rank else g.reshape(src, [1])
    if not self.rank:
        one = lambda v: g.reshape(v, [1])
        return g.scalar(g.ScatterElements(one(self), one(index), one(src), axis=0, reduction=reduction))
    return g.ScatterElements(self, index, src, axis=dim, reduction=reduction)


@op("scatter_add")
def scatter_add(g, self, dim, index, src):
    return _scattered(g, self, dim, index, _corner(g, src, index), "add")


_NEUTRAL = {"sum": 0, "prod": 1, "amax": -np.inf, "amin": np.inf, "mean": 0}


@op("scatter_reduce")
def scatter_reduce(g, self, dim, index, src, reduce, include_self=True):
    src = _corner(g, src, index)
    if g.opset < 18 and reduce in ("amax", "amin"):
        raise NotImplementedError(f"onnx.export: scatter_reduce {reduce!r} needs opset 18, got {g.opset}")
    if not include_self:
        neutral = g.expand(g.constant(_NEUTRAL[reduce], self.dtype), g.shape_of(index))
        self = _scattered(g, self, dim, index, neutral, None)
    result = _scattered(g, self, dim, index, src, _REDUCTIONS[reduce])
    if reduce != "mean":
        return result
    ones = g.expand(g.constant(1, self.dtype), g.shape_of(index))
    # A mean is the sum by the number of what was added, which is found in the same way.
    start = g.expand(g.constant(1 if include_self else 0, self.dtype), g.shape_of(self))
    return result / g.Max(_scattered(g, start, dim, index, ones, "add"), g.constant(1, self.dtype))


@op("index_select")
def index_select(g, self, dim, index):
    return g.take(self, index if index.rank else g.reshape(index, [1]), dim) if self.rank else self


def _lines(g, self, dim, index, source):
    """Return an index for every element of the source."""
    dim, shape = dim % self.rank, [1] * self.rank
    shape[dim] = -1
    source = source if source.rank else g.reshape(source, [1])
    return g.expand(g.reshape(g.cast(index, "int64"), shape), g.shape_of(source))


@op("index_add")
@lifted
def index_add(g, self, dim, index, source, alpha=1):
    source = source if alpha == 1 else source * alpha
    return _scattered(g, self, dim, _lines(g, self, dim, index, source), source, "add")


@op("index_copy")
@lifted
def index_copy(g, self, dim, index, source):
    return _scattered(g, self, dim, _lines(g, self, dim, index, source), g.cast(source, self.dtype), None)


@op("index_fill")
@lifted
def index_fill(g, self, dim, index, value):
    dim = dim % self.rank
    sizes = g.shape_of(self)
    sizes[dim] = g.size(g.reshape(index, [-1]), 0)
    source = g.expand(g.scalar(g.tensor(value, self.dtype)), sizes)
    return _scattered(g, self, dim, _lines(g, self, dim, index, source), source, None)


@op("index_reduce")
@lifted
def index_reduce(g, self, dim, index, source, reduce, include_self=True):
    source = source if source.rank else g.reshape(source, [1])
    lines = _lines(g, self, dim, index, source)
    return scatter_reduce(g, self, dim, lines, source, reduce, include_self)


@op("put")
def put(g, self, index, source, accumulate=False):
    line = lambda value: g.reshape(value, [-1])
    flat = _scattered(g, line(self), 0, line(index), line(source), "add" if accumulate else None)
    return g.reshape(flat, g.shape_of(self))


@op("masked_scatter")
def masked_scatter(g, self, mask, source):
    if self.shape != mask.shape:
        self, mask = g.Expand(self, g.Shape(mask)), g.Expand(mask, g.Shape(self))
        self.shape = mask.shape = tuple(g.shape)
    places = _positions(g, mask)
    places.shape = (None, self.rank)
    taken = g.cut(g.reshape(source, [-1]), 0, 0, g.size(places, 0))
    return g.ScatterND(self, places, taken)


@op("embedding")
def embedding(g, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return g.take(weight, indices, 0)


@op("one_hot")
def one_hot(g, self, num_classes=-1):
    if num_classes == -1:
        num_classes = g.reduce("Max", self) + 1
    if not self.rank:
        return g.reshape(one_hot(g, g.reshape(self, [1]), num_classes), [num_classes])
    return g.OneHot(self, num_classes, g.constant([0, 1]), axis=-1)


@op("unravel_index")
def unravel_index(g, indices, shape):
    results = []
    for size in reversed(shape):
        results.append(g.Mod(indices, size))
        indices = g.Div(indices, size)
    return results[::-1]


@op("fill_diagonal")
def fill_diagonal(g, self, fill_value, wrap=False):
    rows, columns = self.shape[:2]
    if self.rank != 2 or not isinstance(rows, int) or not isinstance(columns, int):
        raise NotImplementedError("onnx.export: fill_diagonal of more than two dimensions, or of sizes that vary")
    step = columns + 1
    end = rows * columns if wrap else min(rows, columns) * step
    at = list(range(0, min(end, rows * columns), step))
    flat = replaced(g, g.reshape(self, [-1]), 0, at, g.constant([fill_value] * len(at), self.dtype))
    return g.reshape(flat, [rows, columns])


@op("embedding_renorm")
def embedding_renorm(g, self, indices, max_norm, norm_type):
    """Make rows shorter that are used and too long."""
    from .reduce import linalg_vector_norm

    lengths = linalg_vector_norm(g, self, norm_type, [1], True)
    at = g.reshape(g.cast(indices, "int64"), [-1])
    many = [g.size(self, 0)]
    marks = g.ScatterElements(g.expand(g.constant(0, "int32"), many), at, g.Expand(g.constant(1, "int32"), g.Shape(at)), axis=0)
    long = g.And(g.unsqueeze(g.cast(marks, "bool"), 1), g.Greater(lengths, float(max_norm)))
    return g.Where(long, self * (float(max_norm) / (lengths + 1e-7)), self)


@op("embedding_bag.padding_idx")
def embedding_bag_padded(g, weight, *args, padding_idx=None, **named):
    *args, padding_idx = args if len(args) == 8 else (*args, padding_idx)
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    return embedding_bag(g, weight, *args, padding_idx=padding_idx, **named)


@op("embedding_bag _embedding_bag")
def embedding_bag(
    g, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
    include_last_offset=False, padding_idx=None,
):  # fmt: skip
    if include_last_offset:
        offsets = g.cut(offsets, 0, 0, -1)
    places = g.Range(0, g.scalar(g.cast(g.Size(indices), "int64")), 1)
    # The bag of a place is the number of bags that have begun by then, less one.
    begun = g.LessOrEqual(g.unsqueeze(g.cast(offsets, "int64"), 0), g.unsqueeze(places, 1))
    bags = g.reduce("Sum", g.cast(begun, "int64"), 1) - 1
    rows = g.take(weight, indices, 0)
    kept = None
    if padding_idx is not None and padding_idx >= 0:
        kept = g.unsqueeze(g.Not(g.Equal(indices, padding_idx)), 1)
    rows = rows if per_sample_weights is None else rows * g.unsqueeze(per_sample_weights, 1)
    neutral = -np.inf if mode == 2 else 0.0
    rows = rows if kept is None else g.where(kept, rows, neutral)
    index = g.Expand(g.unsqueeze(bags, 1), g.Shape(rows))
    start = g.expand(g.constant(neutral, weight.dtype), [g.size(offsets, 0), weight.shape[1]])
    result = g.ScatterElements(start, index, rows, axis=0, reduction="max" if mode == 2 else "add")
    if mode == 2:
        # An empty bag gives zeros.
        result = g.where(g.Equal(result, -np.inf), 0.0, result)
    if mode == 1:
        one = g.constant(1.0, weight.dtype)
        ones = g.cast(kept, weight.dtype) if kept is not None else g.expand(one, [g.size(indices, 0), 1])
        column = g.expand(g.constant(0.0, weight.dtype), [g.size(offsets, 0), 1])
        counts = g.ScatterElements(column, g.unsqueeze(bags, 1), ones, axis=0, reduction="add")
        result = result / g.Max(counts, 1.0)
    return (result, bags, bags, bags) if g.results else result
