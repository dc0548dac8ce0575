"""Translate ops that split, join, repeat, flip and pad tensors."""

import numpy as np

from .._graph import Value
from ._table import op
from .elementwise import common_dtype


def _joined(g, tensors):
    dtype = g.dtype
    for t in tensors if dtype is None else ():
        dtype = common_dtype(t, tensors[0])
    return [g.cast(t, dtype) for t in tensors]


@op("cat concat concatenate")
def cat(g, tensors, dim=0):
    kept = [t for t in tensors if t.shape != (0,)] or tensors[:1]  # empty ones of one dimension are passed over
    return g.concat(_joined(g, kept), dim)


@op("stack")
def stack(g, tensors, dim=0):
    dim = dim % (tensors[0].rank + 1)
    return g.concat([g.unsqueeze(t, dim) for t in _joined(g, tensors)], dim)


@op("hstack")
def hstack(g, tensors):
    tensors = [g.unsqueeze(t, 0) if not t.rank else t for t in tensors]
    return g.concat(_joined(g, tensors), 0 if tensors[0].rank == 1 else 1)


@op("vstack row_stack")
def vstack(g, tensors):
    return g.concat(_joined(g, [g.reshape(t, [1, -1]) if t.rank < 2 else t for t in tensors]), 0)


@op("dstack")
def dstack(g, tensors):
    lift = lambda t: t if t.rank >= 3 else g.unsqueeze(t, 2) if t.rank == 2 else g.reshape(t, [1, -1, 1])
    return g.concat(_joined(g, [lift(t) for t in tensors]), 2)


@op("column_stack")
def column_stack(g, tensors):
    return g.concat(_joined(g, [g.reshape(t, [-1, 1]) if t.rank < 2 else t for t in tensors]), 1)


def cuts(g, self, sizes, dim):
    """Return the parts of these sizes, one after another."""
    parts, start = [], 0
    for size in sizes:
        if isinstance(size, int) and isinstance(start, int):
            end = start + size
        else:
            end = g.sizes([start]) + g.sizes([size])
        parts.append(g.cut(self, dim, start, end))
        start = end
    return parts


@op("split_with_sizes split.sizes unsafe_split_with_sizes split_with_sizes_copy")
def split_with_sizes(g, self, split_sizes, dim=0):
    return cuts(g, self, split_sizes, dim)


def _length(self, dim, what):
    if not isinstance(self.shape[dim], int):
        raise NotImplementedError(f"onnx.export: {what} of a dimension that varies has no translation to ONNX")
    return self.shape[dim]


