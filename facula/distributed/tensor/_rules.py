"""Define what ops do with DTensors.

A rule gives every dimension of an op's inputs and of its result a label; dimensions with the same label are sharded
alike. An input that lacks the label along which a dimension of the mesh shards is whole in every process, and its
gradient is summed. A result that lacks it is the sum (or another reduction) of the processes' results. A dimension
without a label is never sharded. Ops without a rule get the whole of every tensor in every process, which is correct
and slow.

Long because it is one table, rule by rule.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._operators.pointwise import DRAWN_INPLACE, POINTWISE, RAW, is_inplace, plain_name

from . import _registered
from ._dtensor import DTensor
from ._labels import _broadcast_labels, _Input, _mesh_of, _mixes_sums, _prepared, _run
from ._plan import alike, falling, growing, linear, moved, numerator, scaled
from ._redistribute import redistribute
from ._spec import Spec
from .placement_types import Partial, Replicate, Shard

if TYPE_CHECKING:
    from typing import Any


# ---- Rules of changes of shape


def _transpose(func, args, kwargs):
    x = args[0]
    dims = list(range(x.dim()))
    if func.__name__ in ("t", "adjoint"):
        order = dims[::-1]
    elif func.__name__ == "permute":
        given = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
        order = [d % x.dim() for d in (given or kwargs["dims"])]
    else:
        a, b = (args[1:] if len(args) == 3 else (kwargs["dim0"], kwargs["dim1"]))
        order = dims
        order[a], order[b] = order[b], order[a]
    compute = lambda parts: parts[0].permute(order)  # noqa: E731
    return _run(func.__name__, [_Input(x, list(range(x.dim())))], order, compute, None, (moved,))


def _unsqueeze(func, args, kwargs):
    x, dim = args[0], args[1] if len(args) > 1 else kwargs["dim"]
    labels = list(range(x.dim()))
    out = labels.copy()
    out.insert(dim % (x.dim() + 1), None)
    return _run("unsqueeze", [_Input(x, labels)], out, lambda parts: parts[0].unsqueeze(dim), None, (moved,))


def _view(func, args, kwargs):
    """Cut dimensions stay cut where they are the first of those that are joined or split, and lengths allow it."""
    x = args[0]
    if func.__name__ == "view" and len(args) == 2 and isinstance(args[1], facula.dtype):
        return NotImplemented
    shape = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    wanted = tuple(shape or kwargs.get("shape", kwargs.get("size")))
    # A meta tensor checks the sizes and finds the one for -1 without any memory.
    shape = list(facula.empty(tuple(x.shape), device="meta").reshape(wanted).shape)
    labels, out = _joined(list(x.shape), shape, x)
    cut = dict(enumerate(shape))

    def compute(parts):
        local = list(shape)
        for i, label in enumerate(out):
            if label is not None:
                local[i] = parts[0].shape[labels.index(label)] * cut[i] // x.shape[labels.index(label)]
        return parts[0].reshape(local)

    result = _run("reshape", [_Input(x, labels)], out, compute, None, (moved,))
    result._spec = Spec(result._spec.mesh, result._spec.placements, facula.Size(shape))
    return result


def _joined(before, after, x):
    """Return the labels for a change of shape: the first dimensions of each group of dimensions with one product."""
    labels, out = [None] * len(before), [None] * len(after)
    i = j = 0
    while i < len(before) and j < len(after):
        first, second, a, b = i, j, before[i], after[j]
        while a != b:
            if a < b:
                i += 1
                if i == len(before):
                    return labels, out
                a *= before[i]
            else:
                j += 1
                if j == len(after):
                    return labels, out
                b *= after[j]
        parts = 1
        for number, p in enumerate(x.placements):
            if isinstance(p, Shard) and p.dim == first:
                parts *= x.device_mesh.size(number)
        if before[first] % parts == 0 and after[second] % parts == 0:
            labels[first], out[second] = f"group{first}", f"group{first}"
        i, j = i + 1, j + 1
    return labels, out


#: How often an op without a rule got the whole of its tensors, by name: {name: number}.
fallbacks: collections.Counter = collections.Counter()

#: Whether a Tensor that meets a DTensor counts as whole in every process.
mixes = False

# The result lies as the one tensor does, also where it is still to be summed.
_SAME = frozenset("detach contiguous positive alias".split())

# What of the inputs may still be to be summed (or be the greatest so far), by the number of DTensors.
_MOVING = "to float double half bfloat16 data empty_like".split()
_PASSING = {
    1: {
        **dict.fromkeys("mul multiply div divide true_divide truediv".split(), (linear,)),
        **dict.fromkeys("neg negative".split(), (linear, falling)),
        **dict.fromkeys(_MOVING, (moved,)),
        **dict.fromkeys(
            "asinh atan ceil erf exp exp2 expm1 floor relu round sgn sigmoid sign sinh tanh trunc deg2rad rad2deg".split(),
            (growing,),
        ),
        "erfc": (falling,),
    },
    2: {
        **dict.fromkeys("add sub subtract rsub".split(), (linear,)),
        **dict.fromkeys("mul multiply".split(), (scaled,)),
        **dict.fromkeys("div divide true_divide truediv".split(), (numerator,)),
    },
}

_REDUCTIONS = {"sum": "sum", "mean": "avg", "amax": "max", "amin": "min", "prod": "product", "any": "sum", "all": "product"}
_RANDOM = frozenset("dropout rand_like randn_like".split())


def call(func, args, kwargs):
    """Run a function of Facula's whose arguments have DTensors."""
    if mixes and any(isinstance(a, facula.Tensor) and not isinstance(a, DTensor) for a in [*args, *kwargs.values()]):
        args, kwargs = _everywhere(args, kwargs)
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        return _attribute(func, args)
    if name in ("__set__", "__delete__"):
        with _C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name in DRAWN_INPLACE and isinstance(args[0], DTensor):
        return _draw_inplace(func, args, kwargs)
    if name in RAW:
        with _C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if _registered.rules and name in _registered.rules:
        result = _registered.run(name, func, args, kwargs)
        if result is not NotImplemented:
            return result
    plain = plain_name(name)
    rule = _RULES.get(plain)
    if rule is not None and not is_inplace(name):
        result = rule(func, args, kwargs)
        if result is not NotImplemented:
            return result
    elif plain in POINTWISE and "out" not in kwargs:
        return _pointwise(func, args, kwargs, is_inplace(name))
    return _whole(func, args, kwargs, is_inplace(name))


