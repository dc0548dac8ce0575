"""Split and join the batches of vmap, in steps that have the names by which programs replace them.

tensordict replaces three of these by its own functions, `_process_batched_inputs`, `_create_batched_inputs` and
`_unwrap_batched`, so that its containers pass through vmap as well. Each step is therefore looked up here when vmap
runs.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from facula import _C, random
from facula.func import _vmap
from facula.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

Tensor = _C.Tensor

__all__ = ["restore_vmap", "vmap_impl", "vmap_increment_nesting"]


def _get_name(func):
    """Return what errors call a function."""
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return getattr(func, "__name__", repr(func))


# ---- a tensor as a batch, and back


def _add_batch_dim(tensor, in_dim, level):
    """Return the tensor as the examples along dimension `in_dim`, for vmap `level`."""
    return _vmap.wrap(tensor.movedim(in_dim, 0) if in_dim else tensor, level)


def _remove_batch_dim(tensor, level, batch_size, out_dim):
    """Return all examples together, along dimension `out_dim`; what all share is repeated."""
    value = _vmap.batch_of(tensor, level, batch_size)
    return value.movedim(0, out_dim) if out_dim else value


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """Return the same, of a result of the function called `name`; with None as `out_dim` it must not be a batch."""
    if not isinstance(batched_output, Tensor):
        if out_dim is None:
            return batched_output
        raise ValueError(f"vmap: the function {name} must return Tensors only, got {type(batched_output).__name__}")
    if out_dim is not None:
        return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
    if _vmap.is_batched(batched_output, vmap_level):
        raise ValueError(
            f"vmap: with out_dim None `{name}` must return a value without a batch, got examples of shape "
            f"{tuple(batched_output.shape)}"
        )
    return batched_output


# ---- the steps


def _validate_and_get_batch_size(flat_in_dims, flat_args):
    """Return how many examples there are."""
    sizes = {value.size(dim) for value, dim in zip(flat_args, flat_in_dims) if dim is not None}
    if not sizes:
        raise ValueError("vmap: at least one input must have a batch dimension, got in_dims without any")
    if len(sizes) > 1:
        raise ValueError(f"vmap: the mapped dimensions must have the same size, got sizes {sorted(sizes)}")
    return sizes.pop()


def _process_batched_inputs(in_dims, args, func):
    """Return (number of examples, dimension of the batch in each leaf, leaves, structure) of the arguments."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"vmap: in_dims must be an int or a tuple nested as the arguments are, got {type(in_dims).__name__}")
    flat, spec = tree_flatten(args)
    if not flat:
        raise ValueError("vmap: the function needs at least one argument with a batch, got none")
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(f"vmap: in_dims must be nested as the arguments are, got in_dims={in_dims}")
    dims = [None if dim is None else _checked(value, dim) for value, dim in zip(flat, dims)]
    return _validate_and_get_batch_size(dims, flat), dims, flat, spec


def _checked(value, dim):
    if not isinstance(dim, int):
        raise ValueError(f"vmap: in_dims must hold an int or None for an input, got {dim!r}")
    if not isinstance(value, Tensor):
        raise ValueError(f"vmap: only a tensor can have an in_dim, got in_dim={dim} for a {type(value).__name__}")
    if not -value.ndim <= dim < value.ndim:
        raise ValueError(
            f"vmap: an in_dim must be a dimension of its input, got in_dim={dim} for a tensor of {value.ndim} dimensions"
        )
    return dim % value.ndim


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    """Return the arguments as the function sees them."""
    wrapped = [value if dim is None else _add_batch_dim(value, dim, vmap_level) for value, dim in zip(flat_args, flat_in_dims)]
    return tree_unflatten(wrapped, args_spec)


def _flat_out_dims(out_dims, spec, count):
    """Return the dimension of the batch in each of `count` results."""
    if isinstance(out_dims, int):
        return [out_dims] * count
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None and isinstance(out_dims, (tuple, list)) and len(out_dims) == count:
        dims = list(out_dims)
    if dims is None:
        raise ValueError(f"vmap: out_dims must be nested as the outputs are, got out_dims={out_dims}")
    return dims


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    """Return the results of all examples together."""
    flat, spec = tree_flatten(batched_outputs)
    for value in flat:
        if not isinstance(value, Tensor):
            raise ValueError(f"vmap: the function must only return Tensors, got type {type(value).__name__}")
    name = _get_name(func)
    results = [
        _maybe_remove_batch_dim(name, value, vmap_level, batch_size, dim)
        for value, dim in zip(flat, _flat_out_dims(out_dims, spec, len(flat)))
    ]
    return tree_unflatten(results, spec)


@contextlib.contextmanager
def vmap_increment_nesting(batch_size: int, randomness: str) -> Any:
    """Run one more vmap within the block; give its level."""
    with _vmap.new_level(batch_size, randomness) as level:
        yield level


