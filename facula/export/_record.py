"""Record a call of a module or a function as a program (src/program/record.h)."""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path

import facula
from facula import _C
from facula.export._handlers import HANDLERS
from facula.export._symint import SymInt, watching

_PACKAGE = str(Path(facula.__file__).resolve().parent) + "/"


def named_state(module):
    """Yield (kind, path, tensor, persistent) of what a module holds: parameters, then buffers."""
    if not isinstance(module, facula.nn.Module):
        return
    for path, parameter in module.named_parameters(remove_duplicate=False):
        yield "parameter", path, parameter, True
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, buffer in part._buffers.items():
            if buffer is not None:
                yield "buffer", f"{prefix}.{name}" if prefix else name, buffer, name not in part._non_persistent_buffers_set


def _tensor_attributes(module):
    """Return the paths of tensors that modules hold as plain attributes, by identity."""
    found = {}
    if isinstance(module, facula.nn.Module):
        for prefix, part in module.named_modules():
            for name, value in vars(part).items():
                if isinstance(value, facula.Tensor):
                    found[id(value)] = f"{prefix}.{name}" if prefix else name
    return found


@contextlib.contextmanager
def _undone(module):
    """Put back what running the module changes: buffers, gradients of none, and random numbers."""
    state = [(tensor, tensor.detach().clone()) for kind, _, tensor, _ in named_state(module) if kind == "buffer"]
    numbers = facula.random._states_of_all()
    try:
        yield
    finally:
        facula.random._put_back(numbers)
        with facula.no_grad():
            for tensor, before in state:
                tensor.copy_(before)


@contextlib.contextmanager
def _modules_named(module):
    """Say at every call of a module which one runs."""
    if not isinstance(module, facula.nn.Module):
        yield
        return
    paths = {id(part): path for path, part in module.named_modules()}
    kind, original = facula.nn.Module, facula.nn.Module.__call__

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        path = paths.get(id(self))
        if path is None or not _C._recording():
            return original(self, *args, **kwargs)
        before = _C._record_module(path)
        try:
            return original(self, *args, **kwargs)
        finally:
            _C._record_module(before)

    # In the class, because Python looks up __call__ there and not in the instance.
    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = original


def _checked(tensor, what):
    """Check that Python gets the values of a tensor, and let every run check that they are the same."""
    # A clone, because the program may write to the tensor afterwards and the check is about the present values.
    values = _C._record_unseen(lambda: tensor.detach().clone(), ())
    where = _C._record_source()
    if tensor.numel() == 1:
        value = _C._record_unseen(values.item, ())
        same, shown = (tensor == value).reshape(()), f"was {value}"
    else:
        same, shown = (tensor == values).all(), "had other values"
    message = f"jit.trace: {what} at {where} {shown} when the program was recorded: another input needs another program"
    _C._record_op("_assert_async.msg", (same, message), lambda: True, ())


def _refused(name, tracing):
    def refuse(self, *args, **kwargs):
        if _C._recording() and _C._record_value(self) >= 0:
            if tracing:
                _checked(self, f"{name}()")
                return _C._record_unseen(lambda: refuse.original(self, *args, **kwargs), ())
            raise RuntimeError(
                f"export: {name}() at {_C._record_source()} gives Python the values of a tensor, so that the program would be "
                "another one for other values: keep them a tensor"
            )
        return refuse.original(self, *args, **kwargs)

    return refuse


@contextlib.contextmanager
def _values_refused(tracing):
    """Refuse tolist() and numpy() of tensors that the program makes; check where a call is traced."""
    methods = {name: getattr(facula.Tensor, name) for name in ("tolist", "numpy")}
    for name, original in methods.items():
        refuse = _refused(name, tracing)
        refuse.original = original
        setattr(facula.Tensor, name, refuse)
    try:
        yield
    finally:
        for name, original in methods.items():
            setattr(facula.Tensor, name, original)


@contextlib.contextmanager
def _said_to_programs(tracing):
    """Make `compiler.is_exporting()` hold within it, but for traces, which `jit.is_tracing()` tells of."""
    compiler = facula.compiler
    before, compiler._exporting = compiler._exporting, not tracing
    try:
        yield
    finally:
        compiler._exporting = before


class Leaf:
    """Describe a leaf of a call's arguments: its value, its name, and its sizes (integers, or texts of expressions)."""

    def __init__(self, value, name, path, sizes=None):
        self.value, self.name, self.path, self.sizes = value, name, path, sizes


def plain_name(path):
    """Return a path as a name of a graph: "layer.0.weight" is layer_0_weight."""
    return re.sub(r"\W", "_", path)


_PREFIX = {"parameter": "p_", "buffer": "b_"}


