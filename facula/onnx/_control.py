"""Control flow on values as nodes of ONNX with graphs: If, Loop, Scan.

A node of the program has graphs that are all given the same values: its arguments, then what they read besides. ONNX's graphs
see the values around them, so that only what changes from step to step is given to them.
"""

from ._graph import Value
from .errors import UnsupportedOperatorError


def translate(t, node):
    """Makes the nodes for an op of `ops.higher_order`, and notes its results."""
    from ._translate import describe, is_tensor, known_of

    kind = KINDS.get(node.target.__name__)
    if kind is None:
        raise UnsupportedOperatorError(f"onnx.export: no translation to ONNX of {node.target.__name__}")
    t.g.dtype, t.g.shape, t.g.results = None, None, ()
    results = kind(t, *t._arguments(list(node.args)))
    for result, known in zip(results, known_of(node) or ()):
        if is_tensor(known):
            result.dtype, result.shape = describe(known, t.names)
    t.values[node] = results


def _kinds(values):
    return [(v.dtype, v.shape) for v in values]


def _cond(t, pred, true_graph, false_graph, operands=()):
    branches = [t.g.within(lambda g, m=m: t.inner(g, m, operands)) for m in (true_graph, false_graph)]
    given = (t.g.scalar(t.g.cast(pred, "bool")),)
    like = [_either(a, b) for a, b in zip(*(b.outputs for b in branches))]
    return t.g.with_graphs("If", given, like, then_branch=branches[0], else_branch=branches[1])


def _either(a, b):
    """What is known of a value that is one of two."""
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        shape = None
    else:
        shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape))
    return Value(a.graph, "", a.dtype, shape)


def _while_loop(t, condition, body, carried, besides=()):
    again = lambda g, values: g.scalar(g.cast(t.inner(g, condition, [*values, *besides])[0], "bool"))

    def step(g, i, on, *values):
        made = t.inner(g, body, [*values, *besides])
        return [again(g, made), *made]

    inner = t.g.within(step, [("int64", ()), ("bool", ()), *_kinds(carried)])
    return t.g.with_graphs("Loop", (None, again(t.g, carried), *carried), inner.outputs[1:], body=inner)


def _rows(xs):
    return [(x.dtype, x.shape[1:]) for x in xs]


def _map(t, graph, xs, fixed=()):
    return _scan(t, graph, [], xs, fixed)


def _scan(t, graph, init, xs, fixed=()):
    inner = t.g.within(lambda g, *values: t.inner(g, graph, [*values, *fixed]), [*_kinds(init), *_rows(xs)])
    length = xs[0].shape[0]
    many = len(init)
    stacked = [Value(v.graph, "", v.dtype, None if v.shape is None else (length, *v.shape)) for v in inner.outputs[many:]]
    like = [*inner.outputs[:many], *stacked]
    return t.g.with_graphs("Scan", (*init, *xs), like, body=inner, num_scan_inputs=len(xs))


def _as_it_is(t, enabled, graph, *operands):
    return t.inner(t.g, graph, operands)


KINDS = {
    "cond": _cond, "while_loop": _while_loop, "map_impl": _map, "scan": _scan, "wrap_with_set_grad_enabled": _as_it_is,
}  # fmt: skip
