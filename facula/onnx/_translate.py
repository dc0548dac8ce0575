"""Translate an exported program to a graph of ONNX.

Walks the nodes of `program.graph` and calls the translation of each op (`_ops`). Writes: ONNX has none, so a node that writes
gives its tensor a new value, and with it all tensors that it is a view of (`_inverse`); other views of them are made anew when
they are read next. What is computed from constants alone is computed here, by the op itself.

Long because it is one class and the control flow that it opens.
"""

import operator

import facula
from facula.export._memory import Memory

from . import _ops, _registered
from ._graph import Graph, Value, numpy_dtype, prune, rename
from .errors import UnsupportedOperatorError

# ---- Control flow on values as nodes of ONNX with graphs: If, Loop, Scan.
#
# A node of the program has graphs that are all given the same values: its arguments, then what they read besides. ONNX's graphs
# see the values around them, so that only what changes from step to step is given to them.


def translate(t, node):
    """Make the nodes for an op of `ops.higher_order`, and note its results."""
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
    """Return what is known of a value that is one of two."""
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

    # ONNX passes the number of the step and the condition before the values.
    inner = t.g.within(step, [("int64", ()), ("bool", ()), *_kinds(carried)])
    # There is no greatest number of steps; the second input is the condition of the first step.
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


# Conditions and hints for a compiler, which compute nothing.
_IGNORED = frozenset(
    """_assert_async _assert_scalar _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size
    _functional_assert_scalar _functional_assert_async _functional_sym_constrain_range
    _functional_sym_constrain_range_for_size record_stream""".split()
)
# Results that must not be computed when the model is exported: random numbers, and memory without values.
_DRAWS = frozenset(
    "rand randn randint randperm normal bernoulli multinomial dropout empty rand_like randn_like empty_like".split()
)
_SIZES = {
    operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", operator.floordiv: "Div", operator.mod: "Mod",
    operator.neg: "Neg", operator.truediv: "Div",
}  # fmt: skip


def describe(value, names):
    """Return dtype and sizes of the tensor that a node's `meta["val"]` tells of; sizes that vary by their names."""
    size = lambda s: s if type(s) is int else names.get(str(s), str(s))
    return str(value.dtype).rsplit(".", 1)[-1], tuple(size(s) for s in value.shape)


def is_tensor(value):
    return hasattr(value, "dtype") and hasattr(value, "shape")


class _Known:
    """Hold dtype and sizes of a tensor of the program."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape


def known_of(node):
    """Return what the program says of a node's result: something with dtype and shape, a list of such, a size, or None."""
    if "val" in node.meta:
        return node.meta["val"]
    facts = node.meta.get("tensor_meta")
    if isinstance(facts, tuple):
        return _Known(*facts[:2])
    if facts is not None:
        return [_Known(*f[:2]) if f is not None else None for f in facts]
    parts = {user.args[1]: known_of(user) for user in node.users if user.target is operator.getitem}
    return [parts.get(i) for i in range(max(parts) + 1)] if parts else None


