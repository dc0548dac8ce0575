"""Translate views and other forms of the same elements."""

import numpy as np

from .._graph import Value
from ._table import op

_END = 2**63 - 1


@op("view reshape _unsafe_view view_copy _reshape_alias")
def view(g, self, size):
    return g.reshape(self, size)


@op("view_as reshape_as")
def view_as(g, self, other):
    return g.reshape(self, g.shape_of(other))


@op("expand_as")
def expand_as(g, self, other):
    return g.expand(self, g.shape_of(other))


@op("sum_to_size")
def sum_to_size(g, self, size):
    lead = self.rank - len(size)
    self = g.reduce("Sum", self, range(lead)) if lead else self
    dims = [d for d, s in enumerate(size) if isinstance(s, int) and s == 1 and self.shape[d] != 1]
    return g.reduce("Sum", self, dims, True) if dims else self


@op("flatten ravel")
def flatten(g, self, start_dim=0, end_dim=-1):
    if not self.rank:
        return g.reshape(self, [1])
    start, end = start_dim % self.rank, end_dim % self.rank
    sizes = g.shape_of(self)
    return g.reshape(self, [*sizes[:start], -1, *sizes[end + 1 :]])


@op("unflatten")
def unflatten(g, self, dim, sizes):
    there = g.shape_of(self)
    dim = dim % self.rank
    return g.reshape(self, [*there[:dim], *sizes, *there[dim + 1 :]])


@op("transpose swapaxes swapdims transpose_copy")
def transpose(g, self, dim0, dim1):
    return g.transpose(self, dim0, dim1) if self.rank else self


@op("t t_copy numpy_T")
def t(g, self):
    return g.transpose(self, 0, 1) if self.rank == 2 else self


@op("mT mH adjoint matrix_H")
def adjoint(g, self):
    return g.transpose(self, -1, -2)


@op("permute permute_copy")
def permute(g, self, dims):
    return g.permute(self, dims)


@op("movedim moveaxis")
def movedim(g, self, source, destination):
    source, destination = ([d] if isinstance(d, int) else list(d) for d in (source, destination))
    source, destination = ([d % self.rank for d in dims] for dims in (source, destination))
    rest = iter(d for d in range(self.rank) if d not in source)
    return g.permute(self, [source[destination.index(i)] if i in destination else next(rest) for i in range(self.rank)])


@op("expand expand_copy broadcast_to")
def expand(g, self, size, implicit=False):
    sizes = [1 if isinstance(s, int) and s == -1 else s for s in size]  # a 1 keeps what is there
    return g.expand(self, sizes)


@op("unsqueeze unsqueeze_copy")
def unsqueeze(g, self, dim):
    return g.unsqueeze(self, dim)


@op("squeeze squeeze_copy")
def squeeze(g, self, dim=None):
    dims = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    return g.squeeze(self, *(d for d in dims if self.rank and self.shape[d] == 1))


@op("select select_copy")
def select(g, self, dim, index):
    return g.take(self, g.scalar(index) if isinstance(index, Value) else index, dim)


@op("slice slice_copy")
def slice_(g, self, dim=0, start=None, end=None, step=1):
    start, end = 0 if start is None else start, _END if end is None else end
    return self if start == 0 and end == _END and step == 1 else g.cut(self, dim, start, end, step)


@op("negative_slice")
def negative_slice(g, self, dim, start, end, step):
    return g.cut(self, dim, start, end, step)


@op("narrow narrow_copy")
def narrow(g, self, dim, start, length):
    if isinstance(start, int) and isinstance(length, int) and start >= 0:
        return g.cut(self, dim, start, start + length)
    start, length = g.sizes([start]), g.sizes([length])
    return g.cut(self, dim, start, start + length)


@op("diagonal diagonal_copy linalg_diagonal")
def diagonal(g, self, offset=0, dim1=0, dim2=1):
    dim1, dim2 = dim1 % self.rank, dim2 % self.rank
    rest = [d for d in range(self.rank) if d not in (dim1, dim2)]
    rows, columns = self.shape[dim1], self.shape[dim2]
    moved = g.permute(self, [*rest, dim1, dim2])
    if not isinstance(rows, int) or not isinstance(columns, int):
        return _varying_diagonal(g, moved, offset)
    at = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    flat = g.reshape(moved, [*(g.size(self, d) for d in rest), rows * columns])
    return g.take(flat, np.asarray(at, dtype=np.int64), -1)


