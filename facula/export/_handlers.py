"""Record calls that are not ops themselves: indexing, properties and methods written by hand.

Each is recorded as a few calls that do the same. Keys are the names under which the core sees the calls.
"""

from __future__ import annotations

import facula
from facula import _C

_nn = _C.nn_functional


# ---- indexing: basic indices become views, tensors and sequences `index` and `index_put_`


def _slice(view, dim, item):
    step = 1 if item.step is None else item.step
    if step < 1:
        raise NotImplementedError(f"export: slices with a step below 1 are not recorded, got {item.step}")
    if item.start is None and item.stop is None and step == 1:
        return view
    arguments = (view, dim, item.start, item.stop, step)

    def run():
        return view[(slice(None),) * dim + (slice(*(None if b is None else int(b) for b in (item.start, item.stop, step))),)]

    return _C._record_op("slice.Tensor", arguments, run, ())


def _select(view, dim, i):
    size = view.shape[dim]
    if not -size <= int(i) < size:
        raise IndexError(f"index {int(i)} is out of bounds for dimension {dim} with size {int(size)}")
    return _C.select(view, dim, i)


def _indices(x, key):
    """Return the view that basic indices make, and the index tensors by dimension, None where it is taken whole."""
    items = list(key) if isinstance(key, tuple) else [key]
    consumed = sum(_dims_of(item) for item in items)
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("index: at most one ellipsis")
    if consumed > x.dim():
        raise IndexError(f"index: too many indices for tensor of dimension {x.dim()}, got {consumed}")
    view, tensors, at = x, {}, 0
    for item in items:
        if item is None:
            view, at = view.unsqueeze(at), at + 1
        elif item is Ellipsis:
            at += x.dim() - consumed
        elif isinstance(item, slice):
            view, at = _slice(view, at, item), at + 1
        elif isinstance(item, bool):
            raise NotImplementedError("export: indices that are a bool are not recorded")
        elif isinstance(item, int):
            view = _select(view, at, item)
        else:
            tensor = item if isinstance(item, facula.Tensor) else facula.tensor(item, device=x.device)
            tensors[at] = tensor
            at += _dims_of(tensor)
    indices = [tensors.get(d) for d in range(max(tensors, default=-1) + 1)]
    for d, tensor in sorted(tensors.items(), reverse=True):  # a mask stands for as many dimensions as it has
        if tensor.dtype in (facula.bool, facula.uint8):
            indices[d + 1 : d + tensor.dim()] = []
    return view, indices


def _dims_of(item):
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, facula.Tensor) and item.dtype in (facula.bool, facula.uint8):
        return item.dim()
    return 1


def getitem(x, key):
    """Return x[key]."""
    view, indices = _indices(x, key)
    if indices:
        return _index(view, indices)
    return _C._ops.alias_view(x) if view is x else view


def _index(view, indices):
    """Return the table's `index`, which takes None for a dimension that is taken whole, and masks."""
    spread = _spread(view, indices)
    return _C._record_op("index.Tensor", (view, indices), lambda: view[spread], ())


def _spread(view, indices):
    """Return an index for Python that does the same."""
    return tuple(slice(None) if i is None else i for i in indices)


def _rank(view, indices):
    """Return how many dimensions there are where the indices point to."""
    given = [i for i in indices if i is not None]
    taken = sum(i.dim() if i.dtype is facula.bool else 1 for i in given)
    return view.dim() - taken + max(1 if i.dtype is facula.bool else i.dim() for i in given)


def _without_leading_ones(value, dims):
    """Drop leading dimensions of size 1 that an assigned value has more than its place, since the op takes none."""
    while value.dim() > dims and value.size(0) == 1:
        value = value.squeeze(0)
    return value


def setitem(x, key, value):
    """Do x[key] = value."""
    view, indices = _indices(x, key)
    if not indices:
        if isinstance(value, facula.Tensor):
            view.copy_(_without_leading_ones(value, view.dim()))
        else:
            view.fill_(value)
        return
    if not isinstance(value, facula.Tensor):
        value = _C.full((), value, dtype=x.dtype, device=x.device)
    value = _without_leading_ones(value, _rank(view, indices))
    spread = _spread(view, indices)

    def run():
        view[spread] = value
        return view

    _C._record_op("index_put_.default", (view, indices, value, False), run, ())