class Translator:
    """Build the graph of a program."""

    def __init__(self, program, opset, input_names=(), output_names=(), names=None, custom=None):
        self.program, self.names, self.custom = program, names or {}, custom or {}
        self.used = set()  # ops whose translation was the caller's
        self.g = Graph(opset)
        self.input_names, self.output_names = list(input_names or ()), list(output_names or ())
        self.memory = Memory()  # by fx node
        self.values = self.memory.values  # fx node -> Value, list of them, or what Python has

    def run(self):
        graph = self.program.graph
        for node in graph.nodes:
            getattr(self, node.op)(node)
        needed = prune(self.g)
        self.g.initializers = {name: v for name, v in self.g.initializers.items() if name in needed}
        return self.g

    # inputs and outputs

    def placeholder(self, node):
        names = (node.name, node.target)
        spec = next(s for s in self.program.graph_signature.input_specs if getattr(s.arg, "name", None) in names)
        value = known_of(node)
        if not is_tensor(value):
            self.values[node] = value
            if spec.kind.name == "USER_INPUT" and self.input_names:
                self.input_names.pop(0)
            return
        dtype, shape = describe(value, self.names)
        if spec.kind.name == "USER_INPUT":
            name = self.input_names.pop(0) if self.input_names else node.target
            made = self._input(name, dtype, shape)
        else:
            state = self.program.state_dict if spec.target in self.program.state_dict else self.program.constants
            made = self._held(spec.target, state[spec.target])
        self.values[node] = made

    def _input(self, name, dtype, shape):
        """Return an input; of complex numbers one of their parts, which are the last dimension."""
        part = _ops.complex.PARTS.get(dtype)
        made = Value(self.g, self.g.fresh(name), part or dtype, (*shape, 2) if part else shape)
        self.g.inputs.append(made)
        return _ops.complex.view_as_complex(self.g, made) if part else made

    def _held(self, name, tensor):
        """Return a parameter, a buffer or a constant of the program."""
        dtype, shape = describe(tensor, self.names)
        return self._constant(name, tensor) if dtype.startswith("complex") else self.g.initializer(name, tensor, dtype, shape)

    def get_attr(self, node):
        found = self.program.graph_module
        for part in node.target.split("."):
            found = getattr(found, part)
        if is_tensor(found):
            found = self._held(node.target, found)
        self.values[node] = found

    def output(self, node):
        specs = list(getattr(self.program.graph_signature, "output_specs", ()))
        results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        kinds = [s.kind.name for s in specs] if len(specs) == len(results) else ["USER_OUTPUT"] * len(results)
        for result, kind in zip(results, kinds):
            if kind == "USER_OUTPUT" and result is not None:
                self._output(self.memory.read(result) if hasattr(result, "op") else self._numbers(result))

    def _numbers(self, value):
        """Return a result that no op computed; an empty list is a shape."""
        return self.g.constant(value, "int64" if isinstance(value, (list, tuple)) and not value else None)

    def _output(self, value):
        g = self.g
        if isinstance(value, _ops.Pair):
            value = _ops.complex.stacked(g, value)
        value = value if isinstance(value, Value) else g.constant(value)
        name = self.output_names.pop(0) if self.output_names else None
        # ONNX needs outputs that a node computed, each with a name of its own.
        if value.name in g.initializers or value in g.inputs or value in g.outputs:
            value = g.Identity(value)
        if name and name != value.name:
            self._rename(value, name if name not in g.names else g.fresh(name))
        g.outputs.append(value)

    def _rename(self, value, name):
        rename(self.g, value.name, name)
        self.g.names.discard(value.name)
        self.g.names.add(name)
        value.name = name

    def inner(self, graph, module, given):
        """Return the results of a graph that a node calls, of these values, made in `graph`."""
        return _Inner(self, graph, module, given).run()

    # values, views and writes

    def _show(self, node, of, name, overload, args, kwargs):
        """Note that a node is the view `name` of what the node `of` is."""

        def again(_):
            return self._compute(node, name, overload, args, kwargs)

        def put_back(base, value):
            return self._inverse(name, base, value, self._arguments(args[1:]), kwargs)

        self.memory.show(node, of, again, put_back)

    def _inverse(self, name, base, value, args, kwargs):
        """Return the base after `value` was written to the view of it."""
        g = self.g
        if isinstance(base, _ops.Pair):
            raise UnsupportedOperatorError(f"onnx.export: a write to the result of {name} of complex numbers")
        g.dtype, g.shape, g.results = base.dtype, base.shape, ()
        scatter = {"select": "select_scatter", "slice": "slice_scatter", "diagonal": "diagonal_scatter"}.get(name)
        if scatter:
            return _ops.find(scatter, "")(g, base, value, *args, **kwargs)
        if name == "narrow":
            dim, start, length = args
            return _ops.find("slice_scatter", "")(g, base, value, dim, start, start + length)
        if name in ("transpose", "swapaxes", "t", "mT", "adjoint", "detach", "alias"):
            return _ops.find(name, "")(g, value, *args)
        if name == "permute":
            dims = [d % base.rank for d in args[0]]
            return g.permute(value, [dims.index(d) for d in range(base.rank)])
        if name in ("view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "view_as", "reshape_as", "_unsafe_view"):
            return g.reshape(value, g.shape_of(base))
        raise UnsupportedOperatorError(f"onnx.export: a write to the result of {name} has no translation to ONNX")

    # ops

    def call_function(self, node):
        self.g.at(node.meta.get("stack_trace"))
        if node.target is facula.set_grad_enabled:
            return
        if _is_control(node.target):
            return translate(self, node)
        if node.target is operator.getitem:
            return self._getitem(node)
        if node.target in _SIZES or not _is_op(node.target):
            return self._of_sizes(node)
        name, overload = _split(node.target)
        if name in _IGNORED:
            self.values[node] = None
            return
        result = self._compute(node, name, overload, node.args, node.kwargs)
        if (name.endswith("_") and not name.endswith("__")) or _in_place(name, node):
            self.memory.write(node.args[0], result)
            self._show(node, node.args[0], "alias", "default", node.args[:1], {})
        elif name in _VIEWS and node.args and hasattr(node.args[0], "op"):
            self._show(node, node.args[0], _VIEWS[name], overload, node.args, node.kwargs)
        self.values[node] = result

    def _getitem(self, node):
        of, index = node.args
        self.values[node] = self.memory.read(of)[index]
        if of.op == "call_function" and of in self.memory.shown:
            return
        parts = _PARTS.get(_split(of.target)[0]) if _is_op(of.target) else None
        if parts and hasattr(of.args[0], "op"):
            base = of.args[0]
            self._show(node, base, *parts(self, of, index))

    def _of_sizes(self, node):
        g = self.g
        g.dtype, g.shape, g.results = None, None, ()
        args = self._arguments(node.args)
        onnx = _SIZES.get(node.target)
        word = getattr(node.target, "__name__", str(node.target))
        if not any(isinstance(a, Value) for a in args):
            self.values[node] = node.target(*args)
        elif onnx:
            self.values[node] = getattr(g, onnx)(*(g.sizes([a]) for a in args))
            self.values[node].shape = (1,)
        elif word in ("sym_max", "sym_min", "max", "min"):
            self.values[node] = getattr(g, word[-3:].capitalize())(*(g.sizes([a]) for a in args))
        elif word in ("sym_float", "float"):
            self.values[node] = g.cast(args[0], "float32")
        elif word in ("eq", "ne", "lt", "le", "gt", "ge", "sym_not", "and_", "or_"):
            self.values[node] = None  # a condition that the program checks, not a part of what it computes
        else:
            raise UnsupportedOperatorError(f"onnx.export: no translation to ONNX of {word}")

    def _arguments(self, args):
        if isinstance(args, (list, tuple)):
            return [self._arguments(a) for a in args]
        return self.memory.read(args) if hasattr(args, "op") and hasattr(args, "target") else args

    def _compute(self, node, name, overload, args, kwargs):
        g = self.g
        args = self._arguments(list(args))
        kwargs = {key: self._arguments(value) for key, value in kwargs.items()}
        self._expect(node)
        if (folded := self._folded(node, name, args, kwargs)) is not None:
            return folded
        pairs = [a for a in _ops.complex.leaves([*args, *kwargs.values()]) if isinstance(a, _ops.Pair)]
        find = _ops.complex.find if pairs or str(g.dtype).startswith("complex") else _ops.find
        translation = self._own(node) or find(name, overload)
        if translation is None:
            lines = (node.meta.get("stack_trace") or "").strip().splitlines()
            where = f"\n  {lines[-1]}" if lines else ""
            of = f"{node.target.name()}{' of complex numbers' if pairs else ''}"
            raise UnsupportedOperatorError(f"onnx.export: no translation to ONNX of {of}{where}")
        result = translation(g, *args, **kwargs)
        return self._shaped(node, result)

    def _own(self, node):
        """Return the program's own translation of a node; what is taken from a list has none."""
        if not _is_op(node.target):
            return None
        name = node.target.name().partition(".")[0]
        if node.target in self.custom:
            self.used.add(node.target)
        return self.custom.get(node.target) or _registered.find(name, self.g.opset)

    def _expect(self, node):
        value = known_of(node)
        self.g.dtype = self.g.shape = None
        self.g.results = ()
        if is_tensor(value):
            self.g.dtype, self.g.shape = describe(value, self.names)
        elif isinstance(value, (list, tuple)):
            self.g.results = tuple(describe(v, self.names) if is_tensor(v) else None for v in value)
            first = next((r for r in self.g.results if r), None)
            if first:
                self.g.dtype, self.g.shape = first

    def _shaped(self, node, result):
        """Return the results with the dtype and the sizes that the program says they have."""
        value = known_of(node)
        if isinstance(result, _ops.Pair):
            result.real.shape = result.imag.shape = describe(value, self.names)[1]
            return result
        if is_tensor(value) and isinstance(result, Value):
            return self._known(self.g.cast(result, describe(value, self.names)[0]), value)
        if isinstance(value, (list, tuple)) and isinstance(result, (list, tuple)):
            known = lambda one, val: self._known(one, val) if isinstance(one, Value) and is_tensor(val) else one
            return [known(one, val) for one, val in zip(result, value)]
        return result

    def _known(self, result, value):
        if result.name not in self.g.initializers and result not in self.g.inputs:
            result.shape = describe(value, self.names)[1]
        return result

    def _folded(self, node, name, args, kwargs):
        """Return the result of an op on constants alone, computed by it."""
        if name.rstrip("_") in _DRAWS or name.endswith("_") or not _is_op(node.target) or not is_tensor(known_of(node)):
            return None
        known = True

        def plain(value):
            nonlocal known
            if isinstance(value, _ops.Pair):
                known = False
            if isinstance(value, Value):
                # Parameters are constants here, but `apply_weights` may exchange them later.
                known = known and value.exact is not None and value.name not in self.program.state_dict
                return value.exact
            return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value

        args, kwargs = plain(args), {key: plain(value) for key, value in kwargs.items()}
        if not known:
            return None
        return self._constant(node.name, node.target(*args, **kwargs))

    def _constant(self, name, exact):
        """Return a tensor of the program that does not change."""
        dtype, shape = describe(exact, self.names)
        if dtype.startswith("complex"):
            exact = exact.resolve_conj().detach()
            return _ops.Pair(*(self._constant(f"{name}.{w}", getattr(exact, w).contiguous()) for w in ("real", "imag")))
        if not shape and numpy_dtype(dtype) is not None:
            made = self.g.constant(exact.detach().numpy(), dtype)
            made.exact = exact
            return made
        return self.g.initializer(name, exact, dtype, shape)


def _in_place(name, node):
    """Return the functions with `inplace=True` that are one op."""
    last = node.kwargs.get("inplace", node.args[-1] if node.args else None)
    return name in ("functional_relu6", "functional_threshold") and last is True


class _Inner(Translator):
    """Build the nodes of a graph that a node of the program calls."""

    def __init__(self, outer, graph, module, given):
        super().__init__(outer.program, graph.opset, names=outer.names, custom=outer.custom)
        self.g, self.module, self.given, self.results = graph, module, list(given), None
        self.used = outer.used

    def run(self):
        for node in self.module.graph.nodes:
            getattr(self, node.op)(node)
        return self.results

    def placeholder(self, node):
        self.values[node] = self.given.pop(0)

    def get_attr(self, node):
        self.values[node] = self.module.get_submodule(node.target)

    def output(self, node):
        results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        self.results = [self.memory.read(r) for r in results]


def _split(target):
    """Return `add_`, `Tensor` of torch.ops.aten.add_.Tensor."""
    name, _, overload = target.name().rpartition("::")[2].partition(".")
    return name, overload or "default"


def _is_op(target):
    return hasattr(target, "overloadpacket") and not _is_control(target)


def _is_control(target):
    return getattr(target, "_namespace", "") == "higher_order"


_VIEWS = {name: name for name in (
    """view reshape transpose swapaxes t permute expand unsqueeze squeeze select slice narrow diagonal detach alias view_as
    reshape_as flatten unflatten _unsafe_view mT adjoint expand_as""".split()
)}  # fmt: skip


def _chunk_parts(translator, node, index):
    sizes = [v.shape[_dim(node)] for v in translator.values[node]]
    start = sum(sizes[:index])
    return "slice", "Tensor", (node.args[0], _dim(node), start, start + sizes[index]), {}


def _unbound(translator, node, index):
    return "select", "int", (node.args[0], _unbind_dim(node), index), {}


def _dim(node):
    return node.kwargs.get("dim", node.args[2] if len(node.args) > 2 else 0)


def _unbind_dim(node):
    return node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)


_PARTS = {"split": _chunk_parts, "split_with_sizes": _chunk_parts, "chunk": _chunk_parts, "unbind": _unbound}