DTensor._call_by_rule = staticmethod(call)


def _everywhere(args, kwargs):
    """Return tensors among DTensors as DTensors that are whole in every process."""
    found: list[DTensor] = []
    _map([args, kwargs], found.append)
    mesh = _mesh_of("implicit_replication", found)

    def whole(x):
        if isinstance(x, DTensor) or not isinstance(x, facula.Tensor):
            return x
        return DTensor.from_local(x, mesh, [Replicate()] * mesh.ndim)

    return tuple(whole(a) for a in args), {k: whole(v) for k, v in kwargs.items()}


def _attribute(func, args):
    """Read an attribute: `x.T`, `x.data` and others give tensors, `x.dtype` and others do not."""
    attribute = getattr(func.__self__, "__name__", "")
    if attribute in ("T", "mT", "H", "mH"):
        if args[0].dim() < 2:
            return args[0]
        return _transpose(facula.transpose, (args[0], -2, -1), {})
    with _C.DisableTorchFunctionSubclass():
        value = func(*args)
    if attribute in ("data", "real", "imag") and isinstance(value, facula.Tensor):
        return DTensor._wrap(value, args[0]._spec)
    return value


# ---- rules


def _pointwise(func, args, kwargs, inplace):
    name = func.__name__
    places = [i for i, a in enumerate(args) if isinstance(a, DTensor)]
    keys = [k for k, v in kwargs.items() if isinstance(v, DTensor)]
    values = [args[i] for i in places] + [kwargs[k] for k in keys]
    for other in [*args, *kwargs.values()]:
        if isinstance(other, facula.Tensor) and not isinstance(other, DTensor) and other.dim() > 0:
            if plain_name(name) == "copy" and other.shape == values[0].shape:
                return _copy_whole(args[0], other)
            raise RuntimeError(
                f"{name}: got a Tensor of shape {tuple(other.shape)} and a DTensor, which do not mix: distribute_tensor(), "
                "DTensor.from_local() or to_local() makes them alike"
            )

    def compute(parts):
        new_args, new_kwargs = list(args), dict(kwargs)
        for i, part in zip(places, parts):
            new_args[i] = part
        for k, part in zip(keys, parts[len(places) :]):
            new_kwargs[k] = part
        with _C.DisableTorchFunctionSubclass():
            return func(*new_args, **new_kwargs)

    if inplace:
        return _pointwise_inplace(name, values, compute)
    if all(v._spec == values[0]._spec for v in values) and not any(isinstance(p, Partial) for p in values[0].placements):
        return DTensor._wrap(compute([v._local_tensor for v in values]), values[0]._spec)
    labels, out = _broadcast_labels(values)
    passes = _passing(func, args, kwargs, len(values))
    return _run(name, [_Input(v, names) for v, names in zip(values, labels)], out, compute, None, passes)


