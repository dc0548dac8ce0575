"""Compute derivatives as function transforms.

A transform gives the function inputs of its own, connected to the caller's where those are tracked, so that
transforms nest. Within vmap the inputs are expanded over every live batch first: then one backward pass over the values
behind the wrappers computes each example's own derivative.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from .. import _C
from ..autograd.forward_ad import _set_fwd_grad_enabled, _transform_level, pushforward, without_inputs
from ..autograd.grad_mode import enable_grad
from . import _vmap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

Tensor = _C.Tensor


# Inputs and outputs behind vmap's wrappers


def _levels_of(tensor):
    found = []
    while level := _C._batch_level(tensor):
        found.append(level)
        tensor = _C._batch_value(tensor)
    return found


def _expanded(tensor, levels=None):
    """Return the tensor with a wrapper for every vmap that runs, or for those of `levels` besides its own."""
    live = _vmap.live_levels()
    if not live:
        return tensor
    present = _levels_of(tensor)
    if levels is not None:
        live = [(level, size) for level, size in live if level in levels or level in present]
    if len(present) == len(live):
        return tensor
    return _rebuild_missing(tensor, live)


def _rebuild_missing(tensor, live):
    """Wrap in all levels: in memory the outermost vmap's batch comes first; its wrapper is the innermost."""
    present = _levels_of(tensor)
    value = _vmap.debug_unwrap(tensor)
    for position, (level, size) in enumerate(live):
        if level not in present:
            value = value.unsqueeze(position).expand(*value.shape[:position], size, *value.shape[position:])
    return _rewrap(value, [level for level, _ in live])


def _physical(tensor):
    """Return the values behind all wrappers and the levels, outermost vmap first."""
    levels = sorted(_levels_of(tensor))
    return _vmap.debug_unwrap(tensor), levels


def _behind(tensor, levels):
    """Return what lies behind the wrappers of `levels`; a vmap that runs over cotangents or tangents alone keeps its own."""
    value, present = _physical(_expanded(tensor, levels))
    own = [level for level in present if level not in levels]
    return _rewrap(value.movedim([present.index(level) for level in own], list(range(len(own)))), own) if own else value


def _in_front(result, levels):
    """Return the inverse: the batches of `levels` in their wrappers again."""
    value, own = _physical(result)
    if not own:
        return _rewrap(value, levels)
    present = own + levels
    order = sorted(present)
    front = [present.index(level) for level in order]
    return _rewrap(value.permute(*front, *range(len(front), value.ndim)), order)


class _Inputs:
    """Make differentiable copies of tensors: `wrapped` for the function, `leaves` for the engine.

    With `forward` they are duals, which the function's grad modes say nothing of.
    """

    def __init__(self, tensors, forward=False):
        self.originals = [_expanded(t) for t in tensors]
        self.leaves, self.wrapped = [], []
        for tensor in self.originals:
            value, levels = _physical(tensor)
            if forward:
                own, leaf = _C._make_dual(value)
            elif value.requires_grad or _C._is_dual(value):
                own, leaf = _C._make_tracked(value)
            else:
                own = leaf = value.detach().requires_grad_()
            self.leaves.append(leaf)
            self.wrapped.append(_rewrap(own, levels))
        self.own = self.leaves  # and in jvp what functions with a rule of their own have made

    def cut(self, tensor):
        """Return a result without history, unless it depends on tracked tensors beyond these inputs."""
        return _cut(tensor, self.own)


def _rewrap(value, levels):
    """Return a physical tensor laid out as `_physical` gives it, in wrappers again."""
    for level in levels:
        value = _vmap.wrap(value, level)
    return value


def _cut(tensor, leaves):
    if level := _C._batch_level(tensor):
        return _vmap.wrap(_cut(_C._batch_value(tensor), leaves), level)
    return without_inputs(tensor, leaves)


def _flatten(tree):
    from ..utils._pytree import tree_flatten

    return tree_flatten(tree)


def _unflatten(leaves, spec):
    from ..utils._pytree import tree_unflatten

    return tree_unflatten(list(leaves), spec)


def _is_differentiable(value):
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _checked(values, name, what):
    for value in values:
        if not isinstance(value, Tensor):
            raise RuntimeError(f"{name}: expected {what} to be Tensors only, got {type(value).__name__}")
    return values


def _inexact(values, name, what):
    """Return the values, which must be floating-point or complex: forward mode has tangents of those only."""
    for value in _checked(values, name, what):
        if not _is_differentiable(value):
            raise ValueError(f"{name}: expected {what} to be floating-point or complex, got {value.dtype}")
    return values


