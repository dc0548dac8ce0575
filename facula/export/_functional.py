"""Rewrite programs by running them once more: without writes, and with ops decomposed into others.

Every node runs on tensors of the sizes that the program was recorded with, while a new program is recorded. Instead of a node
that writes, its form that does not runs; what the written tensor was a view of gets the new values by the scatter of that
view, and other views are made anew when they are next used. What inputs and buffers are in the end is written to them by nodes
at the end, which files have as mutations. `_decompositions.py` has rules, which give the ops that a node is made of.
"""

from __future__ import annotations

import math

import facula
from facula import _C
from facula.export._handlers import HANDLERS
from facula.export._memory import Memory
from facula.export._record import _PACKAGE, SizeDependence, Survey
from facula.export._symint import SymInt, watching
from facula.utils import _pytree


def op(key, *arguments):
    """Run an op of the table, and record it."""
    info = _C._boxed_op(key)
    missing = [a[5] for a in info["arguments"][len(arguments) :]]
    values = (*arguments, *missing)

    def run():
        results = _C._boxed_call(key, _plain(values))
        return results[0] if len(results) == 1 else results

    return _C._record_op(key, values, run, ())


def _plain(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(_plain, value))
    return int(value) if isinstance(value, SymInt) else value


def rewritten(exported, rules):
    """Return the program without writes, with ops opened up.

    Args:
        exported: an ExportedProgram.
        rules: a dict from names of ops ("linear.default", PyTorch's) to functions that take the op's arguments.
    """
    symbols = exported.program.symbols
    base = {name: sample for name, _, _, sample in symbols}
    if not symbols:
        return _Rewriter(exported, rules, base).run().roles_of(exported.program)
    survey = surveyed(exported, lambda point: _Rewriter(exported, rules, point, survey=True).run())
    made = _Rewriter(exported, rules, base, survey.sizes_of).run()
    survey.check(made)
    return made.roles_of(exported.program)


def surveyed(exported, run):
    """Return a `Survey` of recordings with other sizes.

    Args:
        exported: an ExportedProgram with sizes that vary.
        run: makes a recording with sizes (a dict by symbol).
    """
    base = {name: sample for name, _, _, sample in exported.program.symbols}
    points, programs = [base], [run(base)]
    for changed in [*([name] for name in base), list(base)]:
        point, program = _elsewhere(exported, run, base, changed)
        points.append(point)
        programs.append(program)
    return Survey(points, programs)


def _elsewhere(exported, run, base, changed):
    """Return a recording where some sizes are others, of those that the program runs with."""
    last = None
    limits = {name: (max(least, 1), most) for name, least, most, _ in exported.program.symbols}
    # Near sizes first: a program may accept only multiples, or only sizes above a bound.
    for factor, offset in ((1, 1), (2, 0), (2, 1), (3, 0), (1, 2), (4, 0), (1, -1)):
        point = {n: v * factor + offset if n in changed else v for n, v in base.items()}
        inside = all(low <= point[n] <= (point[n] if high is None else high) for n, (low, high) in limits.items())
        if not inside or any(point[n] == base[n] for n in changed):
            continue
        try:
            return point, run(point)
        except Exception as error:  # another size may do
            last = last or error
    raise SizeDependence(f"run_decompositions: the program runs with {base} only: {last}", changed) from last


def examples_at(exported, samples):
    """Return for every input an example of these sizes, whose elements are those of the given ones; None for what is held.

    Args:
        exported: an ExportedProgram.
        samples: the numbers that symbols are.
    """
    program = exported.program

    def numbers(sizes):
        return [s if isinstance(s, int) else _C._evaluate(s, samples) for s in sizes]

    def sized(example, meta):
        for d, n in enumerate(numbers(meta[1]) if meta is not None else ()):
            if n != example.shape[d]:
                example = example.index_select(d, facula.arange(n) % max(example.shape[d], 1))
        return example

    flat = iter(_pytree.tree_leaves(exported.example_inputs)) if exported.example_inputs else None
    examples, values = [], program.values
    for kind, value, _, _, _, constant in program.inputs:
        _, value_kind, meta = values[value]
        example = None
        if kind == "user" and flat is not None:
            example = sized(next(flat), meta)
        elif kind == "user":
            example = facula.zeros(numbers(meta[1]), dtype=meta[0]) if value_kind == "Tensor" else constant
        examples.append(example)
    return examples


