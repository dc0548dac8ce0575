"""Define rules of ops that split and join tensors, and of attention over heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula import distributed as dist
from facula.autograd import Function

from ._dtensor import DTensor
from ._labels import _Input, _run
from ._plan import linear, moved
from ._redistribute import redistribute
from ._rules import _RULES, _along, _pointwise, _reduction, _summed
from ._spec import Spec
from .placement_types import Partial, Replicate, Shard, _NormPartial

if TYPE_CHECKING:
    from typing import Any


_NONE, _MEAN, _SUM = range(3)


# ---- Cross entropy of outputs that are cut along rows, along classes, or both: numbers of rows travel, never classes


class _RowLosses(Function):
    """Compute -log softmax at the targets from parts of the classes that begin at `first`.

    log(sum exp x) - x[target], where the largest x, the sum and x[target] come from all parts; the gradient is softmax, less
    1 at the target, in every part for itself.
    """

    @staticmethod
    def forward(ctx, x, target, first, groups, smoothing, classes):
        top = x.amax(1, keepdim=True) if x.shape[1] else x.new_full((x.shape[0], 1), float("-inf"))
        for group in groups:
            # All processes have to subtract the same maximum.
            dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
        shifted = (x - top).to(facula.promote_types(x.dtype, facula.float32))
        here = (target >= first) & (target < first + x.shape[1])
        own = (target - first).clamp(0, max(x.shape[1] - 1, 0)).unsqueeze(1)
        at_target = shifted.gather(1, own).squeeze(1) * here if x.shape[1] else shifted.new_zeros(x.shape[0])
        exponentials = shifted.exp()
        # One collective for all three sums.
        sums = facula.stack([exponentials.sum(1), at_target, shifted.sum(1)])
        for group in groups:
            dist.all_reduce(sums, group=group)
        total, at_target, whole = sums.unbind(0)
        ctx.save_for_backward(exponentials / total.unsqueeze(1), own, here)
        ctx.smoothing, ctx.classes, ctx.dtype = smoothing, classes, x.dtype
        losses = total.log() - at_target
        if smoothing:
            losses = (1 - smoothing) * losses + smoothing * (total.log() - whole / classes)
        return losses.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        softmax, own, here = ctx.saved_tensors
        made = softmax - ctx.smoothing / ctx.classes
        if made.shape[1]:
            made.scatter_add_(1, own, -(1 - ctx.smoothing) * here.to(made.dtype).unsqueeze(1))
        return (made * grad.unsqueeze(1)).to(ctx.dtype), None, None, None, None, None


def _cross_entropy(func, args, kwargs):
    x, target, weight, reduction, ignored, smoothing = args
    fits = isinstance(x, DTensor) and x.dim() == 2 and x.shape[1] > 0 and weight is None and not kwargs
    if not fits or target.dim() != 1 or target.is_floating_point():
        return NotImplemented
    x, mesh = _summed(x), x.device_mesh
    if not isinstance(target, DTensor):
        target = DTensor.from_local(target, mesh, [Replicate()] * mesh.ndim)
    rows = tuple(p if p == Shard(0) else Replicate() for p in x.placements)
    if any(isinstance(p, Shard) and p not in (Shard(0), Shard(1)) for p in x.placements):
        return NotImplemented
    wanted = redistribute(target._local_tensor, target._spec, rows)
    outside = (wanted != ignored) & ((wanted < 0) | (wanted >= x.shape[1]))
    if bool(outside.any()):
        raise IndexError(f"cross_entropy: a target must be below {x.shape[1]}, got {wanted[outside][0].item()}")
    first = x._spec.local_shape_and_offset()[1][1]
    over_classes = [mesh.get_group(i) for i, p in enumerate(x.placements) if p == Shard(1)]
    counted = wanted != ignored
    # Ignored targets may be any number, such as -100; class 0 stands in, and their losses are multiplied by zero.
    inside = wanted * counted
    losses = _RowLosses.apply(x._local_tensor, inside, first, over_classes, float(smoothing), x.shape[1]) * counted
    if reduction == _NONE:
        return DTensor._wrap(losses, Spec(mesh, rows, facula.Size([x.shape[0]])))
    loss = losses.sum()
    if reduction == _MEAN:
        number = counted.sum()
        for i, p in enumerate(rows):
            if isinstance(p, Shard):
                dist.all_reduce(number, group=mesh.get_group(i))
        loss = loss / number
    return DTensor._wrap(loss, Spec(mesh, tuple(Partial() if isinstance(p, Shard) else p for p in rows), facula.Size([])))


_RULES["cross_entropy_loss"] = _cross_entropy


def _plainly(func, *args, **kwargs):
    with _C.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _given(args, kwargs, position: int, name: str, default=None):
    return args[position] if len(args) > position else kwargs.get(name, default)


def _all_labels(x) -> list:
    return list(range(x.dim()))


def _several(func, args, kwargs):
    """Compute split, chunk and others: parts along a dimension that is then whole in every process."""
    x, unbinds = args[0], func.__name__ == "unbind"
    dim = _given(args, kwargs, 1 if unbinds else 2, "dim", 0)
    if not isinstance(x, DTensor) or not isinstance(dim, int) or not -x.dim() <= dim < x.dim():
        return NotImplemented
    labels = [None if d == dim % x.dim() else d for d in _all_labels(x)]
    out = [label for label in labels if label is not None] if unbinds else labels
    found: list[Any] = []

    def compute(parts):
        found.extend(_plainly(func, parts[0], *args[1:], **kwargs))
        return found[0] if found else parts[0]

    first = _run(func.__name__, [_Input(x, labels)], out, compute, None, (moved,))
    rest = [_alike(t, first, out) for t in found]
    return tuple(rest)


def _alike(local, first, labels):
    """Return a part that lies as the first one does; only dimensions without a label may differ in length."""
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
    compute = lambda parts: _plainly(func, list(parts), dim)  # noqa: E731
    return _run(func.__name__, [_Input(t, labels) for t in tensors], out, compute, None, (moved,))


def _squeeze(func, args, kwargs):
    x, dims = args[0], _given(args, kwargs, 1, "dim")
    chosen = range(x.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {d % x.dim() for d in chosen if x.shape[d] == 1}
    labels = [None if d in gone else d for d in _all_labels(x)]
    out = [d for d in labels if d is not None]
    compute = lambda parts: parts[0].squeeze(sorted(gone)) if gone else parts[0]  # noqa: E731
    return _run("squeeze", [_Input(x, labels)], out, compute, None, (moved,))


def _reshaped(func, args, kwargs):
    """Compute flatten and unflatten, as reshape."""
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
    compute = lambda parts: parts[0].expand(local)  # noqa: E731
    return _run("expand", [_Input(x, labels)], [None] * new + labels, compute, None, (moved,))


def _getitem(func, args, kwargs):
    """Take basic indices: dimensions of which all is taken may be cut."""
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
    return _run("getitem", [_Input(x, labels)], out, lambda parts: parts[0][tuple(index)], None, (moved,))


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
    """Compute tril and triu: rows and columns are whole."""
    x = args[0]
    labels = [d if d < x.dim() - 2 else None for d in _all_labels(x)]
    compute = lambda parts: _plainly(func, parts[0], *args[1:], **kwargs)  # noqa: E731
    return _run(func.__name__, [_Input(_summed(x), labels)], labels, compute)


def _repeat_interleave(func, args, kwargs):
    """Repeat along a dimension that is cut into equal parts, of which every process repeats its own."""
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
    compute = lambda parts: parts[0].repeat_interleave(times, dim)  # noqa: E731
    result = _run(func.__name__, [_Input(x, labels)], labels, compute, None, (moved,))
    shape = [n * times if d == dim else n for d, n in enumerate(x.shape)]
    result._spec = Spec(result._spec.mesh, result._spec.placements, facula.Size(shape))
    return result


def _attention(func, args, kwargs):
    """Compute attention: batches and heads may be cut; of shared heads, where every process gets whole groups."""
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
    """Compute argmax and argmin along a dimension that is whole."""
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
    if reduction in ("none", 0):
        return squares
    return _reduction(facula.mean if reduction in ("mean", 1) else facula.sum, (squares,), {})


def _wrapped(results, first, out):
    """Return the results of one call, of which `first` is wrapped."""
    items = [_alike(t, first, out) for t in results]
    return results._make(items) if hasattr(results, "_make") else type(results)(items)


def _mixing(dims_of, drops: bool = False, passes=()):
    """Compute ops that need dimensions `dims_of(x, args, kwargs)` whole, and may drop them."""

    def rule(func, args, kwargs):
        x, dims = args[0], dims_of(*args, **kwargs) if isinstance(args[0], DTensor) else None
        if dims is None or not all(isinstance(d, int) for d in dims) or not x.dim() or kwargs.get("out") is not None:
            return NotImplemented
        if any(isinstance(v, DTensor) for v in (*args[1:], *kwargs.values())):
            return NotImplemented
        whole = {d % x.dim() for d in dims}
        labels = [None if d in whole else d for d in _all_labels(x)]
        keeps = not drops or kwargs.get("keepdim", False) or any(v is True for v in args[2:])
        out = labels if keeps else [d for d in labels if d is not None]
        found: list[Any] = []

        def compute(parts):
            found.append(_plainly(func, parts[0], *args[1:], **kwargs))
            return found[0][0] if isinstance(found[0], tuple) else found[0]

        first = _run(func.__name__, [_Input(x, labels)], out, compute, None, passes)
        return _wrapped(found[0], first, out) if isinstance(found[0], tuple) else first

    return rule


def _listed(dims):
    return (dims,) if isinstance(dims, int) else None if dims is None else tuple(dims)


def _pad_dims(x, pad, mode="constant", value=None):
    return range(x.dim() - len(pad) // 2, x.dim()) if mode == "constant" and not value else None


def _extreme(func, args, kwargs):
    """Compute max and min of everything, along a dimension, or of two tensors."""
    if len(args) == 1 and not kwargs:
        x = args[0]
        return _reduction(facula.amax if func.__name__ == "max" else facula.amin, (x,), {})
    if isinstance(_given(args, kwargs, 1, "other"), facula.Tensor):
        return _pointwise(func, args, kwargs, False)
    return _mixing(lambda x, dim=None, keepdim=False: None if dim is None else (dim,), drops=True)(func, args, kwargs)


def _repeat(func, args, kwargs):
    x, times = args[0], args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    new = len(times) - x.dim()
    if new < 0 or kwargs:
        return NotImplemented
    labels = [d if times[new + d] == 1 else None for d in _all_labels(x)]
    compute = lambda parts: parts[0].repeat(*times)  # noqa: E731
    return _run("repeat", [_Input(x, labels)], [None] * new + labels, compute, None, (moved,))


def _index_select(func, args, kwargs):
    x, dim, index = args[0], _given(args, kwargs, 1, "dim"), _given(args, kwargs, 2, "index")
    if not isinstance(x, DTensor) or not isinstance(index, DTensor) or not x.dim():
        return NotImplemented
    labels = [None if d == dim % x.dim() else d for d in _all_labels(x)]
    inputs = [_Input(x, labels), _Input(_summed(index), [None] * index.dim())]
    return _run("index_select", inputs, labels, lambda parts: parts[0].index_select(dim, parts[1]), None, (_of_the_first,))


def _of_the_first(now):
    """Compute what moves elements of the first input."""
    return [([way[0][0], *([Replicate()] * (len(now) - 1))], way[1]) for way in moved(now[:1])]


def _gather(func, args, kwargs):
    """Gather elements: other dimensions than the one that is looked up are cut alike where they are as long."""
    x, dim, index = args[0], _given(args, kwargs, 1, "dim"), _given(args, kwargs, 2, "index")
    if not isinstance(x, DTensor) or not isinstance(index, DTensor) or not x.dim() or x.dim() != index.dim():
        return NotImplemented
    labels = [d if d != dim % x.dim() and x.shape[d] == index.shape[d] else None for d in _all_labels(x)]
    inputs = [_Input(_summed(x), labels), _Input(_summed(index), labels)]
    return _run("gather", inputs, labels, lambda parts: parts[0].gather(dim, parts[1]))


def _complex_view(func, args, kwargs):
    """Compute view_as_real and view_as_complex: one dimension more or less at the end."""
    x = args[0]
    labels, adds = _all_labels(x), func.__name__ == "view_as_real"
    labels, out = (labels, [*labels, None]) if adds else ([*labels[:-1], None], labels[:-1])
    return _run(func.__name__, [_Input(x, labels)], out, lambda parts: _plainly(func, parts[0]), None, (linear,))


def _norm(func, args, kwargs):
    """Compute norms of all values or along dimensions, for each part; powers of them are summed where processes have parts."""
    x, order = args[0], _given(args, kwargs, 1, "p" if func.__name__ == "norm" else "ord", 2)
    order = {"fro": 2, None: 2}.get(order, order)
    dims, keepdim, dtype = _given(args, kwargs, 2, "dim"), _given(args, kwargs, 3, "keepdim", False), kwargs.get("dtype")
    if isinstance(order, str) or order <= 0 or not isinstance(x, DTensor) or kwargs.get("out") is not None:
        return NotImplemented
    order = float(order)
    chosen = range(x.dim()) if dims is None or dims == () else [dims] if isinstance(dims, int) else dims
    chosen = {d % max(x.dim(), 1) for d in chosen}
    out = [f"one{d}" if d in chosen else d for d in _all_labels(x) if keepdim or d not in chosen]

    def compute(parts):
        part = parts[0] if dtype is None else parts[0].to(dtype)
        along = sorted(chosen) if x.dim() else None
        # An empty part adds nothing to a sum of powers; a maximum of no elements would be an error.
        if part.numel() == 0:
            return part.sum(along, keepdim)
        return facula.linalg.vector_norm(part, order, along, keepdim)

    return _run(func.__name__, [_Input(x, _all_labels(x))], out, compute, _joined_norms(order))


def _joined_norms(order: float) -> Partial:
    return Partial("max") if order == math.inf else _NormPartial("sum", order)


def _broadcast_tensors(func, args, kwargs):
    if any(t.shape != args[0].shape for t in args):
        return NotImplemented
    return list(args)


def _is_one_layout(func, args, kwargs):
    """Compute cumulative sums along a dimension that is whole."""
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
        **dict.fromkeys(("max", "min"), _extreme),
        **dict.fromkeys(("sort", "argsort"), _mixing(lambda x, dim=-1, descending=False, stable=False: (dim,))),
        **dict.fromkeys(("var", "std"), _mixing(lambda x, dim=None, *rest, **more: _listed(dim), drops=True)),
        **dict.fromkeys(("view_as_real", "view_as_complex"), _complex_view),
        "topk": _mixing(lambda x, k, dim=-1, largest=True, sorted=True: (dim,)),
        "glu": _mixing(lambda x, dim=-1: (dim,)),
        "logsumexp": _mixing(lambda x, dim, keepdim=False: _listed(dim), drops=True),
        "flip": _mixing(lambda x, *dims: dims if isinstance(dims[0], int) else dims[0], passes=(moved,)),
        "roll": _mixing(lambda x, shifts, dims=(): _listed(dims) or None, passes=(moved,)),
        "pad": _mixing(_pad_dims, passes=(linear,)),
        "repeat": _repeat,
        "index_select": _index_select,
        "gather": _gather,
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
