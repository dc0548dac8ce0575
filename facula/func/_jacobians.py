"""Compute Jacobians and Hessians as function transforms."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from .. import _C
from ..autograd.forward_ad import _set_fwd_grad_enabled, _transform_level, pushforward
from ..autograd.grad_mode import enable_grad
from . import _vmap
from ._transforms import (
    _argnums,
    _cut_tree,
    _expanded,
    _flatten,
    _Inputs,
    _levels_of,
    _outward,
    _physical,
    _real,
    _rewrap,
    _some,
    _unflatten,
    _with_aux,
    run_pass,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _units(shape, dtype, device, start, count, outer):
    """Return unit tensors number `start` on, `count` of them in front, the same for every example of `outer` vmaps."""
    numel = 1
    for size in shape:
        numel *= size
    rows = _C.zeros(count, numel, dtype=dtype, device=device)
    rows.diagonal(start).fill_(1)
    return rows.reshape(count, *(1,) * len(outer), *shape).expand(count, *outer, *shape)


def _chosen(args, argnums, name):
    numbers = _argnums(args, argnums, name)
    tree = args[numbers[0]] if isinstance(argnums, int) else tuple(args[n] for n in numbers)
    return numbers, tree


def _filled(args, numbers, argnums, own):
    filled = list(args)
    for k, n in enumerate(numbers):
        filled[n] = own if isinstance(argnums, int) else own[k]
    return filled


def jacrev(func: Callable[..., Any], argnums: int = 0, *, has_aux: bool = False, chunk_size: int | None = None,
           _preallocate_and_copy: bool = False) -> Callable[..., Any]:  # fmt: skip
    """Return a function that gives the Jacobian, computed output by output: the better one where outputs are fewer than inputs.

    Args:
        func: gives a tensor or nested containers of them; with has_aux, ``(output, aux)``.
        argnums: the positional argument, or a tuple of them, to differentiate.
        has_aux: whether the result is ``(jacobian, aux)``.
        chunk_size: rows that are computed together at most; None for all.

    The Jacobian is of shape (*output.shape, *input.shape), nested as outputs, then inputs.

    Errors: ValueError for a chunk_size that is not positive.

    >>> torch.func.jacrev(lambda x: x * x)(torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: chunk_size should be greater than 0, got {chunk_size}")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        recorded = _C.is_grad_enabled()
        with enable_grad():
            numbers, tree = _chosen(args, argnums, "jacrev")
            flat, spec = _flatten(tree)
            inputs = _Inputs(_real(flat, "jacrev", "inputs"))
            output, aux = _with_aux(
                func(*_filled(args, numbers, argnums, _unflatten(inputs.wrapped, spec)), **kwargs), has_aux, "jacrev"
            )
            flat_output, output_spec = _flatten(output)
            blocks = [
                _rows(out, inputs, flat, chunk_size) for out in _real(_some(flat_output, "jacrev"), "jacrev", "outputs")
            ]
        rows = [_unflatten([_outward(inputs.cut(b), recorded) for b in row], spec) for row in blocks]
        result = _unflatten(rows, output_spec)
        return (result, _cut_tree(aux, inputs)) if has_aux else result

    return wrapper


def _rows(output, inputs, flat, chunk_size):
    """Return, per input, the block of derivatives of one output: one backward pass over a batch of unit cotangents."""
    value, levels = _physical(_expanded(output) if _levels_of(output) else output)
    count = output.numel()
    shapes = [(*output.shape, *x.shape) for x in flat]
    if not value.requires_grad or count == 0:
        return [_wrapped_zeros(shape, x, original) for shape, x, original in zip(shapes, flat, inputs.originals)]
    outer = value.shape[: len(levels)]
    step = count if chunk_size is None else max(1, chunk_size)
    parts = []
    for start in range(0, count, step):
        units = _units(output.shape, value.dtype, value.device, start, min(step, count - start), outer)
        parts.append(_pull_units(value, inputs.leaves, units))
    return [
        _rewrap_rows(_joined([part[k] for part in parts]), sorted(_levels_of(original)), shape)
        for k, (original, shape) in enumerate(zip(inputs.originals, shapes))
    ]


def _pull_units(value, leaves, units):
    with _vmap.new_level(units.shape[0]) as level:
        seeds = (_vmap.wrap(units, level),)
        pulled = run_pass((value,), seeds, tuple(leaves))
        filled = [_C.zeros_like(leaf.detach()) if g is None else g for g, leaf in zip(pulled, leaves)]
        return [_vmap.batch_of(g, level, units.shape[0]) for g in filled]


def _joined(parts):
    return parts[0] if len(parts) == 1 else _C.cat(parts)


def _rewrap_rows(rows, levels, shape):
    """Return the rows in front of the batches of outer vmaps: as examples of those, of the given shape."""
    return _rewrap(rows.movedim(0, len(levels)) if levels else rows, levels).reshape(shape)


def _wrapped_zeros(shape, x, original):
    value, levels = _physical(original)
    batches = value.shape[: len(levels)]
    return _rewrap(_C.zeros((*batches, *shape), dtype=x.dtype, device=x.device), levels)


def jacfwd(func: Callable[..., Any], argnums: int = 0, has_aux: bool = False, *,
           randomness: str = "error") -> Callable[..., Any]:  # fmt: skip
    """Return a function that gives the Jacobian, computed input by input: the better one where inputs are fewer than outputs.

    Args:
        func: gives a tensor or nested containers of them; with has_aux, ``(output, aux)``.
        argnums: the positional argument, or a tuple of them, to differentiate.
        has_aux: whether the result is ``(jacobian, aux)``.
        randomness: of random numbers within: "error", "same" or "different" for each direction.

    The Jacobian is of shape (*output.shape, *input.shape), nested as outputs, then inputs.

    >>> torch.func.jacfwd(lambda x: torch.stack([x, x ** 2]))(torch.tensor(3.))
    tensor([1., 6.])
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        recorded = _C.is_grad_enabled()
        with _set_fwd_grad_enabled(True), _transform_level():
            numbers, tree = _chosen(args, argnums, "jacfwd")
            flat, spec = _flatten(tree)
            inputs = _Inputs(_real(flat, "jacfwd", "inputs"), forward=True)
            output, aux = _with_aux(
                func(*_filled(args, numbers, argnums, _unflatten(inputs.wrapped, spec)), **kwargs), has_aux, "jacfwd"
            )
            flat_output, output_spec = _flatten(output)
            _real(_some(flat_output, "jacfwd"), "jacfwd", "outputs")
            columns = [_columns(flat_output, inputs, flat, k) for k in range(len(flat))]
        rows = [
            _unflatten([_outward(inputs.cut(columns[k][j]), recorded) for k in range(len(flat))], spec)
            for j in range(len(flat_output))
        ]
        result = _unflatten(rows, output_spec)
        return (result, _cut_tree(aux, inputs)) if has_aux else result

    return wrapper


def _columns(flat_output, inputs, flat, k):
    """Return, per output, the block of derivatives by input k: one forward-mode pass over a batch of unit tangents."""
    x, leaf = flat[k], inputs.leaves[k]
    count = x.numel()
    outer = leaf.shape[: len(_levels_of(inputs.originals[k]))]
    units = _units(x.shape, leaf.dtype, leaf.device, 0, count, outer)
    return [_column_block(out, leaf, units, (*out.shape, *x.shape), inputs.originals[k]) for out in flat_output]


def _column_block(output, leaf, units, shape, original):
    value, levels = _physical(output)
    if not _C._is_dual(value) or units.shape[0] == 0:
        return _wrapped_zeros(shape, output, original)
    with _vmap.new_level(units.shape[0]) as level:
        (tangent,) = pushforward([value], [leaf], [_vmap.wrap(units, level)], True)
        tangent = _C.zeros_like(value.detach()) if tangent is None else tangent
        tangent = _vmap.batch_of(tangent, level, units.shape[0])
    return _rewrap(tangent.movedim(0, -1), levels).reshape(shape)


def hessian(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Return a function that gives the matrix of second derivatives of a scalar function, forward over reverse.

    Args:
        func: gives a tensor of one element.
        argnums: the positional argument, or a tuple of them, to differentiate.

    The matrix is of shape (*input.shape, *input.shape), nested for several arguments.

    >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