def _varying_diagonal(g, self, offset):
    """Return the diagonal of matrices whose size is known when the model runs."""
    rows, columns = (g.sizes([g.size(self, d)]) for d in (-2, -1))
    first = max(-offset, 0)
    last = g.Min(rows, columns - offset)
    places = g.Range(first, g.scalar(g.Max(last, first)), 1)
    places.shape = (None,)
    flat = g.reshape(self, [*g.shape_of(self)[:-2], rows * columns])
    return g.take(flat, places * (g.scalar(columns) + 1) + offset, -1)


@op("unfold unfold_copy")
def unfold(g, self, dimension, size, step):
    if not self.rank:
        return g.expand(g.reshape(self, [1]), [size])
    dim = dimension % self.rank
    length = self.shape[dim]
    if isinstance(length, int):
        windows = np.arange((length - size) // step + 1)[:, None] * step + np.arange(size)
    else:
        begins = g.Range(0, g.scalar(g.size(self, dim)) - (size - 1), step)
        begins.shape = (None,)
        windows = g.unsqueeze(begins, 1) + g.constant(np.arange(size))
    taken = g.take(self, windows, dim)  # the windows, then their elements, in the place of dim
    order = list(range(taken.rank))
    order.append(order.pop(dim + 1))
    return g.permute(taken, order)


@op("as_strided as_strided_copy")
def as_strided(g, self, size, stride, storage_offset=None):
    if not all(isinstance(s, int) for s in (*size, *stride)):
        raise NotImplementedError("onnx.export: as_strided with sizes that vary has no translation to ONNX")
    at = np.asarray(storage_offset or 0)
    for s, step in zip(size, stride):
        at = at[..., None] + np.arange(s) * step
    return g.take(g.reshape(self, [-1]), at, 0)


@op("alias alias_copy detach detach_copy clone contiguous lift_fresh_copy lift_fresh lift to_dtype")
def alias(g, self, *args, **kwargs):
    return g.cast(self, g.dtype)


@op("_to_copy to type_as _to_device _cast_Float float double half bfloat16 int long short bool")
def to(g, self, *args, **kwargs):
    return g.cast(self, g.dtype)


@op("copy copy_")
def copy(g, self, src, non_blocking=False):
    src = g.cast(src, self.dtype)
    return g.expand(src, g.shape_of(self)) if src.shape != self.shape else src


@op("unbind unbind_copy")
def unbind(g, self, dim=0):
    if not isinstance(self.shape[dim], int):
        raise NotImplementedError("onnx.export: unbind of a dimension that varies has no translation to ONNX")
    return [g.take(self, i, dim) for i in range(self.shape[dim])]


def replaced(g, self, dim, at, source):
    """Return `self` with the slices `at` (a list) along `dim` replaced by `source`."""
    dim = dim % self.rank
    shape = [1] * self.rank
    shape[dim] = len(at)
    index = g.expand(g.constant(np.asarray(at, dtype=np.int64), shape=shape), g.shape_of(source))
    return g.ScatterElements(self, index, g.cast(source, self.dtype), axis=dim)


@op("select_scatter")
def select_scatter(g, self, src, dim, index):
    line = g.unsqueeze(g.cast(src, self.dtype), dim % self.rank)
    return slice_scatter(g, self, line, dim, index, None if index == -1 else index + 1)


@op("slice_scatter")
def slice_scatter(g, self, src, dim=0, start=None, end=None, step=1):
    dim = dim % self.rank
    start, end = 0 if start is None else start, _END if end is None else end
    size = self.shape[dim]
    src = g.cast(src, self.dtype)
    wanted = [*g.shape_of(self)[:dim], g.size(src, dim) if src.rank == self.rank else 1, *g.shape_of(self)[dim + 1 :]]
    if isinstance(size, int) and all(isinstance(i, int) for i in (start, end, step)):
        at = list(range(*slice(start, end, step).indices(size)))
        wanted[dim] = len(at)
        return replaced(g, self, dim, at, g.expand(src, wanted))
    if start == 0 and end == _END and step == 1:
        return g.expand(src, wanted)
    places = g.cut(g.Range(0, g.scalar(g.sizes([g.size(self, dim)])), 1), 0, start, end, step)
    shape = [1] * self.rank
    shape[dim] = -1
    wanted[dim] = g.Shape(places)
    src = g.expand(src, wanted)
    return g.ScatterElements(self, g.expand(g.reshape(places, shape), wanted), src, axis=dim)


@op("diagonal_scatter")
def diagonal_scatter(g, self, src, offset=0, dim1=0, dim2=1):
    dim1, dim2 = dim1 % self.rank, dim2 % self.rank
    rest = [d for d in range(self.rank) if d not in (dim1, dim2)]
    rows, columns = self.shape[dim1], self.shape[dim2]
    if rows == columns and isinstance(rows, str):
        made, there = (diag_embed(g, v, offset, dim1, dim2) for v in (src, g.expand(g.constant(1, src.dtype), g.shape_of(src))))
        return g.Where(g.Equal(there, 1), made, self)
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise NotImplementedError("onnx.export: diagonal_scatter to a matrix whose size varies has no translation to ONNX")
    at = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    order = [*rest, dim1, dim2]
    sizes = [g.size(self, d) for d in rest]
    flat = g.reshape(g.permute(self, order), [*sizes, rows * columns])
    filled = g.reshape(replaced(g, flat, -1, at, src), [*sizes, rows, columns])
    return g.permute(filled, [order.index(d) for d in range(self.rank)])


@op("as_strided_scatter")
def as_strided_scatter(g, self, src, size, stride, storage_offset=None):
    if not all(isinstance(s, int) for s in (*size, *stride)):
        raise NotImplementedError("onnx.export: as_strided_scatter with sizes that vary has no translation to ONNX")
    at = np.asarray(storage_offset or 0)
    for s, step in zip(size, stride):
        at = at[..., None] + np.arange(s) * step
    flat, line = g.reshape(self, [-1]), g.reshape(g.cast(src, self.dtype), [-1])
    written = g.ScatterElements(flat, g.constant(at.reshape(-1).astype(np.int64)), line, axis=0) if at.size else flat
    return g.reshape(written, g.shape_of(self))


@op("resize_")
def resize_(g, self, size, *_, **__):
    there = self.shape
    if not all(isinstance(s, int) for s in (*size, *there)):
        raise NotImplementedError("onnx.export: resize_ with sizes that vary has no translation to ONNX")
    total = int(np.prod(size))
    flat, more = g.reshape(self, [-1]), total - int(np.prod(there))
    if more > 0:
        flat = g.Pad(flat, g.constant([0, more]), g.constant(0, self.dtype))
    return g.reshape(g.cut(flat, 0, 0, total) if more < 0 else flat, size)


@op("resize_as_")
def resize_as_(g, self, other, *_, **__):
    return resize_(g, self, list(other.shape))


@op("pixel_shuffle")
def pixel_shuffle(g, self, upscale_factor):
    *lead, c, h, w = g.shape_of(self)
    flat = g.reshape(self, [-1, c, h, w]) if len(lead) != 1 else self
    result = g.DepthToSpace(flat, blocksize=upscale_factor, mode="CRD")
    return result if len(lead) == 1 else g.reshape(result, [*lead, *(_size(s) for s in g.shape[-3:])])


def _size(size):
    if not isinstance(size, int):
        raise NotImplementedError("onnx.export: pixel_shuffle without exactly one batch dimension, of a size that varies")
    return size


@op("pixel_unshuffle")
def pixel_unshuffle(g, self, downscale_factor):
    r, lead = downscale_factor, self.rank - 3
    *batch, c, h, w = g.shape_of(self)
    h, w = (s // r if isinstance(s, int) else g.Div(s, r) for s in (h, w))
    parts = g.reshape(self, [*batch, c, h, r, w, r])
    order = [*range(lead), *(lead + i for i in (0, 2, 4, 1, 3))]
    c = c * r * r if isinstance(c, int) else g.Mul(c, r * r)
    return g.reshape(g.permute(parts, order), [*batch, c, h, w])


@op("channel_shuffle native_channel_shuffle")
def channel_shuffle(g, self, groups):
    n, c, *rest = g.shape_of(self)
    parts = g.reshape(self, [n, groups, c // groups, *rest])
    return g.reshape(g.transpose(parts, 1, 2), [n, c, *rest])


@op("broadcast_tensors")
def broadcast_tensors(g, tensors):
    shape = _together(g, tensors)
    return [g.Expand(t, shape) for t in tensors]


def _together(g, tensors):
    total = tensors[0]
    # ONNX has no op that broadcasts shapes: the sum of zeros of all shapes has the common one.
    zero = g.cast(tensors[0], "float32") * 0.0
    for other in tensors[1:]:
        zero = zero + g.cast(other, "float32") * 0.0
    return g.Shape(zero if len(tensors) > 1 else total)


@op("meshgrid")
def meshgrid(g, tensors, indexing="ij"):
    tensors = [t if t.rank else g.reshape(t, [1]) for t in tensors]
    if indexing == "xy" and len(tensors) > 1:
        results = meshgrid(g, [tensors[1], tensors[0], *tensors[2:]])
        return [results[1], results[0], *results[2:]]
    sizes = [g.size(t, 0) if t.rank else 1 for t in tensors]
    lift = lambda i, t: g.reshape(t, [-1 if d == i else 1 for d in range(len(tensors))])
    return [g.expand(lift(i, t), sizes) for i, t in enumerate(tensors)]


@op("atleast_1d atleast_2d atleast_3d")
def atleast(g, self):
    if isinstance(self, (list, tuple)):
        return [_at_least(g, t, len(r[1])) for t, r in zip(self, g.results)]
    return _at_least(g, self, len(g.shape))


def _at_least(g, self, rank):
    if self.rank == rank:
        return self
    if rank < 3:
        return g.unsqueeze(self, *range(rank - self.rank))
    # atleast_3d makes (1, n, 1) of (n,), and (m, n, 1) of (m, n).
    return g.unsqueeze(self, *{0: (0, 1, 2), 1: (0, 2), 2: (2,)}[self.rank])


@op("sym_size")
def sym_size(g, self, dim):
    return g.size(self, dim)


@op("sym_numel numel")
def sym_numel(g, self):
    return g.numel(self)


@op("scalar_tensor")
def scalar_tensor(g, s, **_):
    return g.cast(g.scalar(s), g.dtype) if isinstance(s, Value) else g.constant(s, g.dtype)


@op("item _local_scalar_dense")
def item(g, self):
    return g.scalar(self)


@op("diag_embed")
def diag_embed(g, self, offset=0, dim1=-2, dim2=-1):
    size = self.shape[-1]
    if not isinstance(size, int):
        return _placed(g, _embedded_line(g, self, offset), dim1, dim2)
    places = np.zeros((size, size + abs(offset), size + abs(offset)), dtype=bool)
    at = np.arange(size)
    # A product with zeros and ones puts element i where `places[i]` has its one.
    places[at, at + max(-offset, 0), at + max(offset, 0)] = True
    lifted = g.MatMul(g.unsqueeze(self, self.rank - 1), g.constant(places.reshape(size, -1), self.dtype))
    lifted = g.reshape(lifted, [*g.shape_of(self)[:-1], size + abs(offset), size + abs(offset)])
    return _placed(g, lifted, dim1, dim2)


def _placed(g, matrices, dim1, dim2):
    """Return the last two dimensions in other places."""
    rank = matrices.rank
    dim1, dim2 = dim1 % rank, dim2 % rank
    rest = iter(range(rank - 2))
    return g.permute(matrices, [rank - 2 if d == dim1 else rank - 1 if d == dim2 else next(rest) for d in range(rank)])


def _embedded_line(g, self, offset):
    """Return the matrices with lines on a diagonal, whose length is known when the model runs."""
    pads = [0] * (2 * self.rank)
    pads[-1 if offset >= 0 else self.rank - 1] = abs(offset)
    line = g.Pad(self, g.constant(pads), g.constant(0, self.dtype)) if offset else self
    line.shape = (*self.shape[:-1], None)
    places = g.Range(0, g.scalar(g.size(line, -1)), 1)
    places.shape = (None,)
    rows, columns = g.unsqueeze(places, 1), g.unsqueeze(places, 0)
    made = g.where(g.Equal(rows + offset, columns), g.unsqueeze(line, line.rank), g.constant(0, line.dtype))
    made.shape = (*self.shape[:-1], None, None)
    return made