class _Rewriter:
    """Record a program once more while it is rewritten.

    Args:
        exported, rules: as `rewritten` takes them.
        samples: the numbers that symbols are.
        sizes: gives a tensor's sizes with expressions, or None.
        survey: whether sizes are numbers only, to be compared with other recordings.
    """

    def __init__(self, exported, rules, samples, sizes=None, survey=False):
        self.exported, self.program, self.rules = exported, exported.program, rules
        self.samples, self.survey = samples, survey
        self.handlers = dict(HANDLERS) if sizes is None else {**HANDLERS, "sizes": sizes}
        self.values = self.program.values
        self.memory = Memory()  # tensors and numbers by the numbers of values
        self.first = {}  # what inputs were at the beginning

    def run(self):
        """Return the new program."""
        examples = examples_at(self.exported, self.samples)
        held = {id(i[4]): i[2] for i in self.program.inputs if i[0] != "user"}
        with facula.enable_grad():
            _C._record_begin(self.handlers, lambda tensor: held.get(id(tensor)), _PACKAGE)
            try:
                with watching(lambda text: None if self.survey else _C._record_guard(text)):
                    self._record(examples)
            finally:
                made = _C._record_end()
        return made

    def _record(self, examples):
        for symbol in () if self.survey else self.program.symbols:
            _C._record_symbol(*symbol)
        for number, (kind, value, path, persistent, tensor, constant) in enumerate(self.program.inputs):
            self._input(kind, value, path, persistent, examples[number] if kind == "user" else tensor, constant)
        for condition, _ in () if self.survey else self.program.guards:
            _C._record_guard(condition)
        for *node, module, _, no_grad in self.program.nodes:
            _C._record_module(module)
            with facula.set_grad_enabled(not no_grad):
                self._node(*node)
        _C._record_module("")
        outputs = [self._argument(a) for a in self.program.outputs]
        self._write_back()
        _C._record_outputs(outputs)

    # ---- inputs

    def _input(self, kind, value, path, persistent, given, constant):
        name, value_kind, meta = self.values[value]
        if value_kind != "Tensor":
            _C._record_input(constant, kind, name, path, True, None)
            self.memory.values[value] = constant
            return
        if kind == "user" and isinstance(given, facula.Tensor):
            given = _C._record_unseen(lambda: given.detach().clone(), ())  # which may be given twice
        _C._record_input(given, kind, name, path, persistent, meta[1] if kind == "user" and not self.survey else None)
        self.memory.values[value] = self.first[value] = given

    # ---- nodes

    def _argument(self, argument):
        kind, value = argument
        if kind == "value":
            return self.memory.read(value)
        if kind == "list":
            return [self._argument(item) for item in value]
        if kind == "expr":
            return [self._symbolic(v) for v in value] if isinstance(value, list) else self._symbolic(value)
        return value

    def _symbolic(self, size):
        if isinstance(size, int):
            return size
        number = _C._evaluate(size, self.samples)
        return number if self.survey else SymInt(number, size)

    def _node(self, key, aten, arguments, results):
        if key == "slice.default":  # the kernel's, with bounds inside of the dimension
            key = aten = "slice.Tensor"
        info = _C._boxed_op(key)
        if info["results"] == ["int"] or key.startswith(("int_", "bool_")):
            self.memory.values[results[0][0]] = self._number(key, arguments)
            return
        written = [(a, given) for a, given in zip(info["arguments"], arguments) if a[4] and given[0] == "value"]
        if info["form"] == "out":
            raise NotImplementedError(f"run_decompositions: {key} writes to out=")
        given = [self._argument(a) for a in arguments]
        names = [a[0] for a in info["arguments"]]
        if "inplace" in names:  # which says whether it writes to the first argument
            at = names.index("inplace")
            made = self._call(key, aten, [*given[:at], False, *given[at + 1 :]])
            if given[at]:
                self._put(made, arguments[0][1], results[0][0])
            else:
                self._keep(key, arguments, given, results, made)
            return
        if info["form"] == "inplace" or key in _WRITES:
            self._write(key, aten, info, arguments[0][1], given, results[0][0])
            return
        if key == "_channel_norm.default":
            self._keep(key, arguments, given, results, self._channel_norm(arguments, given))
            return
        if written and not (aten.startswith("batch_norm.") or aten.startswith("instance_norm.")):
            raise NotImplementedError(f"run_decompositions: {key} writes to {written[0][0][0]}")
        if written and given[5]:  # training, or instance_norm
            made = self._norm_in_training(aten, arguments, given)
        else:
            made = self._call(key, aten, given)
        self._keep(key, arguments, given, results, made)

    def _number(self, key, arguments):
        given = [self._argument(a) for a in arguments]
        name = key.split(".")[0]
        if name == "sym_size":
            _, _, meta = self.values[arguments[0][1]]
            return self._symbolic(meta[1][given[1]])
        if name == "sym_numel":
            return math.prod(map(self._symbolic, self.values[arguments[0][1]][2][1]))
        from facula.export._graph import _OF_INTEGERS

        if name not in _OF_INTEGERS:
            raise NotImplementedError(f"run_decompositions: {key}")
        return _OF_INTEGERS[name](*given)

    def _call(self, key, aten, given):
        rule = self.rules.get(aten or f"facula.{key}")
        if key == "conj.default" and not given[0].dtype.is_complex:
            return given[0]
        if rule is not None:
            made = rule(*given)
            if made is not NotImplemented:
                return made
        return op(key, *given)

    def _keep(self, key, arguments, given, results, made):
        flat = [v for one in results for v in one]
        made = list(made) if isinstance(made, (tuple, list)) else [made]
        made = [t for one in made for t in (one if isinstance(one, (tuple, list)) else [one])]
        source = next(((a[1], g) for a, g in zip(arguments, given) if a[0] == "value" and isinstance(g, facula.Tensor)), None)
        for i, (value, tensor) in enumerate(zip(flat, made, strict=False)):
            self.memory.values[value] = tensor
            if source is not None and isinstance(tensor, facula.Tensor) and _share(source[1], tensor):
                self._view(value, source[0], key, arguments, given, i)

    # ---- views and writes

    def _view(self, value, parent, key, arguments, given, i):
        rest = given[1:]

        def again(tensor):
            made = _pytree.tree_leaves(op(key, tensor, *rest))
            return made[i]

        self.memory.show(value, parent, again, lambda whole, part: _put_back(key, whole, part, rest, i))

    def _write(self, key, aten, info, target, given, result):
        old = given[0]
        if key in _WRITES:
            new = _WRITES[key](*given)
        else:
            functional = f"{info['name'].removesuffix('_')}.{info['overload'] or 'default'}"
            try:
                _C._boxed_op(functional)
            except AttributeError:
                raise NotImplementedError(f"run_decompositions: {key} has no form that writes nothing") from None
            name = aten.split(".")[0].removesuffix("_") + "." + aten.split(".")[1] if aten else ""
            new = self._call(functional, name, given)
        # A write converts to the dtype of its target, and the form without a write does not.
        if new.dtype != old.dtype:
            new = op("_to_copy.default", new, old.dtype)
        if new.shape != old.shape:
            new = op("expand.default", new, list(old.shape))
        self._put(new, target, result)

    def _put(self, new, target, result):
        self.memory.write(target, new)
        self.memory.show_same(result, target)

    def _norm_in_training(self, aten, arguments, given):
        x, weight, bias, mean, var, _, momentum, eps = given[:8]
        key = "_native_batch_norm_legit_functional.default"
        if aten.startswith("batch_norm."):
            made, _, _, new_mean, new_var = op(key, x, weight, bias, mean, var, True, momentum, eps)
        else:  # channels of every image are channels of their own, and share their statistics afterwards
            n, channels, *sizes = x.shape
            each = [t if t is None else op("repeat.default", t, [n]) for t in (weight, bias, mean, var)]
            flat = op("view.default", x, [1, n * channels, *sizes])
            made, _, _, *new = op(key, flat, *each, True, momentum, eps)
            made = op("view.default", made, [n, channels, *sizes])
            new_mean, new_var = (op("mean.dim", op("view.default", t, [n, channels]), [0], False) for t in new)
        self.memory.write(arguments[3][1], new_mean)
        self.memory.write(arguments[4][1], new_var)
        return made

    def _channel_norm(self, arguments, given):
        """Return a batch norm with what its derivative needs: (result, mean, 1 / deviation)."""
        x, weight, bias, mean, var, training, momentum, eps = given
        if training and mean is not None:
            key = "_native_batch_norm_legit_functional.default"
            *made, new_mean, new_var = op(key, x, weight, bias, mean, var, True, momentum, eps)
            self.memory.write(arguments[3][1], new_mean)
            self.memory.write(arguments[4][1], new_var)
            return made
        if training:
            return op("_native_batch_norm_legit.no_stats", x, weight, bias, True, momentum, eps)
        result = op("_native_batch_norm_legit_no_training.default", x, weight, bias, mean, var, momentum, eps)[0]
        return result, mean, op("rsqrt.default", op("add.default", var, eps))

    def _write_back(self):
        for _, value, *_ in self.program.inputs:
            if self.memory.versions.get(value):
                self._copy_to(value)

    def _copy_to(self, value):
        new, original = self.memory.read(value), self.first[value]
        # The only write that is left: inputs that the program changes get their new values at its end.
        _C._record_op("copy_.default", (original, new, False), lambda: original, ())


