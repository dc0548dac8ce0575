"""Implement control flow on values: `cond`, `while_loop`, `map`, `scan`.

They run as Python does, gradients included. While a program is recorded (facula.export) each is one node that holds the
programs of its functions: of both branches, of a condition and a body. What these read besides their arguments is given to
the node too (`_Graphs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.utils import _pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["cond", "while_loop"]  # the others are under `_higher_order_ops`


def cond(pred: Tensor, true_fn: Callable[..., Any] | Module, false_fn: Callable[..., Any] | Module,
         operands: Sequence[Tensor] | tuple[Tensor, ...] = ()) -> Tensor | Any:  # fmt: skip
    """Return ``true_fn(*operands)`` where `pred` holds, else ``false_fn(*operands)``.

    In a program that export records both branches stay, and `pred` chooses when it runs.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn, false_fn: functions that take the operands; where a program is recorded, what they return has the same shapes.
        operands: tensors, or nested containers of them.

    Errors: RuntimeError for what is no function, and for a pred of more elements.

    >>> x = torch.tensor([1., -2.])
    >>> torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: -x, (x,))
    tensor([-1.,  2.])
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError(f"cond: two callables, got {type(true_fn).__name__} and {type(false_fn).__name__}")
    if isinstance(pred, facula.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"cond: pred is a bool or a tensor of one element, got a tensor of shape {tuple(pred.shape)}")
    if isinstance(pred, facula.Tensor) and _C._recording():
        return _recorded_cond(pred, true_fn, false_fn, operands)
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any],
               carried_inputs: Sequence[Tensor | int]) -> tuple[Tensor | int, ...]:  # fmt: skip
    """Repeat ``carried = body_fn(*carried)`` as long as ``cond_fn(*carried)`` holds; return the last values, as a tuple.

    Args:
        cond_fn: gives a bool or a tensor of one element.
        body_fn: gives as many values as it takes.
        carried_inputs: the first values; tensors where a program is recorded.

    >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.tensor(1.)))
    (tensor(3), tensor(8.))
    """
    carried = tuple(carried_inputs)
    if _C._recording():
        return _recorded_while_loop(cond_fn, body_fn, carried)
    while bool(cond_fn(*carried)):
        result = body_fn(*carried)
        carried = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    return carried


def map(f: Callable[..., Any], xs: Sequence[Tensor] | Tensor, *args: Any) -> dict[str, Tensor] | tuple[Tensor, Tensor]:
    """Return f(x, *args) for every x along the first dimension of `xs` (a tensor, or several of the same length), stacked.

    Args:
        f: takes what `xs` is with one dimension less, and `args`.
        xs: tensors, nested as one likes.
        args: the same for every call.
    """
    leaves, spec = _leaves("map", xs)
    if _C._recording():
        return _recorded_map(f, leaves, spec, args)
    steps = [f(_pytree.tree_unflatten([x[i] for x in leaves], spec), *args) for i in range(leaves[0].shape[0])]
    return _stacked(steps)


def scan(combine_fn: Callable[..., Any], init: Sequence[Tensor] | Tensor, xs: Sequence[Tensor] | Tensor, *, dim: int = 0,
         reverse: bool = False) -> tuple[Tensor | list[Tensor], Tensor | list[Tensor]]:  # fmt: skip
    """Do ``carry, y = combine_fn(carry, x)`` for every x along a dimension; return the last carry, and all y stacked.

    Args:
        combine_fn: takes what is carried and one x, gives the next to carry and y.
        init: what is carried at first.
        xs: tensors to go through, of the same length.
        dim: the dimension of `xs` to go along.
        reverse: go from the end to the beginning.

    Returns: the last carry, of the structure of init, and the y stacked along a new first dimension.

    Errors: RuntimeError for init or xs without tensors, or with something else in them.
    """
    init_leaves = _pytree.tree_leaves(init)
    if not init_leaves or not all(isinstance(t, facula.Tensor) for t in init_leaves):
        raise RuntimeError("scan: init must be tensors, at least one, got something else")
    raw, spec = _pytree.tree_flatten(xs)
    if not raw or not all(isinstance(x, facula.Tensor) for x in raw):
        raise RuntimeError("scan: xs must be tensors, at least one, got something else")
    leaves = [x.movedim(dim, 0) if dim else x for x in raw]
    _same_length("scan", leaves)
    if reverse:
        leaves = [x.flip(0) for x in leaves]
    if _C._recording():
        carry, ys = _recorded_scan(combine_fn, init, leaves, spec)
    else:
        carry, made = init, []
        for i in range(leaves[0].shape[0]):
            carry, y = combine_fn(carry, _pytree.tree_unflatten([x[i] for x in leaves], spec))
            made.append(y)
        ys = _stacked(made)
    return carry, _pytree.tree_map(lambda y: y.flip(0), ys) if reverse else ys


