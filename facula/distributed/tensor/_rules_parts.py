"""Rules of ops that take tensors apart and put them together, and of attention over heads."""

from __future__ import annotations

import facula
from facula import _C

from ._dtensor import DTensor
from ._norm import total_norm
from ._rules import _RULES, _along, _Input, _reduction, _run, _summed
from ._spec import Spec
from .placement_types import Partial, Shard


def _plainly(func, *args, **kwargs):
    with _C.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _given(args, kwargs, position: int, name: str, default=None):
    return args[position] if len(args) > position else kwargs.get(name, default)


def _all_labels(x) -> list:
    return list(range(x.dim()))


def _several(func, args, kwargs):
    """split, chunk and others: parts along a dimension that is then whole in every process."""
    x, unbinds = args[0], func.__name__ == "unbind"
    dim = _given(args, kwargs, 1 if unbinds else 2, "dim", 0)
    if not isinstance(x, DTensor) or not isinstance(dim, int) or not -x.dim() <= dim < x.dim():
        return NotImplemented
    labels = [None if d == dim % x.dim() else d for d in _all_labels(x)]
    out = [label for label in labels if label is not None] if unbinds else labels
    found: list = []

    def compute(parts):
        found.extend(_plainly(func, parts[0], *args[1:], **kwargs))
        return found[0] if found else parts[0]

    first = _run(func.__name__, [_Input(_summed(x), labels)], out, compute)
    rest = [_alike(t, first, out) for t in found]
    return tuple(rest)


def _alike(local, first, labels):
    """A part that lies as the first one does; only dimensions without a label may differ in length."""
    shape = [n if label is None else whole for n, label, whole in zip(local.shape, labels, first.shape)]
    return DTensor._wrap(local, Spec(first.device_mesh, first.placements, facula.Size(shape)))


def _joined_along(func, args, kwargs):
    tensors, dim = args[0], _given(args, kwargs, 1, "dim", 0)
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, DTensor) for t in tensors) or "out" in kwargs:
        return NotImplemented
    dims = tensors[0].dim()
    if dims == 0 or any(t.dim() != dims for t in tensors) or not isinstance(dim, int):
        return NotImplemented
    stacks = func.__name__ == "stack"
    place = dim % (dims + stacks)
    labels = _all_labels(tensors[0]) if stacks else [None if d == place else d for d in range(dims)]
    if any(t.shape[d] != tensors[0].shape[d] for t in tensors for d, label in enumerate(labels) if label is not None):
        return NotImplemented
    out = [*labels[:place], None, *labels[place:]] if stacks else labels
    return _run(
        func.__name__, [_Input(_summed(t), labels) for t in tensors], out, lambda parts: _plainly(func, list(parts), dim)
    )


def _squeeze(func, args, kwargs):
    x, dims = args[0], _given(args, kwargs, 1, "dim")
    chosen = range(x.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {d % x.dim() for d in chosen if x.shape[d] == 1}
    labels = [None if d in gone else d for d in _all_labels(x)]
    out = [d for d in labels if d is not None]
    compute = lambda parts: parts[0].squeeze(sorted(gone)) if gone else parts[0]  # noqa: E731
    return _run("squeeze", [_Input(_summed(x), labels)], out, compute)


def _reshaped(func, args, kwargs):
    """flatten and unflatten, as reshape."""
    shape = list(args[0].shape)
    found = _plainly(getattr(facula.Tensor, func.__name__), facula.empty(shape, device="meta"), *args[1:], **kwargs)
    return _RULES["reshape"](facula.reshape, (args[0], tuple(found.shape)), {})


def _expand(func, args, kwargs):
    x = args[0]
    if func.__name__ == "expand_as":
        sizes = list(args[1].shape)
    else:
        sizes = list(args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]) or list(kwargs.get("size", ()))
    new = len(sizes) - x.dim()
    if new < 0:
        return NotImplemented
    stretched = [d for d in _all_labels(x) if sizes[new + d] not in (-1, x.shape[d])]
    labels = [None if d in stretched else d for d in _all_labels(x)]
    local = [*sizes[:new], *(sizes[new + d] if d in stretched else -1 for d in _all_labels(x))]
    return _run("expand", [_Input(_summed(x), labels)], [None] * new + labels, lambda parts: parts[0].expand(local))