def record(module, call, leaves, symbols=(), sizes=None, tracing=False):
    """Return the program of one call, and what the call returned.

    Args:
        module: whose parameters and buffers become inputs; or any callable.
        call: what to run.
        leaves: a `Leaf` for every leaf of its arguments.
        symbols: (name, least, most, sample) of every size that varies.
        sizes: gives a tensor's sizes with expressions, or None.
        tracing: whether the program checks values that Python asks for; else asking is an error.
    """
    handlers = dict(HANDLERS)
    if sizes is not None:
        handlers["sizes"] = sizes
    if tracing:
        handlers["value"] = _checked
    attributes = _tensor_attributes(module)
    with _undone(module):
        return _record(module, call, leaves, symbols, handlers, attributes, tracing)


def _record(module, call, leaves, symbols, handlers, attributes, tracing):
    _C._record_begin(handlers, lambda tensor: attributes.get(id(tensor)), _PACKAGE)
    program = None
    try:
        for symbol in symbols:
            _C._record_symbol(*symbol)
        for kind, path, tensor, persistent in named_state(module):
            _C._record_input(tensor, kind, _PREFIX[kind] + plain_name(path), path, persistent, None)
        for leaf in leaves:
            if not _C._record_input(leaf.value, "user", leaf.name, leaf.path, True, leaf.sizes):
                raise ValueError(f"export: the input '{leaf.path}' is given twice, or is a parameter: give a clone")
        with _modules_named(module), _values_refused(tracing), _said_to_programs(tracing), watching(_C._record_guard):
            results = call()
        _C._record_outputs(facula.utils._pytree.tree_leaves(results))
    finally:
        program = _C._record_end()
    return program, results


class SizeDependence(RuntimeError):
    """Report a program that depends on a size in a way that cannot be recorded; `symbols` are the sizes that it could be."""

    def __init__(self, text, symbols):
        super().__init__(text)
        self.symbols = symbols