def _passing(func, args, kwargs, count):
    """Pass the sums on that go through a function of `count` DTensors."""
    name = plain_name(func.__name__)
    divides = name in ("div", "divide", "true_divide", "truediv")
    if divides and (func.__name__.startswith("__r") or not isinstance(args[0], DTensor) or kwargs):
        return ()
    return _PASSING.get(count, {}).get(name, ())


def _pointwise_inplace(name, values, compute):
    """Leave the first tensor where it is, and bring the others to it."""
    target = values[0]
    labels, out = _broadcast_labels(values)
    if len(values[0].shape) != len(out):
        raise RuntimeError(f"{name}: the result does not fit the tensor, got shapes {[tuple(v.shape) for v in values]}")
    wanted = [_beside(name, values, labels, out, number) for number in range(target.device_mesh.ndim)]
    varies = [isinstance(p, Shard) or _mixes_sums(targets) for p, targets in zip(target.placements, wanted)]
    parts = [
        _prepared(_Input(v, labels[i]), [targets[i] for targets in wanted], varies) for i, v in enumerate(values) if i > 0
    ]
    with _C.DisableTorchFunctionSubclass():
        compute([target, *parts])
    return target


def _beside(name, values, labels, out, number):
    """Return the placements that operands need beside one that stays, on dimension `number` of the mesh."""
    p, plain = values[0].placements[number], plain_name(name)
    if isinstance(p, Shard):
        return [Shard(names.index(out[p.dim])) if out[p.dim] in names else Replicate() for names in labels]
    if not isinstance(p, Partial):
        return [Replicate()] * len(values)
    passes = (moved,) if plain in ("zero", "copy") else _PASSING.get(len(values), {}).get(plain, ())
    for way in passes:
        for targets, result in way([v.placements[number] for v in values]):
            fits = all(isinstance(v.placements[number], (Replicate, type(t))) for v, t in zip(values, targets))
            if targets[0] == p == result and fits:
                return targets
    placements = values[0].placements
    raise RuntimeError(f"{name}: a DTensor that is still to be summed cannot change like that, got {placements}")


def _copy_whole(target, source):
    """Compute `copy_` from a tensor that every process has."""
    whole = target._spec.with_placements([Replicate()] * target.device_mesh.ndim)
    part = redistribute(source.detach(), whole, target.placements)
    with _C.DisableTorchFunctionSubclass():
        target.copy_(part)
    return target


def _same(func, args, kwargs):
    with _C.DisableTorchFunctionSubclass():
        return DTensor._wrap(func(*args, **kwargs), args[0]._spec)


def _all_dtensors(*values):
    return all(v is None or isinstance(v, DTensor) for v in values)


def _linear(func, args, kwargs):
    x, weight = args[0], args[1]
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    if not _all_dtensors(x, weight, bias):
        return NotImplemented
    rows = [f"row{i}" for i in range(x.dim() - 1)]
    inputs = [_Input(x, [*rows, "in"]), _Input(weight, ["out", "in"])]
    with_bias = bias is not None
    result = _run("linear", inputs, [*rows, "out"], lambda parts: facula.nn.functional.linear(*parts), "sum", (scaled,))
    return result if not with_bias else _pointwise(facula.add, (result, bias), {}, False)