def _getitem(func, args, kwargs):
    """Basic indices: dimensions of which all is taken may be cut."""
    x, index = args
    index = list(index) if isinstance(index, tuple) else [index]
    if not isinstance(x, DTensor) or not all(i is None or type(i) in (int, slice, type(Ellipsis)) for i in index):
        return NotImplemented
    taken = sum(i is not None and i is not Ellipsis for i in index)
    if taken > x.dim() or index.count(Ellipsis) > 1:
        return NotImplemented
    if Ellipsis not in index:
        index.append(Ellipsis)
    at = index.index(Ellipsis)
    index[at : at + 1] = [slice(None)] * (x.dim() - taken)
    labels, out, d = [], [], 0
    for i in index:
        if i is None:
            out.append(None)
            continue
        label = d if i == slice(None) else None
        labels.append(label)
        out += [] if type(i) is int else [label]
        d += 1
    return _run("getitem", [_Input(_summed(x), labels)], out, lambda parts: parts[0][tuple(index)])


def _select(func, args, kwargs):
    x, dim, index = args[0], _given(args, kwargs, 1, "dim"), _given(args, kwargs, 2, "index")
    return _getitem(func, (x, tuple([slice(None)] * (dim % x.dim()) + [index])), {})


def _narrow(func, args, kwargs):
    x, dim = args[0], _given(args, kwargs, 1, "dim")
    start, length = _given(args, kwargs, 2, "start"), _given(args, kwargs, 3, "length")
    if not (type(start) is int and type(length) is int and 0 <= start <= start + length <= x.shape[dim]):
        return NotImplemented
    return _getitem(func, (x, tuple([slice(None)] * (dim % x.dim()) + [slice(start, start + length)])), {})


def _triangle(func, args, kwargs):
    """tril and triu: rows and columns are whole."""
    x = args[0]
    labels = [d if d < x.dim() - 2 else None for d in _all_labels(x)]
    compute = lambda parts: _plainly(func, parts[0], *args[1:], **kwargs)  # noqa: E731
    return _run(func.__name__, [_Input(_summed(x), labels)], labels, compute)


def _repeat_interleave(func, args, kwargs):
    """Along a dimension that is cut into equal parts, every process repeats its own."""
    x, times, dim = args[0], _given(args, kwargs, 1, "repeats"), _given(args, kwargs, 2, "dim")
    if type(times) is not int or type(dim) is not int or times < 1:
        return NotImplemented
    dim %= x.dim()
    ways = 1
    for number, p in enumerate(x.placements):
        ways *= x.device_mesh.size(number) if isinstance(p, Shard) and p.dim == dim else 1
    labels = _all_labels(x)
    if x.shape[dim] % ways:
        labels[dim] = None
    result = _run(func.__name__, [_Input(_summed(x), labels)], labels, lambda parts: parts[0].repeat_interleave(times, dim))
    shape = [n * times if d == dim else n for d, n in enumerate(x.shape)]
    result._spec = Spec(result._spec.mesh, result._spec.placements, facula.Size(shape))
    return result


