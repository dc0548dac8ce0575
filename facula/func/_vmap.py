"""vmap: a function of single examples applied to batches.

Inside, a batch is a `BatchedTensor`: a tensor whose `_value` has the batch as first dimension and that shows the
rest. Ops
arrive through `__torch_function__`. Element-wise ops, reductions, matrix products and most views run once on the
values;
for all others the op runs example by example and the results are stacked.
"""

from __future__ import annotations

import functools
import threading

from .. import _C
from . import _rules

Tensor = _C.Tensor


class _State(threading.local):
    def __init__(self):
        self.levels = []  # (level, batch size, randomness), outermost first


_state = _State()


def live_levels():
    """(level, batch size) of the vmaps that run on this thread, outermost first."""
    return [(level, size) for level, size, _ in _state.levels]


class BatchedTensor(Tensor):
    """One example of a batch, as the function inside vmap sees it."""

    _value: Tensor
    _vmap_level: int

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})

    @property
    def shape(self):
        return self._value.shape[1:]

    @property
    def ndim(self):
        return self._value.ndim - 1

    @property
    def requires_grad(self):
        return self._value.requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self._value.requires_grad_(value)

    dtype = property(lambda self: self._value.dtype)
    device = property(lambda self: self._value.device)
    is_leaf = property(lambda self: self._value.is_leaf)
    grad_fn = property(lambda self: self._value.grad_fn)
    T = property(lambda self: self.permute(*range(self.ndim - 1, -1, -1)))
    mT = property(lambda self: self.transpose(-2, -1))
    H = property(lambda self: self.mT.conj())
    mH = property(lambda self: self.mT.conj())
    real = property(lambda self: _wrapped_value(self, self._value.real))
    imag = property(lambda self: _wrapped_value(self, self._value.imag))
    data = property(lambda self: self.detach())
    nbytes = property(lambda self: self.numel() * self.itemsize)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.ndim

    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    ndimension = dim
    nelement = numel

    def stride(self, dim=None):
        strides = self._value.stride()[1:]
        return strides if dim is None else strides[dim]

    def requires_grad_(self, requires_grad=True):
        self._value.requires_grad_(requires_grad)
        return self

    def detach(self):
        return _wrapped_value(self, self._value.detach())

    def is_contiguous(self, memory_format=None):
        return self._value.is_contiguous()

    def item(self):
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor within vmap, where it stands for a whole "
            "batch and has no "
            "single value"
        )

    tolist = numpy = __bool__ = __int__ = __float__ = __index__ = item

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("len: a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self):
        return iter(self.unbind(0))

    def __repr__(self):
        return f"BatchedTensor(level={self._vmap_level}, value={self._value!r})"

    __hash__ = Tensor.__hash__


def wrap(value, level):
    """A tensor with the batch in front, as one example."""
    _C._change_override_disabled(1)
    try:
        made = Tensor._make_subclass(BatchedTensor, _innermost(value))
    finally:
        _C._change_override_disabled(-1)
    made._value = value
    made._vmap_level = level
    return made


def _innermost(value):
    while isinstance(value, BatchedTensor):
        value = value._value
    return value


def _wrapped_value(like, value):
    return wrap(value, like._vmap_level)


def is_batched(value, level=None):
    return isinstance(value, BatchedTensor) and (level is None or value._vmap_level == level)


def debug_unwrap(tensor, *, recurse=True):
    """The batch behind a tensor inside vmap; with recurse through all levels."""
    while isinstance(tensor, BatchedTensor):
        tensor = tensor._value
        if not recurse:
            break
    return tensor


# Ops


def _tensors_in(value):
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors_in(item)


def map_tensors(function, value):
    """The same nest of tuples, lists and dicts with every tensor replaced."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(function, v) for v in value))
    if isinstance(value, tuple) and hasattr(value, "n_sequence_fields"):
        return type(value)([map_tensors(function, v) for v in value])
    if isinstance(value, (tuple, list)) and not isinstance(value, _C.Size):
        return type(value)([map_tensors(function, v) for v in value])
    if isinstance(value, dict):
        return {k: map_tensors(function, v) for k, v in value.items()}
    return value


def dispatch(func, args, kwargs):
    """One op with at least one batched argument: the innermost level peels off its wrappers."""
    level = max(t._vmap_level for t in _tensors_in((args, kwargs)) if isinstance(t, BatchedTensor))
    size = next(t._value.shape[0] for t in _tensors_in((args, kwargs)) if is_batched(t, level))
    name = _rules.name_of(func)
    rule = _rules.find(name)
    if rule is not None:
        result = rule(func, level, size, args, kwargs)
        if result is not NotImplemented:
            return result
    if name in _rules.RANDOM:
        return _random(func, name, level, size, args, kwargs)
    return one_by_one(func, level, size, args, kwargs)


def one_by_one(func, level, size, args, kwargs):
    """Runs the op on each example and stacks what it gives; writes in place go into the batch's own memory."""

    def example(i):
        return lambda t: t._value[i] if is_batched(t, level) else t

    results = [func(*map_tensors(example(i), args), **map_tensors(example(i), kwargs)) for i in range(size)]
    if _rules.name_of(func).rstrip("_") + "_" == _rules.name_of(func) and args and is_batched(args[0], level):
        return args[0]
    if not results:
        raise RuntimeError(f"vmap: {_rules.name_of(func)} needs at least one example, got a batch of size 0")
    return _stack(results, level)


def _stack(results, level):
    first = results[0]
    if isinstance(first, Tensor):
        return wrap(_C.stack(results) if not any(map(is_batched, results)) else _stack_batched(results), level)
    if isinstance(first, (tuple, list)) and not isinstance(first, _C.Size):
        columns = [_stack(list(column), level) for column in zip(*results)]
        if hasattr(first, "_fields"):
            return type(first)(*columns)
        return type(first)(columns)
    if any(other != first for other in results[1:]):
        raise RuntimeError(f"vmap: a Python value that differs between examples, got {results[:3]}")
    return first


def _stack_batched(results):
    from .. import stack

    return stack(results)


def _random(func, name, level, size, args, kwargs):
    randomness = next(r for number, _, r in _state.levels if number == level)
    if randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation {name} while in randomness error mode. Please either use the 'same' "
            f"or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )
    if randomness == "different":
        return one_by_one(func, level, size, args, kwargs)
    state = _C.default_generator.get_state()

    def same(*inner_args, **inner_kwargs):
        _C.default_generator.set_state(state)
        return func(*inner_args, **inner_kwargs)

    same.__name__ = name
    return one_by_one(same, level, size, args, kwargs)


# vmap itself


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """`func` over a batch: `vmap(func)(xs)[i] == func(xs[i])`.

    Args:
        in_dims: per argument the dimension of the batch, None for arguments all examples share; nested as the
        arguments.
        out_dims: the dimension of the batch in each result.
        randomness: "error", "same" or "different" random numbers per example.
        chunk_size: examples that run together at most.
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(
            f"vmap: Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def batched(*args, **kwargs):
        from ..utils._pytree import tree_flatten

        flat, spec = tree_flatten(args)
        dims = _flat_dims(in_dims, args, flat, spec)
        size = _batch_size(flat, dims)
        if chunk_size is not None and chunk_size < size:
            return _in_chunks(func, flat, spec, dims, size, out_dims, randomness, chunk_size, kwargs)
        return _run(func, flat, spec, dims, size, out_dims, randomness, kwargs)

    return batched


def _flat_dims(in_dims, args, flat, spec):
    from ..utils._pytree import _broadcast_to_and_flatten

    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(f"vmap: in_dims is an int or a tuple matching the arguments, got {type(in_dims).__name__}")
    if not flat:
        raise ValueError("vmap: the function needs at least one argument with a batch, got none")
    dims = _broadcast_to_and_flatten(in_dims if isinstance(in_dims, int) else tuple(in_dims), spec)
    if dims is None:
        raise ValueError(f"vmap: in_dims is not compatible with the structure of the arguments, got in_dims={in_dims}")
    result = []
    for value, dim in zip(flat, dims):
        if dim is None:
            result.append(None)
            continue
        if not isinstance(value, Tensor):
            raise ValueError(f"vmap: Got in_dim={dim} for an input but the input is of type {type(value).__name__}")
        if not -value.ndim <= dim < value.ndim:
            raise ValueError(
                f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {value.ndim}"
            )
        result.append(dim % value.ndim)
    return result


def _batch_size(flat, dims):
    sizes = {value.shape[dim] for value, dim in zip(flat, dims) if dim is not None}
    if not sizes:
        raise ValueError("vmap: at least one input must have a batch dimension, got in_dims without any")
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}"
        )
    return sizes.pop()


def _run(func, flat, spec, dims, size, out_dims, randomness, kwargs):
    from ..utils._pytree import tree_unflatten

    level = len(_state.levels) + 1
    _state.levels.append((level, size, randomness))
    try:
        wrapped = [v if d is None else wrap(v.movedim(d, 0) if d else v, level) for v, d in zip(flat, dims)]
        return _unwrapped(func(*tree_unflatten(wrapped, spec), **kwargs), level, size, out_dims)
    finally:
        _state.levels.pop()


def _unwrapped(outputs, level, size, out_dims):
    from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

    flat, spec = tree_flatten(outputs)
    dims = [out_dims] * len(flat) if isinstance(out_dims, int) else _broadcast_to_and_flatten(out_dims, spec)
    if dims is None and isinstance(out_dims, (tuple, list)) and len(out_dims) == len(flat):
        dims = list(out_dims)
    if dims is None:
        raise ValueError(f"vmap: out_dims is not compatible with the structure of the outputs, got out_dims={out_dims}")
    results = []
    for value, dim in zip(flat, dims):
        if not isinstance(value, Tensor):
            raise ValueError(f"vmap: the function must only return Tensors, got type {type(value).__name__}")
        if is_batched(value, level):
            value = value._value
        elif dim is not None:
            value = value.expand(size, *value.shape)
        results.append(value.movedim(0, dim) if dim else value)
    return tree_unflatten(results, spec)


def _in_chunks(func, flat, spec, dims, size, out_dims, randomness, chunk, kwargs):
    from ..utils._pytree import tree_flatten, tree_unflatten

    parts = []
    for start in range(0, size, chunk):
        count = min(chunk, size - start)
        piece = [v if d is None else v.narrow(d, start, count) for v, d in zip(flat, dims)]
        parts.append(_run(func, piece, spec, dims, count, out_dims, randomness, kwargs))
    columns = [tree_flatten(p) for p in parts]
    out_spec = columns[0][1]
    count = len(columns[0][0])
    joined_dims = [out_dims] * count if isinstance(out_dims, int) else list(out_dims)
    return tree_unflatten([_C.cat([c[0][k] for c in columns], joined_dims[k]) for k in range(count)], out_spec)


def apply_function(cls, args):
    """autograd.Function within vmap: its own vmap rule, a generated one, or example by example."""
    level = max(t._vmap_level for t in _tensors_in(args) if isinstance(t, BatchedTensor))
    size = next(t._value.shape[0] for t in _tensors_in(args) if is_batched(t, level))
    if not cls._has_vmap:
        if not cls.generate_vmap_rule:
            raise RuntimeError(
                f"vmap: {cls.__name__} has no vmap rule: implement the static method vmap, or set "
                f"generate_vmap_rule = True"
            )

        def run(*inner):
            return cls.apply(*inner)

        run.__name__ = cls.__name__
        return one_by_one(run, level, size, args, {})
    in_dims = tuple(0 if is_batched(a, level) else None for a in args)
    values = tuple(a._value if is_batched(a, level) else a for a in args)
    outputs, out_dims = cls.vmap(_VmapInfo(size, _state.levels[level - 1][2]), in_dims, *values)
    single = isinstance(outputs, Tensor)
    outputs = (outputs,) if single else tuple(outputs)
    out_dims = (out_dims,) * len(outputs) if not isinstance(out_dims, (tuple, list)) else tuple(out_dims)
    results = tuple(
        o if d is None or not isinstance(o, Tensor) else wrap(o.movedim(d, 0) if d else o, level)
        for o, d in zip(outputs, out_dims)
    )
    return results[0] if single else results


class _VmapInfo:
    """What a Function's vmap rule learns about the call."""

    def __init__(self, batch_size, randomness):
        self.batch_size = batch_size
        self.randomness = randomness