def _summed(x):
    """Make whole what is still to be summed."""
    if not any(isinstance(p, Partial) for p in x.placements):
        return x
    return x.redistribute(placements=[Replicate() if isinstance(p, Partial) else p for p in x.placements])


def _matmul(func, args, kwargs):
    a, b = args[:2]
    if not _all_dtensors(a, b) or len(args) != 2 or kwargs:
        return NotImplemented
    dims = a.dim(), b.dim()
    if dims not in ((1, 1), (1, 2), (2, 1)) and (min(dims) < 2 or dims[1] not in (2, dims[0])):
        return NotImplemented
    batch = [f"batch{i}" for i in range(a.dim() - 2)]
    other = batch if b.dim() == a.dim() else []
    if other and a.shape[:-2] != b.shape[:-2]:
        return NotImplemented
    rows, columns = ["row"] * (a.dim() > 1), ["column"] * (b.dim() > 1)
    inputs = [_Input(a, [*batch, *rows, "in"]), _Input(b, [*other, "in", *columns])]
    return _run("matmul", inputs, [*batch, *rows, *columns], lambda parts: facula.matmul(*parts), "sum", (scaled,))


def _addmm(func, args, kwargs):
    """Add a matrix (or a row) and a product."""
    if len(args) != 3 or not _all_dtensors(*args) or args[1].dim() != 2:
        return NotImplemented
    product = _matmul(facula.matmul, args[1:], {})
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else (args[0] if beta == 1 else args[0] * beta) + product


def _outer(func, args, kwargs):
    a, b = args
    if not _all_dtensors(a, b) or a.dim() != 1 or b.dim() != 1:
        return NotImplemented
    inputs = [_Input(a, ["row"]), _Input(b, ["column"])]
    return _run("outer", inputs, ["row", "column"], lambda parts: facula.outer(*parts), None, (scaled,))


def _reduction(func, args, kwargs):
    x, name = args[0], func.__name__
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    keepdim = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    if len(args) > 3 or set(kwargs) - {"dim", "keepdim", "dtype"}:
        return NotImplemented
    chosen = range(x.dim()) if dims is None or dims == () else [dims] if isinstance(dims, int) else list(dims)
    chosen = {d % max(x.dim(), 1) for d in chosen}
    labels = list(range(x.dim()))
    out = [f"one{d}" if d in chosen else d for d in labels if keepdim or d not in chosen]
    more = {"dtype": kwargs["dtype"]} if kwargs.get("dtype") is not None else {}
    cut = [(p.dim, x.device_mesh.size(i)) for i, p in enumerate(x.placements) if isinstance(p, Shard) and p.dim in chosen]
    reduce, run = _REDUCTIONS[name], getattr(facula, name)
    if name == "mean" and _is_uneven(x, cut):
        number = 1
        for d in chosen:
            number *= x.shape[d]
        reduce = "sum"
        compute = lambda parts: facula.sum(parts[0], sorted(chosen), keepdim, **more) / number  # noqa: E731
    elif name in ("prod", "any", "all") and (len(chosen) < x.dim() or keepdim):
        if len(chosen) > 1:
            return NotImplemented
        compute = lambda parts: run(parts[0], *chosen, keepdim, **more)  # noqa: E731
    elif name in ("prod", "any", "all"):
        compute = lambda parts: run(parts[0], **more)  # noqa: E731
    else:
        compute = lambda parts: run(parts[0], sorted(chosen), keepdim, **more)  # noqa: E731
    if cut and name not in ("sum", "mean") and (_needs_gradient(x) or _is_empty_somewhere(x, cut)):
        return NotImplemented
    passes = () if reduce == "product" or name == "any" or _needs_gradient(x) and name in ("amax", "amin") else (alike(reduce),)
    return _run(name, [_Input(x, labels)], out, compute, reduce, passes)


def _needs_gradient(x) -> bool:
    return facula.is_grad_enabled() and x.requires_grad


def _is_uneven(x, cut) -> bool:
    """Return whether processes have unlike numbers of what is averaged."""
    ways: dict[Any, Any] = {}
    for d, size in cut:
        ways[d] = ways.get(d, 1) * size
    return any(x.shape[d] % n for d, n in ways.items())