def _flat_vmap(func, batch_size, flat_in_dims, flat_args, args_spec, out_dims, randomness, **kwargs):
    with vmap_increment_nesting(batch_size, randomness) as level:
        outputs = func(*_create_batched_inputs(flat_in_dims, flat_args, level, args_spec), **kwargs)
        return _unwrap_batched(outputs, out_dims, level, batch_size, func)


def _in_chunks(func, flat, spec, dims, size, out_dims, randomness, chunk, kwargs):
    parts = []
    start = random._states_of_all() if randomness == "same" else None  # of all chunks
    for first in range(0, size, chunk):
        count = min(chunk, size - first)
        piece = [v if d is None else v.narrow(d, first, count) for v, d in zip(flat, dims)]
        if start is not None and first > 0:
            random._put_back(start)
        parts.append(_flat_vmap(func, count, dims, piece, spec, out_dims, randomness, **kwargs))
    rows, specs = zip(*map(tree_flatten, parts))
    joined = [
        column[0] if dim is None else _C.cat(list(column), dim)
        for dim, column in zip(_flat_out_dims(out_dims, specs[0], len(rows[0])), zip(*rows))
    ]
    return tree_unflatten(joined, specs[0])


def vmap_impl(func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None,
              *args: Any, **kwargs: Any) -> Any:  # fmt: skip
    """Return what `func.vmap` does with arguments."""
    size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
    if chunk_size is not None and chunk_size < size:
        return _in_chunks(func, flat, spec, dims, size, out_dims, randomness, chunk_size, kwargs)
    return _flat_vmap(func, size, dims, flat, spec, out_dims, randomness, **kwargs)


def restore_vmap(func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str) -> Callable[..., Any]:
    """Return the function on batches that gives (results, dimension of the batch in each, None where it is not a batch)."""

    def inner(*args, **kwargs):
        with vmap_increment_nesting(batch_size, randomness) as level:
            flat, spec = tree_flatten(args)
            dims = _broadcast_to_and_flatten(in_dims, spec)
            flat, spec = tree_flatten(func(*_create_batched_inputs(dims, flat, level, spec), **kwargs))
            batched = [isinstance(value, Tensor) and _vmap.is_batched(value, level) for value in flat]
            values = [_C._batch_value(v) if b else v for v, b in zip(flat, batched)]
            return tree_unflatten(values, spec), tree_unflatten([0 if b else None for b in batched], spec)

    return inner


def get_unwrapped(tensor: Tensor) -> Tensor:
    """Return the batch behind a tensor inside vmap."""
    return _C._batch_value(tensor) if _vmap.is_batched(tensor) else tensor


def is_batchedtensor(tensor: Tensor) -> bool:
    """Return whether a tensor stands for a batch of a vmap that runs."""
    return isinstance(tensor, Tensor) and _vmap.is_batched(tensor)


def maybe_get_bdim(tensor: Tensor) -> int:
    """Return the dimension of the batch in what is behind a tensor: the first, or -1 where it stands for no batch."""
    return 0 if is_batchedtensor(tensor) else -1


def maybe_get_level(tensor: Tensor) -> int:
    """Return the vmap that a tensor stands in, counted from 1; -1 for none."""
    return _C._batch_level(tensor) if is_batchedtensor(tensor) else -1


def vmap(func: Callable[..., Any], in_dims: Sequence[int | None] | int = 0, out_dims: dict[str, Any] | int | None = 0,
         randomness: str = "error", *, chunk_size: int | None = None) -> Callable[..., Any]:  # fmt: skip
    """Return the function over a batch: ``vmap(func)(xs)[i] == func(xs[i])``, in one run of ops on all examples.

    Args:
        func: a function of tensors, or nested containers of them, that gives such.
        in_dims: per argument the dimension of the batch, None for arguments all examples share; nested as the
            arguments.
        out_dims: the dimension of the batch in each result.
        randomness: "error", "same" or "different" random numbers per example.
        chunk_size: examples that run together at most; None for all.

    Errors: ValueError for batches of different sizes and for in_dims or out_dims that do not fit; RuntimeError for random
    numbers where randomness is "error", and for code that needs the value of an example, such as ``if x > 0``.

    >>> x, y = torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 10.])
    >>> torch.vmap(torch.dot, in_dims=(0, None))(x, y)
    tensor([21., 43.])
    """
    if randomness not in _vmap._RANDOMNESS:
        raise RuntimeError(f"vmap: randomness must be {_C._one_of(randomness, ('error', 'different', 'same'))}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size must be None or positive, got {chunk_size}")

    @functools.wraps(func)
    def batched(*args, **kwargs):
        return vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)

    return batched