@op("split.Tensor split unsafe_split split_copy")
def split(g, self, split_size, dim=0):
    if isinstance(split_size, (list, tuple)):
        return cuts(g, self, split_size, dim)
    known = isinstance(self.shape[dim], int) and isinstance(split_size, int)
    count = -(-self.shape[dim] // split_size) if known else len(g.results) or _length(self, dim, "split")
    rest = g.cut(self, dim, split_size * (count - 1), 2**63 - 1)
    return [*cuts(g, self, [split_size] * (count - 1), dim), rest]


@op("chunk unsafe_chunk")
def chunk(g, self, chunks, dim=0):
    if not isinstance(self.shape[dim], int):
        size = g.Div(g.size(self, dim) + (chunks - 1), chunks)
        return [g.cut(self, dim, size * i, size * (i + 1)) for i in range(len(g.results) or chunks)]
    length = self.shape[dim]
    # All chunks but the last are equally long, so that there may be fewer than requested.
    size = max(-(-length // chunks), 1)
    return cuts(g, self, [min(size, length - i) for i in range(0, length, size)] or [0] * chunks, dim)


@op("tensor_split")
def tensor_split(g, self, sections, dim=0):
    if not isinstance(self.shape[dim], int) and isinstance(sections, int):
        size = g.size(self, dim)
        begin = [g.Div(size, sections) * i + g.Min(g.Mod(size, sections), i) for i in range(sections + 1)]
        return [g.cut(self, dim, start, end) for start, end in zip(begin, begin[1:])]
    if isinstance(sections, int):
        length = _length(self, dim, "tensor_split")
        at = np.cumsum([length // sections + (i < length % sections) for i in range(sections)])[:-1].tolist()
    elif isinstance(sections, Value):
        at = [g.reshape(g.take(sections, i, 0), [1]) for i in range(_length(sections, 0, "tensor_split"))]
    else:
        at = list(sections)
    return [g.cut(self, dim, start, end) for start, end in zip([0, *at], [*at, 2**63 - 1])]


@op("hsplit")
def hsplit(g, self, sections):
    return tensor_split(g, self, sections, 0 if self.rank == 1 else 1)


@op("vsplit")
def vsplit(g, self, sections):
    return tensor_split(g, self, sections, 0)


@op("dsplit")
def dsplit(g, self, sections):
    return tensor_split(g, self, sections, 2)


@op("flip")
def flip(g, self, dims):
    dims = [d % self.rank for d in dims] if self.rank else []
    if not dims:
        return self
    # An end before the first element; -1 would stand for the last one.
    ends = [-(2**63)] * len(dims)
    result = g.Slice(self, [-1] * len(dims), ends, dims, [-1] * len(dims))
    result.shape = self.shape
    return result


@op("fliplr")
def fliplr(g, self):
    return flip(g, self, [1])


@op("flipud")
def flipud(g, self):
    return flip(g, self, [0])


@op("roll")
def roll(g, self, shifts, dims=()):
    shifts, dims = ([v] if isinstance(v, (int, Value)) else list(v) for v in (shifts, dims))
    if not dims:
        return g.reshape(roll(g, g.reshape(self, [-1]), shifts, [0]), g.shape_of(self))
    for shift, dim in zip(shifts, dims):
        size = self.shape[dim]
        if not isinstance(shift, int):
            raise NotImplementedError("onnx.export: roll by a number that varies has no translation to ONNX")
        shift = shift % size if isinstance(size, int) and size else shift
        if shift:
            shape = self.shape
            self = g.concat([g.cut(self, dim, -shift, 2**63 - 1), g.cut(self, dim, 0, -shift)], dim)
            self.shape = shape
    return self


@op("rot90")
def rot90(g, self, k=1, dims=(0, 1)):
    a, b = dims
    if k % 4 == 0:
        return self
    if k % 4 == 2:
        return flip(g, self, [a, b])
    return g.transpose(flip(g, self, [b]), a, b) if k % 4 == 1 else flip(g, g.transpose(self, a, b), [b])


@op("repeat")
def repeat(g, self, repeats):
    self = g.unsqueeze(self, *range(len(repeats) - self.rank)) if len(repeats) > self.rank else self
    result = g.Tile(self, g.sizes(repeats))
    result.shape = g.shape
    return result


@op("tile")
def tile(g, self, dims):
    return repeat(g, self, [1] * (self.rank - len(dims)) + list(dims))


@op("repeat_interleave.self_int")
def repeat_interleave(g, self, repeats, dim=None, output_size=None):
    if dim is None:
        self, dim = g.reshape(self, [-1]), 0
    dim = dim % self.rank
    sizes = g.shape_of(self)
    lifted = g.expand(g.unsqueeze(self, dim + 1), [*sizes[: dim + 1], repeats, *sizes[dim + 1 :]])
    along = sizes[dim] * repeats if isinstance(sizes[dim], int) and isinstance(repeats, int) else -1
    return g.reshape(lifted, [*sizes[:dim], along, *sizes[dim + 1 :]])


@op("repeat_interleave.Tensor repeat_interleave.self_Tensor")
def repeat_interleave_tensor(g, self, repeats=None, dim=None, output_size=None):
    counts = self if repeats is None else repeats
    ends = g.CumSum(g.cast(counts, "int64"), 0)
    total = g.scalar(g.cut(ends, 0, -1, 2**63 - 1))
    places = g.unsqueeze(g.Range(0, total, 1), 1)
    # A place belongs to the first entry whose end lies behind it: the ends before it are counted.
    which = g.reduce("Sum", g.cast(g.GreaterOrEqual(places, g.unsqueeze(ends, 0)), "int64"), 1)
    if repeats is None:
        return which
    self, dim = (g.reshape(self, [-1]), 0) if dim is None else (self, dim)
    return g.take(self, which, dim)


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@op("pad")
def padded(g, self, pad, mode="constant", value=None):
    if mode == "circular":
        return _circular(g, self, pad)
    dims = len(pad) // 2
    if mode != "constant" and any(isinstance(p, int) and p < 0 for p in pad):
        self, pad = _cut(g, self, pad, mode)
    before = [0] * (self.rank - dims) + [pad[2 * i] for i in reversed(range(dims))]
    after = [0] * (self.rank - dims) + [pad[2 * i + 1] for i in reversed(range(dims))]
    fill = g.tensor(0 if value is None else value, self.dtype) if mode == "constant" else None
    boolean = self.dtype == "bool"
    if boolean:
        self, fill = g.cast(self, "int32"), g.cast(fill, "int32") if fill is not None else None
    if not any(isinstance(p, Value) or p for p in pad):
        return g.Identity(self)
    result = g.Pad(self, g.sizes([*before, *after]), fill, mode=_MODES[mode])
    result.shape = g.shape
    return g.cast(result, "bool") if boolean else result


def _cut(g, self, pad, mode):
    """Return the lines that begin or end within what is there, of which runtimes pad none: their elements by their places."""
    pad = list(pad)
    for i in range(len(pad) // 2):
        before, after = pad[2 * i : 2 * i + 2]
        dim = self.rank - 1 - i
        size = self.shape[dim]
        if min(before, after) >= 0:
            continue
        if isinstance(size, int):
            at = np.arange(size + before + after) - before
            at = np.clip(at, 0, size - 1) if mode == "replicate" else size - 1 - np.abs(size - 1 - np.abs(at))
            sizes = tuple(len(at) if d == dim else s for d, s in enumerate(self.shape))
            self, pad[2 * i], pad[2 * i + 1] = g.Gather(self, g.constant(at), axis=dim), 0, 0
            self.shape = sizes
        else:
            self = g.cut(self, dim, -min(before, 0), min(after, 0) or 2**63 - 1)
            pad[2 * i], pad[2 * i + 1] = max(before, 0), max(after, 0)
    return self, pad


def _circular(g, self, pad):
    for i in range(len(pad) // 2):
        dim = self.rank - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        parts = [g.cut(self, dim, -before, 2**63 - 1)] if before > 0 else []
        body = self if min(before, after) >= 0 else g.cut(self, dim, max(-before, 0), after if after < 0 else 2**63 - 1)
        parts.append(body)
        parts += [g.cut(self, dim, 0, after)] if after > 0 else []
        self = g.concat(parts, dim)
    return self


@op("constant_pad_nd")
def constant_pad_nd(g, self, pad, value=0):
    return padded(g, self, pad, "constant", value)


@op("reflection_pad1d reflection_pad2d reflection_pad3d")
def reflection_pad(g, self, padding):
    return padded(g, self, padding, "reflect")


@op("replication_pad1d replication_pad2d replication_pad3d _pad_edges")
def replication_pad(g, self, padding, mode="replicate"):
    return padded(g, self, padding, mode)


@op("block_diag")
def block_diag(g, tensors):
    tensors = [g.reshape(t, [1, -1]) if t.rank < 2 else t for t in _joined(g, tensors)]
    sizes = [g.size(t, 1) for t in tensors]
    rows, before, after = [], 0, sum(sizes)
    for t, size in zip(tensors, sizes):
        after = after - size
        rows.append(g.Pad(t, g.sizes([0, before, 0, after]), g.constant(0, t.dtype)))
        before = before + size
    return g.concat(rows, 0)