def _is_empty_somewhere(x, cut) -> bool:
    return any(-(-x.shape[d] // size) * (size - 1) >= x.shape[d] for d, size in cut)


def _along(position, default=-1):
    """Compute ops that mix values along one dimension: softmax."""

    def rule(func, args, kwargs):
        x = args[0]
        dim = args[position] if len(args) > position else kwargs.get("dim", default)
        if dim is None or not isinstance(x, DTensor):
            return NotImplemented
        labels = [None if d == dim % x.dim() else d for d in range(x.dim())]

        def compute(parts):
            with _C.DisableTorchFunctionSubclass():
                return func(parts[0], *args[1:], **kwargs)

        return _run(func.__name__, [_Input(_summed(x), labels)], labels, compute)

    return rule


def _layer_norm(func, args, kwargs):
    """Mix values along the last dimensions, which weight and bias have."""
    x, shape = args[0], args[1] if len(args) > 1 else kwargs["normalized_shape"]
    names = ("weight", "bias") if func.__name__ == "layer_norm" else ("weight",)
    given = {n: (args[2 + i] if len(args) > 2 + i else kwargs.get(n)) for i, n in enumerate(names)}
    eps = args[2 + len(names)] if len(args) > 2 + len(names) else kwargs.get("eps", 1e-5 if len(names) == 2 else None)
    if not _all_dtensors(x, *given.values()):
        return NotImplemented
    count = len(shape) if not isinstance(shape, int) else 1
    labels = [d if d < x.dim() - count else None for d in range(x.dim())]
    present = [n for n in names if given[n] is not None]
    inputs = [_Input(_summed(x), labels)] + [_Input(given[n], [None] * count) for n in present]

    def compute(parts):
        with _C.DisableTorchFunctionSubclass():
            return func(parts[0], shape, **dict(zip(present, parts[1:])), eps=eps)

    return _run(func.__name__, inputs, labels, compute)


def _embedding(func, args, kwargs):
    """Cut by features as it is; cut by rows every process looks up those that it has."""
    weight, ids = args[:2]
    padding, others = (args[2] if len(args) > 2 else kwargs.get("padding_idx", -1)), (*args[3:], *kwargs.values())
    if not isinstance(weight, DTensor) or any(others):
        return NotImplemented
    if not isinstance(ids, DTensor):
        ids = DTensor.from_local(ids, weight.device_mesh, [Replicate()] * weight.device_mesh.ndim)
    labels = [f"id{d}" for d in range(ids.dim())]
    if not any(p == Shard(0) for p in weight.placements):
        inputs = [_Input(ids, labels), _Input(weight, [None, "feature"])]
        return _run("embedding", inputs, [*labels, "feature"], lambda parts: func(parts[1], parts[0], padding))
    first = weight._spec.local_shape_and_offset()[1][0]

    def masked(rows, found):
        outside = (found < 0) | (found >= weight.shape[0])
        if bool(outside.any()):
            raise IndexError(f"embedding: expected indices from 0 to {weight.shape[0] - 1}, got {found[outside][0].item()}")
        own = found - first
        here = (own >= 0) & (own < rows.shape[0])
        if rows.shape[0] == 0:
            # The sum of no rows is zero; it connects the result with the weight, so that this process takes part in
            # backward.
            return rows.new_zeros((*found.shape, rows.shape[1])) + rows.sum()
        # Rows of other processes are looked up as row 0, and the product below makes zeros of them.
        found = func(rows, own * here, padding - first if 0 <= padding - first < rows.shape[0] else -1)
        return found * here.unsqueeze(-1).to(found.dtype)

    inputs = [_Input(weight, ["row", "feature"], stays=True), _Input(ids, labels)]
    return _run("embedding", inputs, [*labels, "feature"], lambda parts: masked(*parts), "sum")


def _backward(func, args, kwargs):
    x = args[0]
    if any(isinstance(p, Shard) for p in x.placements):
        raise RuntimeError(f"backward: a loss is whole or still to be summed, got {x.placements}")
    x = x._as_root()
    with _C.DisableTorchFunctionSubclass():
        return func(x, *(a._local_tensor if isinstance(a, DTensor) else a for a in args[1:]), **kwargs)


def _random(func, args, kwargs):
    """Draw the numbers of one process: drawn for the whole, of which each takes its part."""
    x = _summed(args[0])
    whole = [Replicate()] * x.device_mesh.ndim
    if func.__name__.startswith("rand"):
        with _C.DisableTorchFunctionSubclass():
            drawn = func(facula.empty(tuple(x.shape), dtype=x.dtype, device=x.device), *args[1:], **kwargs)
        return DTensor._wrap(redistribute(drawn, x._spec.with_placements(whole), x.placements), x._spec)
    if func.__name__ != "dropout" or any(isinstance(p, Partial) for p in x.placements):
        return NotImplemented
    options = {key: value for key, value in kwargs.items() if key != "inplace"}
    with _C.DisableTorchFunctionSubclass(), facula.no_grad():
        mask = func(facula.ones(tuple(x.shape), dtype=x.dtype, device=x.device), *args[1:3], **options)
    part = redistribute(mask, x._spec.with_placements(whole), x.placements)
    return DTensor._wrap(x._local_tensor * part, x._spec)


def _draw_inplace(func, args, kwargs):
    """Draw the numbers of one process, of which each takes its part; what was there does not matter."""
    x = args[0]
    if any(isinstance(p, Partial) for p in x.placements) or any(isinstance(a, facula.Tensor) for a in args[1:]):
        return _whole(func, args, kwargs, True)
    with _C.DisableTorchFunctionSubclass(), facula.no_grad():
        drawn = func(facula.empty(tuple(x.shape), dtype=x.dtype, device=x.device), *args[1:], **kwargs)
    whole = x._spec.with_placements([Replicate()] * x.device_mesh.ndim)
    with _C.DisableTorchFunctionSubclass():
        x.copy_(redistribute(drawn, whole, x.placements))
    return x


# ---- everything else


def _map(value, fn):
    if isinstance(value, DTensor):
        return fn(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_map(v, fn) for v in value)
    if isinstance(value, dict):
        return {k: _map(v, fn) for k, v in value.items()}
    return value


def _whole(func, args, kwargs, inplace):
    found: list[DTensor] = []
    _map([args, kwargs], found.append)
    mesh = _mesh_of(func.__name__, found)
    fallbacks[func.__name__] += 1
    everywhere = (Replicate(),) * mesh.ndim
    gathered = {}

    def gather(x):
        if id(x) not in gathered:
            gathered[id(x)] = redistribute(x._local_tensor, x._spec, everywhere)
        return gathered[id(x)]

    def wrap(value):
        if isinstance(value, facula.Tensor):
            return DTensor._wrap(value, Spec(mesh, everywhere, value.shape))
        if isinstance(value, (list, tuple)):
            items = [wrap(v) for v in value]
            return value._make(items) if hasattr(value, "_make") else type(value)(items)
        return value

    changed = args[0] if inplace and args and isinstance(args[0], DTensor) else None
    if changed is None and isinstance(kwargs.get("out"), DTensor):
        raise NotImplementedError(f"{func.__name__}: out= is not supported for DTensors, got one")
    with _C.DisableTorchFunctionSubclass():
        if changed is not None:
            with facula.no_grad():
                # The op writes into this tensor, which is the argument's own memory where that was whole already.
                gathered[id(changed)] = gather(changed).clone()
        result = func(*_map(args, gather), **_map(kwargs, gather))
        if changed is None:
            return wrap(result)
        if gathered[id(changed)].shape != changed._spec.shape:
            raise NotImplementedError(f"{func.__name__}: changes of shape in place are not supported for DTensors")
        part = redistribute(gathered[id(changed)].detach(), Spec(mesh, everywhere, changed._spec.shape), changed.placements)
        with facula.no_grad():
            changed._local_tensor.detach().copy_(part)
    return changed


_RULES = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), _matmul),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("softmax", "log_softmax"), _along(1)),
    **dict.fromkeys(("layer_norm", "rms_norm"), _layer_norm),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims", "t", "permute"), _transpose),
    **dict.fromkeys(("view", "reshape"), _view),
    **dict.fromkeys(_RANDOM, _random),
    "linear": _linear,
    "addmm": _addmm,
    "outer": _outer,
    "ger": _outer,
    "embedding": _embedding,
    "unsqueeze": _unsqueeze,
    "backward": _backward,
}