def _leaves(name, xs):
    leaves, spec = _pytree.tree_flatten(xs)
    if not leaves or not all(isinstance(x, facula.Tensor) for x in leaves):
        raise RuntimeError(f"{name}: xs must be tensors, at least one, got something else")
    _same_length(name, leaves)
    return leaves, spec


def _same_length(name, leaves):
    lengths = {x.shape[0] if x.dim() else 0 for x in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise RuntimeError(f"{name}: xs must have one length that is not 0, got shapes {[tuple(x.shape) for x in leaves]}")


def _stacked(steps):
    specs = {str(_pytree.tree_structure(step)) for step in steps}
    if len(specs) != 1:
        raise RuntimeError(f"scan, map: what a function gives must be nested alike at every step, got {sorted(specs)}")
    columns = zip(*[_pytree.tree_leaves(step) for step in steps])
    return _pytree.tree_unflatten([facula.stack(list(column)) for column in columns], _pytree.tree_structure(steps[0]))


# ---- recorded


class _Graphs:
    """Hold the functions of one node as programs that all receive the same tensors: the arguments, then the tensors
    that the functions read besides.

    Args:
        name: of the op, for errors.
        arguments: tensors that the functions are called with.
    """

    def __init__(self, name, arguments):
        self.name, self.arguments, self.programs = name, list(arguments), []

    def record(self, function, *args):
        """Run a function; return its results as (leaves, structure)."""
        before = [t._version for t in self.arguments]
        _C._record_inner_begin()
        try:
            results = function(*args)
            leaves, spec = _pytree.tree_flatten(results)
            if not all(isinstance(leaf, facula.Tensor) for leaf in leaves):
                kinds = [type(leaf).__name__ for leaf in leaves]
                raise RuntimeError(f"{self.name}: the functions must give tensors, got {', '.join(kinds)}")
            _C._record_outputs(leaves)
        finally:
            program = _C._record_inner_end()
        if before != [t._version for t in self.arguments]:
            raise RuntimeError(f"{self.name}: a function writes to what it is given; make a new tensor")
        self.programs.append(program.dead())
        return leaves, spec

    def finish(self):
        """Return (programs, tensors read besides), once all functions are recorded."""
        known = {id(t) for t in self.arguments}
        besides = []
        for program in self.programs:
            for kind, _, _, _, tensor, _ in program.inputs:
                if kind != "user" and id(tensor) not in known:
                    known.add(id(tensor))
                    besides.append(tensor)
        for program in self.programs:
            program.lift([*self.arguments, *besides])
        return self.programs, besides


def _fresh(tensors):
    """Return tensors with the same elements that are nothing that the program knows yet."""
    return _C._record_unseen(lambda: [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors], ())


def _node(key, arguments, run):
    """Record a node whose results are new tensors."""
    # Clones: a branch may return an input itself, and the results of a node are new tensors.
    return _C._record_op(f"{key}.default", arguments, lambda: [t.clone() for t in run()], ())


def _same_results(name, a, b):
    (a_leaves, a_spec), (b_leaves, b_spec) = a, b
    if a_spec != b_spec:
        raise RuntimeError(f"{name}: what is given must be nested alike, got {a_spec} and {b_spec}")
    for x, y in zip(a_leaves, b_leaves):
        if x.shape != y.shape or x.dtype != y.dtype:
            raise RuntimeError(
                f"{name}: what is given must have one dtype and shape, got {x.dtype}{tuple(x.shape)}, {y.dtype}{tuple(y.shape)}"
            )


def _recorded_cond(pred, true_fn, false_fn, operands):
    tensors = [t for t in _pytree.tree_leaves(operands) if isinstance(t, facula.Tensor)]
    graphs = _Graphs("cond", tensors)
    taken, other = graphs.record(true_fn, *operands), graphs.record(false_fn, *operands)
    _same_results("cond", taken, other)
    (true_graph, false_graph), besides = graphs.finish()
    leaves, spec = taken if _C._record_unseen(lambda: bool(pred), ()) else other
    made = _node("cond", (pred, true_graph, false_graph, [*tensors, *besides]), lambda: leaves)
    return _pytree.tree_unflatten(made, spec)


def _recorded_while_loop(cond_fn, body_fn, carried):
    leaves, spec = _pytree.tree_flatten(carried)
    if not all(isinstance(t, facula.Tensor) for t in leaves):
        raise RuntimeError(
            "while_loop: what is carried must be tensors where a program is recorded (torch.tensor(number) makes one), got "
            "something else"
        )
    fresh = _fresh(leaves)
    graphs = _Graphs("while_loop", fresh)
    graphs.record(cond_fn, *_pytree.tree_unflatten(fresh, spec))
    body = graphs.record(lambda *args: _as_tuple(body_fn(*args)), *_pytree.tree_unflatten(fresh, spec))
    _same_results("while_loop", (fresh, spec), body)
    programs, besides = graphs.finish()
    arguments = (*programs, leaves, besides)
    made = _node("while_loop", arguments, lambda: _C._boxed_call("while_loop.default", arguments)[0])
    return _pytree.tree_unflatten(made, spec)


def _as_tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _recorded_map(f, leaves, spec, args):
    rows = _fresh(_C._record_unseen(lambda: [x[0] for x in leaves], ()))
    fixed = [t for t in _pytree.tree_leaves(args) if isinstance(t, facula.Tensor)]
    graphs = _Graphs("map", [*rows, *fixed])
    _, out_spec = graphs.record(f, _pytree.tree_unflatten(rows, spec), *args)
    (program,), besides = graphs.finish()
    arguments = (program, leaves, [*fixed, *besides])
    made = _node("map_impl", arguments, lambda: _C._boxed_call("map_impl.default", arguments)[0])
    return _pytree.tree_unflatten(made, out_spec)


def _recorded_scan(combine_fn, init, leaves, spec):
    init_leaves, init_spec = _pytree.tree_flatten(init)
    state, rows = _fresh(init_leaves), _fresh(_C._record_unseen(lambda: [x[0] for x in leaves], ()))
    specs = []

    def combine(state, rows):
        carry, y = combine_fn(_pytree.tree_unflatten(state, init_spec), _pytree.tree_unflatten(rows, spec))
        carried, carried_spec = _pytree.tree_flatten(carry)
        _same_results("scan", (state, init_spec), (carried, carried_spec))
        specs.append(_pytree.tree_structure(y))
        return [*carried, *_pytree.tree_leaves(y)]

    graphs = _Graphs("scan", [*state, *rows])
    graphs.record(combine, state, rows)
    (program,), besides = graphs.finish()
    arguments = (program, init_leaves, leaves, besides)
    made = _node("scan", arguments, lambda: _C._boxed_call("scan.default", arguments)[0])
    count = len(init_leaves)
    return _pytree.tree_unflatten(made[:count], init_spec), _pytree.tree_unflatten(made[count:], specs[0])


# ---- `torch.ops.higher_order`: with operands as lists, results as tuples


def _higher_order_cond(pred, true_fn, false_fn, operands=()):
    return cond(pred, true_fn, false_fn, tuple(operands))


def _higher_order_while_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    more = tuple(additional_inputs)
    return while_loop(lambda *c: _only(cond_fn(*c, *more)), lambda *c: tuple(body_fn(*c, *more)), tuple(carried_inputs))


def _only(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def _higher_order_map(f, xs, pos_args=()):
    return tuple(map(lambda rows, *args: tuple(f(*rows, *args)), list(xs), *pos_args))


def _higher_order_scan(combine_fn, init, xs, additional_inputs=()):
    count = len(init)

    def combine(carry, rows):
        made = combine_fn(*carry, *rows, *additional_inputs)
        return list(made[:count]), list(made[count:])

    carry, ys = scan(combine, list(init), list(xs))
    return (*carry, *ys)


def _higher_order_grad(enabled, wrapped_func, *args):
    with facula.set_grad_enabled(enabled):
        return wrapped_func(*args)


HIGHER_ORDER: dict[Any, Any] = {
    "cond": _higher_order_cond, "while_loop": _higher_order_while_loop, "map_impl": _higher_order_map,
    "scan": _higher_order_scan, "wrap_with_set_grad_enabled": _higher_order_grad,
}  # fmt: skip