def _attention(func, args, kwargs):
    """Batches and heads may be cut; of shared heads, where every process gets whole groups."""
    q, k, v = args[:3]
    mask, dropout = _given(args, kwargs, 3, "attn_mask"), _given(args, kwargs, 4, "dropout_p", 0.0)
    if not all(isinstance(t, DTensor) and t.dim() == q.dim() for t in (q, k, v)) or q.dim() < 3 or dropout:
        return NotImplemented
    if mask is not None and not isinstance(mask, DTensor):
        return NotImplemented
    ways = q.device_mesh.size()
    labels = [f"batch{d}" for d in range(q.dim() - 3)] + ["head" if k.shape[-3] % ways == 0 == q.shape[-3] % ways else None]
    if any(t.shape[:-3] != q.shape[:-3] for t in (k, v)):
        return NotImplemented
    inputs = [_Input(_summed(t), [*labels, None, None]) for t in (k, v)]
    if mask is not None:
        last = labels[max(0, len(labels) - mask.dim() + 2) :]
        its = [label if n == whole else None for label, n, whole in zip(last, mask.shape[:-2], q.shape[-mask.dim() : -2])]
        if mask.dim() > q.dim() or len(its) != mask.dim() - 2:
            return NotImplemented
        inputs.append(_Input(_summed(mask), [*its, None, None]))
    inputs.append(_Input(_summed(q), [*labels, None, None]))
    options = {k: v for k, v in kwargs.items() if k not in ("attn_mask", "dropout_p")}
    for name, value in zip(("is_causal", "scale", "enable_gqa"), args[5:]):
        options[name] = value

    def compute(parts):
        own_mask = parts[2] if mask is not None else None
        return _plainly(func, parts[-1], parts[0], parts[1], attn_mask=own_mask, **options)

    return _run("scaled_dot_product_attention", inputs, [*labels, None, None], compute)


def _at_most_along(func, args, kwargs):
    """argmax and argmin along a dimension that is whole."""
    x, dim, keepdim = args[0], _given(args, kwargs, 1, "dim"), _given(args, kwargs, 2, "keepdim", False)
    if not isinstance(dim, int):
        return NotImplemented
    labels = [None if d == dim % x.dim() else d for d in _all_labels(x)]
    out = labels if keepdim else [d for d in labels if d is not None]
    return _run(func.__name__, [_Input(_summed(x), labels)], out, lambda parts: _plainly(func, parts[0], dim, keepdim))


def _mse_loss(func, args, kwargs):
    a, b, reduction = args[0], args[1], _given(args, kwargs, 2, "reduction", 1)
    if not (isinstance(a, DTensor) and isinstance(b, DTensor)) or a.shape != b.shape or len(args) > 3:
        return NotImplemented
    squares = (a - b).square()
    return squares if reduction == 0 else _reduction(facula.mean if reduction == 1 else facula.sum, (squares,), {})


def _norm(func, args, kwargs):
    """The norm of all values, where no gradient is asked for."""
    x, order = args[0], _given(args, kwargs, 1, "p" if func.__name__ == "norm" else "ord", 2)
    order = {"fro": 2, None: 2}.get(order, order)
    more = any(a not in (None, False, ()) for a in args[2:]) or any(
        v not in (None, False) for k, v in kwargs.items() if k not in ("p", "ord")
    )
    if more or isinstance(order, str) or order <= 0 or facula.is_grad_enabled() and x.requires_grad:
        return NotImplemented
    return total_norm([x], float(order))


def _broadcast_tensors(func, args, kwargs):
    if any(t.shape != args[0].shape for t in args):
        return NotImplemented
    return list(args)


def _is_one_layout(func, args, kwargs):
    """cumulative sums along a dimension that is whole."""
    return _along(1)(func, args, kwargs) if not any(isinstance(p, Partial) for p in args[0].placements) else NotImplemented


_RULES.update(
    {
        **dict.fromkeys(("split", "chunk", "tensor_split", "split_with_sizes", "unbind"), _several),
        **dict.fromkeys(("cat", "concat", "concatenate", "stack"), _joined_along),
        **dict.fromkeys(("flatten", "unflatten"), _reshaped),
        **dict.fromkeys(("expand", "expand_as"), _expand),
        **dict.fromkeys(("tril", "triu"), _triangle),
        **dict.fromkeys(("argmax", "argmin"), _at_most_along),
        **dict.fromkeys(("cumsum", "cumprod"), _is_one_layout),
        "__getitem__": _getitem,
        "getitem": _getitem,
        "select": _select,
        "narrow": _narrow,
        "squeeze": _squeeze,
        "repeat_interleave": _repeat_interleave,
        "scaled_dot_product_attention": _attention,
        **dict.fromkeys(("norm", "vector_norm", "linalg_vector_norm"), _norm),
        "mse_loss": _mse_loss,
        "broadcast_tensors": _broadcast_tensors,
    }
)