class Survey:
    """Find how sizes depend on symbols, by comparing several recordings with different sizes.

    Args:
        points: the values of the symbols in every recording; the first is that of the examples, the one after the next
            differs from it in the first symbol alone, and so on; the last differs in all.
        programs: the recordings.
    """

    def __init__(self, points, programs):
        self.points, self.programs = points, programs
        self.names = list(points[0])
        self._check_nodes()
        self.sizes = [self._fit_value(*values) for values in zip(*(p.values for p in programs))]

    def _check_nodes(self):
        first = self.programs[0].nodes
        for point, program in zip(self.points[1:], self.programs[1:]):
            others = program.nodes
            changed = [n for n in self.names if point[n] != self.points[0][n]]
            for a, b in zip(first, others):
                if a[0] != b[0]:
                    raise SizeDependence(self._text(changed, point, f"{a[5]} runs {a[0]} and then {b[5]} {b[0]}"), changed)
                mine, theirs = (sum(map(len, node[3])) for node in (a, b))
                if mine != theirs:  # parts of a dimension that varies
                    what = f"{a[0]} at {a[5]} gives {mine} tensors and then {theirs}"
                    raise SizeDependence(self._text(changed, point, what), changed)
            if len(first) != len(others):
                longer = first if len(first) > len(others) else others
                where = longer[min(len(first), len(others))][5]
                raise SizeDependence(self._text(changed, point, f"{len(first)} ops become {len(others)} at {where}"), changed)

    def _text(self, changed, point, what):
        sizes = ", ".join(f"{n} = {self.points[0][n]} or {point[n]}" for n in changed)
        return (
            f"export: the program is another one for other sizes ({sizes}): {what}; mark the dimension static, or "
            "choose by facula.cond()"
        )

    def _fit_value(self, *values):
        metas = [meta for _, _, meta in values]
        if any(m is None for m in metas) or len({len(m[1]) for m in metas}) != 1:
            return None
        return [self.fit([m[1][d] for m in metas]) for d in range(len(metas[0][1]))]

    def fit(self, values):
        """Return an integer, the text of an expression, or None, for a number that is these values at the points."""
        if len(set(values)) == 1:
            return values[0]
        base, last = self.points[0], self.points[-1]
        depends = [n for k, n in enumerate(self.names) if values[k + 1] != values[0]]
        # Two forms are tried: linear in each symbol, and a product of the symbols such as that of a flattened shape.
        candidates = [" + ".join(self._slopes(depends, values))]
        product = 1
        for n in depends:
            product *= base[n]
        if depends and values[0] % product == 0:
            candidates.append("*".join([str(values[0] // product), *depends]))
        for text in candidates:
            if text and all(_C._evaluate(text, p) == v for p, v in zip([*self.points[:-1], last], values)):
                return _C._simplify(text)
        return None

    def _slopes(self, depends, values):
        terms, constant = [], values[0]
        for n in depends:
            k = self.names.index(n) + 1
            # The k-th recording differs from the first one in this symbol only.
            slope, rest = divmod(values[k] - values[0], self.points[k][n] - self.points[0][n])
            if rest:
                return []
            terms.append(f"{slope}*{n}" if slope >= 0 else f"({slope})*{n}")
            constant -= slope * self.points[0][n]
        return [*terms, f"({constant})"]

    def sizes_of(self, tensor):
        """Return a Size whose numbers carry the expressions; None for a tensor that is not known."""
        number = _C._record_value(tensor)
        fitted = self.sizes[number] if 0 <= number < len(self.sizes) else None
        if fitted is None or all(isinstance(f, int) for f in fitted):
            return None
        actual = _C._record_unseen(lambda: tuple(tensor.shape), ())
        return facula.Size([SymInt(n, f) if isinstance(f, str) else n for n, f in zip(actual, fitted)])

    def check(self, program):
        """Check that every number of the final recording is, at every point, what was recorded there."""
        recorded = [p.nodes for p in self.programs]
        for i, node in enumerate(program.nodes):
            for point, others in zip(self.points, recorded):
                for mine, other in zip(node[2], others[i][2]):
                    if not _same_argument(mine, other, point):
                        self._report(node, mine, other, point)
            self._size_graphs(program, i, node, [others[i] for others in recorded])
        constants = [[i for i in p.inputs if i[0] == "constant"] for p in self.programs]
        for mine, *others in zip(*constants):
            if any(not _same_tensor(mine[4], other[4]) for other in others):
                raise SizeDependence(
                    f"export: a constant tensor ({mine[2]}) has other values for other sizes: make it with ops of sizes that "
                    "come from the inputs (facula.full, facula.arange)", self.names,
                )  # fmt: skip
        for number, (sizes, (_, _, meta)) in enumerate(zip(self.sizes, program.values)):
            if sizes is not None and any(isinstance(s, str) for s in sizes):
                actual = meta[1]
                program.set_sizes(number, [n if f is None else f for n, f in zip(actual, sizes)])

    def _size_graphs(self, program, i, node, recorded):
        """Say in the programs that a node calls which sizes vary, as in the one around it."""
        for k, (_, graph) in enumerate(node[2]):
            if isinstance(graph, _C._Program):
                self._size_values(graph, [other[2][k][1] for other in recorded])
                program.set_graph(i, k, graph)

    def _size_values(self, program, recorded):
        for number, (value, *others) in enumerate(zip(program.values, *(other.values for other in recorded))):
            metas = [meta for _, _, meta in others]
            if value[2] is None or all(m[1] == metas[0][1] for m in metas):
                continue
            fitted = [self.fit([m[1][d] for m in metas]) for d in range(len(value[2][1]))]
            program.set_sizes(number, [n if f is None else f for n, f in zip(value[2][1], fitted)])
        for i, (node, *others) in enumerate(zip(program.nodes, *(other.nodes for other in recorded))):
            self._size_graphs(program, i, node, others)

    def _report(self, node, mine, other, point):
        changed = [n for n in self.names if point[n] != self.points[0][n]]
        sizes = ", ".join(f"{n} = {point[n]}" for n in changed)
        if isinstance(mine[1], _C._Program):
            raise SizeDependence(
                f"export: a function of {node[0]} at {node[5]} depends on sizes that vary ({sizes}); mark the dimension static",
                changed,
            )
        raise SizeDependence(
            f"export: an argument of {node[0]} at {node[5]} is {mine[1]} for these sizes and {other[1]} where {sizes}, "
            "computed in a way that loses where it comes from: use + - * // on sizes, and no lists of that length", changed,
        )  # fmt: skip


def _same_tensor(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and bool(facula.equal(a, b))


def _same_but_sizes(mine, other, point):
    """Return whether two programs of a function differ in nothing but the sizes of their values."""
    if len(mine.nodes) != len(other.nodes) or mine.outputs != other.outputs:
        return False
    ranks = lambda p: [None if v[2] is None else (v[2][0], len(v[2][1])) for v in p.values]
    if ranks(mine) != ranks(other):
        return False
    for a, b in zip(mine.nodes, other.nodes):
        if a[:2] != b[:2] or not all(_same_argument(x, y, point) for x, y in zip(a[2], b[2])):
            return False
    return True


def _same_argument(mine, other, point):
    kind, value = mine
    if kind == "expr":
        if other[0] not in ("constant", "expr"):
            return False
        if isinstance(value, list):
            return [v if isinstance(v, int) else _C._evaluate(v, point) for v in value] == other[1]
        return _C._evaluate(value, point) == other[1]
    if kind == "list":
        return len(value) == len(other[1]) and all(_same_argument(a, b, point) for a, b in zip(value, other[1]))
    if kind == "value":
        return mine == other
    if isinstance(value, _C._Program) and isinstance(other[1], _C._Program):
        return _same_but_sizes(value, other[1], point)
    return type(value) is type(other[1]) and (value == other[1] or value != value)
