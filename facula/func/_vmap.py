"""Apply a function of single examples to batches: vmap.

Inside, a batch is a `BatchedTensor`: a tensor with the sizes of one example. Ops run on the whole batch that it holds,
by the rules that src/autograd/batching.h describes.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from .. import _C

if TYPE_CHECKING:
    pass

Tensor = _C.Tensor
_RANDOMNESS = ("error", "same", "different")


def live_levels():
    """Return (level, batch size) of the vmaps that run on this thread, outermost first."""
    return [(level, size) for level, (size, _) in enumerate(_C._vmap_levels(), 1)]


def _no_values(name):
    def method(self, *args, **kwargs):
        raise RuntimeError(
            f"vmap: a batched tensor has no single value for .{name}(), "
            f"got an example of shape {tuple(self.shape)}"
        )

    method.__name__ = name
    return method


class BatchedTensor(Tensor):
    """Represent one example of a batch for the function inside vmap."""

    __torch_function__ = _C._disabled_torch_function_impl

    _value = property(_C._batch_value)
    _vmap_level = property(_C._batch_level)
    is_leaf = property(lambda self: self._value.is_leaf)
    grad_fn = property(lambda self: self._value.grad_fn)
    grad = property(lambda self: None)

    @property
    def requires_grad(self):
        return self._value.requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self._value.requires_grad_(value)

    def requires_grad_(self, requires_grad=True):
        self._value.requires_grad_(requires_grad)
        return self

    item = _no_values("item")
    tolist = _no_values("tolist")
    numpy = _no_values("numpy")
    data_ptr = _no_values("data_ptr")
    untyped_storage = storage = _no_values("storage")
    backward = _no_values("backward")
    __bool__ = __int__ = __float__ = __index__ = __array__ = __dlpack__ = item

    def __repr__(self):
        return f"BatchedTensor(lvl={self._vmap_level}, bdim=0, value={self._value!r})"

    __hash__ = Tensor.__hash__


_C._set_batched_class(BatchedTensor)

wrap = _C._make_batched


def is_batched(value, level=None):
    found = _C._batch_level(value)
    return found > 0 if level is None else found == level


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the batch behind a tensor inside vmap, to look at.

    Args:
        tensor: any tensor.
        recurse: whether through all levels of vmap, or only the innermost.

    >>> shapes = []
    >>> y = torch.vmap(lambda x: shapes.append(torch.func.debug_unwrap(x).shape) or x)(torch.zeros(3, 2))
    >>> shapes
    [torch.Size([3, 2])]
    """
    while is_batched(tensor):
        tensor = _C._batch_value(tensor)
        if not recurse:
            break
    return tensor


class new_level:
    """Open one more level of vmap in a block, and return its number."""

    def __init__(self, size, randomness="error"):
        self.size, self.randomness = size, randomness

    def __enter__(self):
        return _C._push_vmap(self.size, _RANDOMNESS.index(self.randomness))

    def __exit__(self, *exception):
        _C._pop_vmap()


def batch_of(tensor, level, size):
    """Return what `tensor` stands for in vmap `level`, the batch in front; one that all examples share is expanded."""
    if is_batched(tensor, level):
        return _C._batch_value(tensor)
    return tensor.expand(size, *tensor.shape)


_warned = set()


def _warn_example_by_example(op):
    if op in _warned:
        return
    _warned.add(op)
    warnings.warn(
        f"vmap: There is a performance drop because {op} has no batching rule: it runs example by example",
        stacklevel=2,
    )


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
    """Return the same nest of tuples, lists and dicts with every tensor replaced."""
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


def apply_function(cls, args):
    """Apply an autograd.Function within vmap: its own vmap rule, or a generated one."""
    from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_map, tree_unflatten

    level = max(map(_C._batch_level, _tensors_in(args)))
    size = next(t._value.shape[0] for t in _tensors_in(args) if is_batched(t, level))
    if not cls._has_vmap:
        if not cls.generate_vmap_rule:
            raise RuntimeError(
                f"vmap: {cls.__name__} does not have vmap support: implement the static method vmap, or set "
                f"generate_vmap_rule = True"
            )
        return _apply_generated(cls, level, size, args)
    if cls.generate_vmap_rule:
        raise RuntimeError(f"vmap: {cls.__name__} has the static method vmap and generate_vmap_rule = True, choose one of them")
    in_dims = tuple(tree_map(lambda a: 0 if is_batched(a, level) else None, a) for a in args)
    values = tuple(tree_map(lambda a: a._value if is_batched(a, level) else a, a) for a in args)
    returned = cls.vmap(_VmapInfo(size, _RANDOMNESS[_C._vmap_levels()[level - 1][1]]), in_dims, *values)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        got = f"{len(returned)}" if isinstance(returned, tuple) else f"a {type(returned).__name__}"
        raise RuntimeError(f"vmap: {cls.__name__}.vmap is expected to have two returns (output, out_dims), got {got}")
    flat, spec = tree_flatten(returned[0])
    dims = _broadcast_to_and_flatten(returned[1], spec)
    if dims is None or (isinstance(returned[0], Tensor) and isinstance(returned[1], (tuple, list))):
        raise RuntimeError(
            f"vmap: {cls.__name__}.vmap returned an incompatible (output, out_dims): the dimensions need the structure of the "
            f"output, got {returned[1]}"
        )
    results = [
        o if d is None or not isinstance(o, Tensor) else wrap(o.movedim(d, 0) if d else o, level)
        for o, d in zip(flat, dims)
    ]
    return tree_unflatten(results, spec)


def _apply_generated(cls, level, size, args):
    """Apply it example by example, so that what forward saves and backward reads is of one example."""
    rows = [cls.apply(*(a._value[i] if is_batched(a, level) else a for a in args)) for i in range(size)]
    if isinstance(rows[0], Tensor):
        return wrap(_C.stack(rows), level)
    return tuple(wrap(_C.stack(list(column)), level) for column in zip(*rows))


class _VmapInfo:
    """Describe the call for a Function's vmap rule."""

    def __init__(self, batch_size, randomness):
        self.batch_size = batch_size
        self.randomness = randomness