def _share(a, b):
    return b.numel() > 0 and a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _copied(target, source, *_):
    made = source if source.dtype == target.dtype else op("_to_copy.default", source, target.dtype)
    made = op("expand.default", made, list(target.shape)) if made.shape != target.shape else made
    return op("clone.default", made)


def _filled(target, value):
    if isinstance(value, facula.Tensor):
        return _copied(target, value)
    return op("full_like.default", target, value)


_WRITES = {
    "copy_.default": _copied, "fill_.Scalar": _filled, "fill_.default": _filled, "fill_.Tensor": _filled,
    "zero_.default": lambda x: _filled(x, 0),
    "bernoulli_.float": lambda x, p, generator=None: op("bernoulli.p", x, p),
    "embedding_renorm_.default": lambda *given: op("embedding_renorm.default", *given),
}  # fmt: skip


def _put_back(key, whole, part, rest, i):
    """Return `whole` with the new values of a view of it."""
    name = key.split(".")[0]
    if name == "slice":
        return op("slice_scatter.default", whole, part, *rest)
    if name == "select":
        return op("select_scatter.default", whole, part, *rest)
    if name == "diagonal":
        return op("diagonal_scatter.default", whole, part, *rest)
    if name == "narrow":
        dim, start, length = rest
        return op("slice_scatter.default", whole, part, dim, start, start + length, 1)
    if name in ("split", "chunk", "split_with_sizes", "tensor_split"):
        dim = rest[-1] if len(rest) > 1 else 0
        pieces = _C._boxed_call(key, (whole, *_plain(rest)))[0]
        start = sum(piece.shape[dim] for piece in pieces[:i])
        return op("slice_scatter.default", whole, part, dim, start, start + pieces[i].shape[dim], 1)
    if name == "unbind":
        return op("select_scatter.default", whole, part, rest[0] if rest else 0, i)
    if name in ("permute", "transpose", "t", "swapaxes", "swapdims", "movedim"):
        return op("permute.default", part, _inverse(whole, key, rest))
    if part.numel() == whole.numel():  # the same elements under another shape
        return op("view.default", part if part.is_contiguous() else op("clone.default", part), list(whole.shape))
    raise NotImplementedError(f"run_decompositions: a write to what {key} shows")


def _inverse(whole, key, rest):
    """Return the permutation that undoes an op which permutes dimensions."""
    # A tensor whose sizes all differ shows where each dimension goes; sizes from 2 on, because some ops treat 1
    # specially.
    names = facula.empty([2 + d for d in range(whole.dim())], device="meta")
    shown = [n - 2 for n in _C._boxed_call(key, (names, *_plain(rest)))[0].shape]
    return [shown.index(d) for d in range(whole.dim())]