# ---- conversions


def _to(x, *args, **kwargs):
    other = args[0] if args and isinstance(args[0], facula.Tensor) else kwargs.get("other")
    if other is None:
        device, dtype, _, memory_format = _C._parse_to(*args, **kwargs)
    else:
        device, dtype, memory_format = other.device, other.dtype, kwargs.get("memory_format")
    copy = bool(kwargs.get("copy")) or any(a is True for a in args[2:])

    def run():
        return x.to(*args, **kwargs)

    if device is not None and device.type != x.device.type:
        return _C._record_op("to.device", (x, device, dtype or x.dtype, False, copy, memory_format), run, ())
    return _C._record_op("to.dtype", (x, dtype or x.dtype, False, copy, memory_format), run, ())


def _converted(dtype):
    def convert(x, memory_format=None):
        return _C._record_op("to.dtype", (x, dtype, False, False, memory_format), lambda: x.to(dtype), ())

    return convert


_DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32", "long": "int64",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
    "chalf": "complex32",
}  # fmt: skip


def _detach(x):
    def run():
        return x.detach()

    return _C._record_op("detach.default", (x,), run, ())


def _transposed(x):
    return x.permute(*reversed(range(x.dim())))


def _adjoint(x):
    swapped = x.transpose(-2, -1) if x.dim() else x
    return _C.conj(swapped) if x.dtype.is_complex else swapped


# ---- functions without an operator of PyTorch's


def _rnn_step(x, h, c, w_ih, w_hh, b_ih, b_hh, mode):
    def run():
        made = _nn._rnn_step(x, h, c, w_ih, w_hh, b_ih, b_hh, mode)
        return tuple(made) if mode == "LSTM" else made[0]

    if mode == "LSTM":
        return _C._record_op("lstm_cell.default", (x, [h, c], w_ih, w_hh, b_ih, b_hh), run, ())
    made = _C._record_op(f"{mode.lower()}_cell.default", (x, h, w_ih, w_hh, b_ih, b_hh), run, ())
    return made, made


HANDLERS = {
    "op:softsign": lambda x: x / (x.abs() + 1),
    "op:tanhshrink": lambda x: x - x.tanh(),
    "op:_rnn_step": _rnn_step,
    "__getitem__": getitem,
    "__setitem__": setitem,
    "to": _to,
    "type_as": lambda x, other: _to(x, other),
    "cpu": lambda x, memory_format=None: _to(x, "cpu"),
    "detach": _detach,
    "data.__get__": _detach,
    "T.__get__": _transposed,
    "mT.__get__": lambda x: x.transpose(-2, -1),
    "H.__get__": _adjoint,
    "mH.__get__": _adjoint,
    "real.__get__": lambda x: _C.real(x),
    "imag.__get__": lambda x: _C.imag(x),
    "__radd__": lambda x, other: _C.add(other, x),
    "__rsub__": lambda x, other: _C.sub(other, x),
    "__rmul__": lambda x, other: _C.mul(other, x),
    "__rtruediv__": lambda x, other: _C.div(other, x),
    "__rfloordiv__": lambda x, other: _C.floor_divide(other, x),
    "__rmod__": lambda x, other: _C.remainder(other, x),
    "__rpow__": lambda x, other: _C.pow(other, x),
    "__rand__": lambda x, other: _C.bitwise_and(other, x),
    "__ror__": lambda x, other: _C.bitwise_or(other, x),
    "__rxor__": lambda x, other: _C.bitwise_xor(other, x),
    "__rlshift__": lambda x, other: _C.bitwise_left_shift(other, x),
    "__rrshift__": lambda x, other: _C.bitwise_right_shift(other, x),
    **{name: _converted(getattr(facula, dtype)) for name, dtype in _DTYPES.items()},
}