def _real(values, name, what):
    """Return the values, which must be real: of complex functions, rows and columns would be different derivatives."""
    for k, value in enumerate(_checked(values, name, f"the {what}")):
        if value.is_complex():
            raise RuntimeError(f"{name}: all {what} must be real, got {value.dtype} at flattened position {k}")
    return values


def _cut_tree(tree, inputs):
    return _vmap.map_tensors(inputs.cut, tree)


# grad


def _argnums(args, argnums, name):
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"{name}: argnums is an int or a tuple of them, got {type(argnums).__name__}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError(f"{name}: argnums must be non-empty, got ()")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"{name}: argnums is an int or a tuple of them, got {type(n).__name__} in a tuple")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"{name}: argnums must be below the number of positional arguments, {len(args)}, got {n}")
    numbers = tuple(n % len(args) for n in numbers)
    if len(set(numbers)) != len(numbers):
        raise RuntimeError(f"{name}: argnums must be unique, got {argnums}")
    return numbers


def grad_and_value(func: Callable[..., Any], argnums: Sequence[int] | int = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of the scalar function `func` and its value: ``(grads, value)``.

    Args:
        func: gives a tensor of one element; with has_aux, ``(output, aux)``.
        argnums: the positional argument, or a tuple of them, to differentiate.
        has_aux: whether the result is ``(grads, (value, aux))``.

    Errors: RuntimeError, when it is called, for an output of more elements.

    >>> torch.func.grad_and_value(lambda x: x ** 2)(torch.tensor(3.))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        numbers = _argnums(args, argnums, "grad")
        recorded = _C.is_grad_enabled()
        with enable_grad():
            chosen = args[argnums % len(args)] if isinstance(argnums, int) else tuple(args[n] for n in numbers)
            flat, spec = _flatten(chosen)
            inputs = _Inputs(_checked(flat, "grad", "the differentiated arguments"))
            own = _unflatten(inputs.wrapped, spec)
            filled = list(args)
            for k, n in enumerate(numbers):
                filled[n] = own if isinstance(argnums, int) else own[k]
            output = func(*filled, **kwargs)
            output, aux = _with_aux(output, has_aux, "grad")
            _check_scalar(output)
            pulled = _pull([output], [None], inputs)
        grads = _unflatten([_outward(inputs.cut(g), recorded) for g in pulled], spec)
        value = _outward(inputs.cut(output), recorded)
        return grads, ((value, _cut_tree(aux, inputs)) if has_aux else value)

    return wrapper


def grad(func: Callable[..., Any], argnums: Sequence[int] | int = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that gives the gradient of the scalar function `func`.

    Args:
        func: gives a tensor of one element; with has_aux, ``(output, aux)``.
        argnums: the positional argument, or a tuple of them, to differentiate.
        has_aux: whether the result is ``(grads, aux)``.

    Errors: RuntimeError, when it is called, for an output of more elements.

    >>> torch.func.grad(torch.sin)(torch.tensor(0.))
    tensor(1.)
    >>> torch.func.grad(torch.func.grad(lambda x: x ** 3))(torch.tensor(2.))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def _with_aux(output, has_aux, name):
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{name}: with has_aux, the function returns a pair (output, aux), got {type(output).__name__}"
        )
    for value in _flatten(output[1])[0]:
        if not isinstance(value, Tensor):
            raise RuntimeError(f"{name}: aux must hold tensors, got {type(value).__name__}")
    return output


def _some(flat_output, name):
    """Return the outputs of a function, of which there must be one at least."""
    if not flat_output:
        raise RuntimeError(f"{name}: the function must return at least one Tensor, got none")
    return flat_output


def _outward(tensor, recorded):
    """Return a result as the caller sees it: without history where it does not record."""
    return tensor if recorded or _C._is_dual(tensor) else tensor.detach()


def _check_scalar(output):
    if not isinstance(output, Tensor):
        raise RuntimeError(f"grad: the function must return a Tensor, got {type(output).__name__}")
    if output.ndim != 0:
        raise RuntimeError(
            f"grad: expected a function whose output is a scalar (vjp takes others), got {output.ndim} dimensions"
        )
    if output.is_complex():
        raise RuntimeError(f"grad: the function must return a real scalar, got {output.dtype}")


def _pull(outputs, cotangents, inputs):
    """Return the gradients of the inputs, in their wrappers; `cotangents` of None stand for ones."""
    roots, seeds = [], []
    for output, cotangent in zip(outputs, cotangents):
        value, levels = _physical(output)
        if not value.requires_grad:
            continue
        if cotangent is None:
            seed = _C.ones_like(value.detach())
        else:
            seed = _behind(cotangent, levels)
            seed = seed.expand(value.shape) if seed.shape != value.shape else seed
        roots.append(value)
        seeds.append(seed)
    if not roots:
        return [_zeros(leaf, original) for leaf, original in zip(inputs.leaves, inputs.originals)]
    pulled = run_pass(tuple(roots), tuple(seeds), tuple(inputs.leaves))
    return [
        _zeros(leaf, original) if g is None else _in_front(g, sorted(_levels_of(original)))
        for g, leaf, original in zip(pulled, inputs.leaves, inputs.originals)
    ]


def run_pass(roots, seeds, leaves):
    """Return gradients of leaves, None where there is none; their history keeps nothing that the program can write to."""
    before = _C._set_derivatives_are_composed(True)
    try:
        return _C._run_backward(roots, seeds, leaves, True, True, False)
    finally:
        _C._set_derivatives_are_composed(before)


def _zeros(leaf, original):
    return _rewrap(_C.zeros_like(leaf.detach()), sorted(_levels_of(original)))


# vjp and jvp


def vjp(func: Callable[..., Any], *primals: Tensor, has_aux: bool = False) -> tuple[Tensor, Callable[..., Any]]:
    """Return the value of a function and a function that multiplies the Jacobian's transpose.

    Args:
        func: gives a tensor or nested containers of them; with has_aux, ``(output, aux)``.
        primals: its arguments, tensors or nested containers of them.
        has_aux: whether the result has aux as a third part.

    Returns: ``(output, vjp_fn)`` or ``(output, vjp_fn, aux)``; ``vjp_fn(cotangents)``, of the output's structure, gives a tuple
    with one gradient per primal.

    Errors: RuntimeError for no primals, cotangents of another structure, and outputs that are neither floating-point nor
    complex; ValueError for a primal that is no tensor.

    >>> output, vjp_fn = torch.func.vjp(lambda x: x * x, torch.tensor([1., 2.]))
    >>> vjp_fn(torch.tensor([1., 10.]))
    (tensor([ 2., 40.]),)
    """
    if not primals:
        raise RuntimeError("vjp: at least one primal is expected, got none")
    recorded = _C.is_grad_enabled()
    with enable_grad():
        flat, spec = _flatten(primals)
        for primal in flat:
            if not isinstance(primal, Tensor):
                raise ValueError(f"vjp: expected the primals to be Tensors only, got {type(primal).__name__}")
        inputs = _Inputs(flat)
        output, aux = _with_aux(func(*_unflatten(inputs.wrapped, spec)), has_aux, "vjp")
    flat_output, output_spec = _flatten(output)
    for value in _checked(_some(flat_output, "vjp"), "vjp", "the outputs of the function"):
        if not _is_differentiable(value):
            raise RuntimeError(f"vjp: expected outputs that are floating-point or complex, got {value.dtype}")

    def vjp_fn(cotangents=None, retain_graph=True, create_graph=None):
        given, given_spec = _flatten(cotangents)
        if given_spec != output_spec:
            raise RuntimeError("vjp_fn: the cotangents must be nested as the output is, got them nested otherwise")
        for cotangent, out in zip(given, flat_output):
            if tuple(cotangent.shape) != tuple(out.shape):
                raise RuntimeError(
                    f"vjp_fn: a cotangent needs the output's shape {tuple(out.shape)}, got {tuple(cotangent.shape)}"
                )
        still = _C.is_grad_enabled() if create_graph is None else create_graph
        with enable_grad():
            pulled = [_outward(inputs.cut(g), still) for g in _pull(flat_output, given, inputs)]
        result = _unflatten(pulled, spec)
        return result

    shown = _unflatten([_outward(inputs.cut(o), recorded) for o in flat_output], output_spec)
    return (shown, vjp_fn, _cut_tree(aux, inputs)) if has_aux else (shown, vjp_fn)


def _directions(inputs, tangents):
    """Return the tangents of the leaves, behind the wrappers of these."""
    directions = []
    for tangent, leaf, original in zip(tangents, inputs.leaves, inputs.originals):
        value = _behind(tangent, _levels_of(original))
        directions.append(value if value.shape == leaf.shape else value.expand(leaf.shape))
    return directions


def _push(flat_output, leaves, directions, strict=False):
    """Return the tangents of the outputs, in their wrappers."""
    results = []
    for output in flat_output:
        value, levels = _physical(output)
        tangent = pushforward([value], leaves, directions, True)[0] if _C._is_dual(value) else None
        if strict and tangent is None:
            raise RuntimeError(
                f"jvp: with strict=True, every output must depend on the primals, got one of shape {tuple(output.shape)} "
                f"that does not"
            )
        results.append(_in_front(_C.zeros_like(value.detach()) if tangent is None else tangent, levels))
    return results


def jvp(func: Callable[..., Any], primals: Sequence[Tensor], tangents: Sequence[Tensor], *, strict: bool = False,
        has_aux: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the value of a function and its derivative in direction of `tangents`.

    Args:
        func: gives a tensor or nested containers of them; with has_aux, ``(output, aux)``.
        primals: a tuple of its arguments.
        tangents: a tuple of the directions, of the structure of primals.
        strict: whether an output that does not depend on the primals is a RuntimeError rather than zeros.
        has_aux: whether the result has aux as a third part.

    Returns: ``(output, tangent)`` or ``(output, tangent, aux)``.

    Errors: RuntimeError for primals and tangents that do not fit; ValueError for integers.

    >>> torch.func.jvp(torch.sin, (torch.tensor(0.),), (torch.tensor(2.),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError(
            f"jvp: expected primals and tangents to be tuples, got {type(primals).__name__} and "
            f"{type(tangents).__name__}"
        )
    recorded = _C.is_grad_enabled()
    with _set_fwd_grad_enabled(True):
        flat, spec = _flatten(primals)
        flat_tangents, tangent_spec = _flatten(tangents)
        if spec != tangent_spec or not flat:
            raise RuntimeError(
                f"jvp: expected primals and tangents with tensors of the same python structure, got {spec} and {tangent_spec}"
            )
        inputs = _Inputs(_inexact(flat, "jvp", "the primals"), forward=True)
        for primal, tangent in zip(flat, _inexact(flat_tangents, "jvp", "the tangents")):
            if primal.shape != tangent.shape:
                raise RuntimeError(
                    f"jvp: a tangent needs the primal's shape {tuple(primal.shape)}, got {tuple(tangent.shape)}"
                )
        directions = _directions(inputs, flat_tangents)
        with _transform_level(inputs.leaves, directions) as level:
            output, aux = _with_aux(func(*_unflatten(inputs.wrapped, spec)), has_aux, "jvp")
            flat_output, output_spec = _flatten(output)
            _checked(_some(flat_output, "jvp"), "jvp", "the outputs of the function")
            inputs.own = level.inputs
            pushed = _push(flat_output, level.inputs, level.tangents, strict)
    shown = _unflatten([_outward(inputs.cut(o), recorded) for o in flat_output], output_spec)
    tangent = _unflatten([_outward(inputs.cut(p), recorded) for p in pushed], output_spec)
    return (shown, tangent, _cut_tree(aux, inputs)) if has_aux else (shown, tangent)


def linearize(func: Callable[..., Any], *primals: Tensor) -> tuple[Tensor, Callable[..., Any]]:
    """Return the function's value, and its derivative at the primals as a linear function of tangents, for any number of calls.

    Args:
        func: gives a tensor or nested containers of them.
        primals: its arguments.

    Returns: ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` takes one tangent per primal.

    Errors: RuntimeError from jvp_fn for tangents of another structure or shape.

    >>> output, jvp_fn = torch.func.linearize(torch.sin, torch.tensor(0.))
    >>> output, jvp_fn(torch.tensor(1.)), jvp_fn(torch.tensor(2.))
    (tensor(0.), tensor(1.), tensor(2.))
    """
    with _set_fwd_grad_enabled(True), _transform_level():
        flat, spec = _flatten(primals)
        inputs = _Inputs(_inexact(flat, "linearize", "the primals"), forward=True)
        output = func(*_unflatten(inputs.wrapped, spec))
        flat_output, output_spec = _flatten(output)

    def jvp_fn(*tangents):
        given, given_spec = _flatten(tangents)
        if given_spec != spec:
            raise RuntimeError("linearize: the tangents must be nested as the primals are, got them nested otherwise")
        for tangent, primal in zip(given, flat):
            if tangent.shape != primal.shape:
                raise RuntimeError(
                    f"linearize: a tangent needs the primal's shape {tuple(primal.shape)}, got {tuple(tangent.shape)}"
                )
        with _set_fwd_grad_enabled(True):
            pushed = _push(flat_output, inputs.leaves, _directions(inputs, given))
        return _unflatten([inputs.cut(p) for p in pushed], output_spec)

    return _unflatten([inputs.cut(o) for o in flat_output], output_spec), jvp_fn


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Any:
    """Return the function itself: writes in place are recorded as they are, and need not be taken out first.

    Args:
        func: the function.
        remove: "mutations" or "mutations_and_views"; changes nothing.

    Errors: RuntimeError for another remove.

    >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize: Valid values for remove are 'mutations' and 'mutations_and_views', got {remove!r}"
        )
    return func
