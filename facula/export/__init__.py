"""Export modules as programs: they are recorded once as data, and run without the module's Python.

    program = facula.export.export(model, (x,), dynamic_shapes={"x": {0: facula.export.Dim("batch")}})
    program.module()(x)

`_record.py` says how a program is recorded, `src/program/program.h` what it is.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.export._record import Leaf, SizeDependence, Survey, plain_name, record
from facula.export.decomp_utils import CustomDecompTable
from facula.export.dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, Sizes, dims
from facula.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, default_decompositions
from facula.export.graph_signature import ExportBackwardSignature, ExportGraphSignature
from facula.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten
from facula.fx.passes.infra.pass_base import PassResult
from facula.utils import _pytree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula.nn.modules.module import Module
    from facula.types import FileLike

__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature",
    "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry", "ModuleCallSignature", "PassResult", "ShapesCollection",
    "UnflattenedModule", "default_decompositions", "dims", "draft_export", "export", "load", "register_dataclass", "save",
    "unflatten",
]  # fmt: skip


def register_dataclass(cls: type, *, serialized_type_name: Any = None) -> None:
    """Let a dataclass be an input or an output.

    Args:
        cls: the dataclass.
        serialized_type_name: its name in files.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     x: torch.Tensor
    ...     y: torch.Tensor
    >>> torch.export.register_dataclass(Pair)
    >>> class Net(nn.Module):
    ...     def forward(self, pair):
    ...         return pair.x + pair.y
    >>> program = torch.export.export(Net(), (Pair(torch.ones(2), torch.ones(2)),))
    >>> program.module()(Pair(torch.ones(2), torch.zeros(2)))
    tensor([1., 1.])
    """
    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


def save(ep: ExportedProgram, f: FileLike, *, extra_files: dict[str, Any] | None = None,
         opset_version: dict[str, int] | None = None, pickle_protocol: int = 2) -> None:  # fmt: skip
    """Write an ExportedProgram as PyTorch's archive, ".pt2".

    Args:
        ep: the program.
        f: a path, or a writable binary file.
        extra_files: {name: text} that the archive holds beside the program.
        opset_version: must be None.
        pickle_protocol: of the examples, without meaning: they are written as `facula.save` does.

    Errors: TypeError for anything but an ExportedProgram; AssertionError for extra files that are no text;
    NotImplementedError for opset_version.

    >>> import io
    >>> program, file = torch.export.export(nn.ReLU(), (torch.ones(2),)), io.BytesIO()
    >>> torch.export.save(program, file)
    >>> file.getvalue()[:2]
    b'PK'
    """
    from facula.export import _pt2

    if opset_version:
        raise NotImplementedError("save: opset_version is not written")
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"save: ep must be an ExportedProgram, got {type(ep).__name__}")
    for name, text in (extra_files or {}).items():
        if not isinstance(text, str):
            raise AssertionError(f"save: extra_files must hold text, got {type(text).__name__} for {name!r}")
    _pt2.save(ep, f, {name: text.encode() for name, text in (extra_files or {}).items()})


def load(f: FileLike, *, extra_files: dict[str, Any] | None = None, expected_opset_version: Any = None) -> ExportedProgram:
    """Read an ExportedProgram that PyTorch or Facula has written.

    Args:
        f: a path, or a readable binary file.
        extra_files: a dict; the values of its keys become the texts of the archive's extra files of these names.
        expected_opset_version: must be None.

    Errors: NotImplementedError for expected_opset_version.

    >>> import io
    >>> program, file = torch.export.export(nn.ReLU(), (torch.ones(2),)), io.BytesIO()
    >>> torch.export.save(program, file)
    >>> torch.export.load(io.BytesIO(file.getvalue())).module()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    from facula.export import _pt2_reader

    if expected_opset_version:
        raise NotImplementedError("load: expected_opset_version is not read")
    program = _pt2_reader.load(f)
    for name, data in _pt2_reader.extra_files(f, extra_files or ()).items():
        extra_files[name] = data.decode("utf-8", "replace")
    return program


def export(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, dynamic_shapes: Any = None,
           strict: bool = False, preserve_module_call_signature: Sequence[str] = (),
           prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:  # fmt: skip
    """Return the program that a module runs for these arguments.

    Args:
        mod: a Module.
        args, kwargs: examples of its arguments.
        dynamic_shapes: which sizes may be others: by argument a dict from dimension to `Dim`, or a sequence of them.
        strict: without meaning: the module is always recorded as it runs.
        preserve_module_call_signature: paths of modules; must be empty.
        prefer_deferred_runtime_asserts_over_guards: without meaning: conditions on sizes are always checked at every run.

    Errors: RuntimeError where Python asks for values of tensors, and where a program depends on a size in a way that cannot
    be recorded; both name the line.

    >>> batch = torch.export.Dim("batch")
    >>> program = torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),), dynamic_shapes={"input": {0: batch}})
    >>> program.module()(torch.ones(7, 2)).shape
    torch.Size([7, 3])
    >>> program.range_constraints
    {'batch': VR[0, int_oo]}
    """
    if not isinstance(mod, facula.nn.Module):
        raise ValueError(f"export: mod must be an nn.Module, got {type(mod).__name__}")
    if not isinstance(args, tuple):
        raise TypeError(f"export: args must be a tuple of inputs, got {type(args).__name__}")
    if preserve_module_call_signature:
        raise NotImplementedError("export: signatures of inner modules are not kept")
    return _export(mod, args, kwargs or {}, dynamic_shapes)


def _export(mod, args, kwargs, dynamic_shapes, function=None, tracing=False):
    """Return the program of a call.

    Args:
        mod: whose parameters and buffers the program holds.
        args, kwargs: of the call.
        dynamic_shapes: as `export` takes it; or those of the positional arguments, under "__positional__".
        function: what is called; None for the module.
        tracing: whether conditions on values of tensors become checks of the program, and no errors.
    """
    function = function or mod
    signature = _signature(function, args, kwargs)
    if isinstance(dynamic_shapes, dict) and "__positional__" in dynamic_shapes:
        names = [n for n, v in signature.parameters.items() if v.kind != v.VAR_POSITIONAL]
        dynamic_shapes = dict(zip(names, dynamic_shapes["__positional__"], strict=False))
    static: set[str] = set()
    same: dict[str, str] = {}
    # Every round finds sizes that are constant or equal, so there are no more rounds than sizes.
    while True:
        sizes = Sizes(signature, args, kwargs, dynamic_shapes, frozenset(static), same)
        try:
            return _Export(mod, function, signature, args, kwargs, sizes, tracing).run()
        except _Same as found:
            same = dict.fromkeys(found.others, found.name) | {k: found.others.get(v, v) for k, v in same.items()}
        except SizeDependence as error:  # what is marked automatic becomes a constant
            found = set(error.symbols) & sizes.automatic
            if not found:
                raise
            static |= found


def draft_export(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, dynamic_shapes: Any = None,
                 preserve_module_call_signature: Sequence[str] = (), strict: bool = False,
                 prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:  # fmt: skip
    """Return what export gives: what cannot be recorded is an error here too.

    Args:
        mod: a Module.
        args, kwargs: examples of its arguments.
        dynamic_shapes: which sizes may be others, as for export.
        preserve_module_call_signature: paths of modules; must be empty.
        strict, prefer_deferred_runtime_asserts_over_guards: without meaning.

    >>> torch.export.draft_export(nn.ReLU(), (torch.ones(2),)).module()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return export(
        mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
    )  # fmt: skip


class _Same(Exception):
    """Report symbols that must be equal: `others` are `name`."""

    def __init__(self, name, others):
        super().__init__(name)
        self.name, self.others = name, dict.fromkeys(others, name)


class _Export:
    """Make one export: the recordings and the program that follows from them."""

    def __init__(self, mod, function, signature, args, kwargs, sizes, tracing):
        self.mod, self.function, self.args, self.kwargs, self.sizes = mod, function, args, kwargs, sizes
        self.signature, self.tracing = signature, tracing
        self.flat, self.in_spec = _pytree.tree_flatten((args, kwargs))
        self.names = _leaf_names(signature, args, kwargs)

    def run(self):
        """Return the exported program."""
        symbols = [(name, least, most, sample) for name, (least, most, sample) in self.sizes.symbols.items()]
        if not symbols:
            program, results = self.record(self.flat)
        else:
            survey = self.survey()
            program, results = self.record(self.flat, symbols, survey.sizes_of)
            if [n[0] for n in program.nodes] != [n[0] for n in survey.programs[0].nodes]:
                raise SizeDependence("export: two recordings of the same call differ", list(self.sizes.symbols))
            survey.check(program)
        program.dead()
        out_spec = _pytree.tree_structure(results)
        names = _argument_names(self.signature, self.args, self.kwargs)
        return ExportedProgram(program, self.in_spec, out_spec, (self.args, self.kwargs), names)

    def record(self, flat, symbols=(), sizes_of=None):
        """Return a recording with these inputs."""
        by_leaf = self.sizes.by_leaf if symbols else [None] * len(flat)
        leaves = [Leaf(v, name, path, s) for v, (name, path), s in zip(flat, self.names, by_leaf)]
        args, kwargs = _pytree.tree_unflatten(flat, self.in_spec)
        call = functools.partial(self.function, *args, **kwargs)
        return record(self.mod, call, leaves, symbols, sizes_of, self.tracing)

    def survey(self):
        """Return recordings with other sizes."""
        base = {name: sample for name, (_, _, sample) in self.sizes.symbols.items()}
        first, _ = self.record(self.flat)
        points, programs = [base], [first]
        chosen = {}
        for name in base:
            try:
                point, program = self.other(base, [name], name)
            except SizeDependence:
                self.merged(base, name)
                raise
            points.append(point)
            programs.append(program)
            chosen[name] = point[name]
        point, program = self.other(base, list(base), ", ".join(base), start=chosen)
        points.append(point)
        programs.append(program)
        return Survey(points, programs)

    def merged(self, base, name):
        """Raise `_Same` if a size that may not be another one alone may be so together with equal ones."""
        hinted = self.sizes.hinted
        group = [n for n in base if n in hinted and n != name and base[n] == base[name]] if name in hinted else []
        choices = [group, *([m for m in group if m != n] for n in group)]  # one of them may have to stay
        group = next((c for c in choices if c and self.runs(base, [name, *c])), [])
        if not group:
            return
        for n in [*group]:
            rest = [m for m in group if m != n]
            group = rest if rest and self.runs(base, [name, *rest]) else group
        raise _Same(name, group)

    def runs(self, base, changed):
        """Return whether the call runs with another size, the same for these symbols."""
        try:
            self.other(base, changed, "")
        except SizeDependence:
            return False
        return True

    def other(self, base, changed, shown, start=None):
        """Return a recording where some symbols have other values, of those that the program runs with."""
        last = None
        for factor, offset in ((1, 1), (2, 0), (2, 1), (3, 0), (1, 2), (4, 0), (1, -1)):
            point = dict(base)
            for name in changed:
                point[name] = (start or base)[name] * factor + offset
            new = all(point[name] not in (base[name], (start or base)[name]) for name in changed)
            if not new or not all(self._allows(name, point[name]) for name in changed):
                continue
            try:
                inputs = [self._resized(v, s, point) for v, s in zip(self.flat, self.sizes.by_leaf)]
                return point, self.record(inputs)[0]
            except Exception as error:  # another size may do
                last = last or error
        sizes = ", ".join(f"{n} = {base[n]}" for n in changed)
        raise SizeDependence(
            f"export: the program runs with {sizes} only, where {shown} may be another size: "
            f"{last or 'its range has no other number near'}", changed,
        ) from last  # fmt: skip

    def _allows(self, name, n):
        least, most, sample = self.sizes.symbols[name]
        if n == 1 and sample > 1 and (most is None or most > 2):  # what has one element becomes as long as others
            return False
        return max(least, 1) <= n <= (n if most is None else most)

    @staticmethod
    def _resized(value, sizes, point):
        """Return an example of other sizes, whose elements are those of the given one."""
        if sizes is None:
            return value
        made = value.detach()
        for d, size in enumerate(sizes):
            n = _C._evaluate(str(size), point)
            if n != made.shape[d]:
                made = made.index_select(d, facula.arange(n, device=made.device) % max(made.shape[d], 1))
        return made.requires_grad_(value.requires_grad) if value.requires_grad else made.clone()


def _signature(function, args, kwargs):
    """Return the signature of the function, or of a module's forward; of what has none (builtins) one with as many arguments as
    are given."""
    try:
        found = inspect.signature(function.forward if isinstance(function, facula.nn.Module) else function)
        found.bind(*args, **kwargs)
        return found
    except (TypeError, ValueError):
        if isinstance(function, facula.nn.Module):
            raise
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(n, kind) for n in (*(f"args_{i}" for i in range(len(args))), *kwargs)])


def _argument_names(signature, args, kwargs):
    """Return what the function calls the arguments that were given."""
    names = []
    for parameter in signature.parameters.values():
        if parameter.kind == parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(len(args) - len(names))]
        elif len(names) < len(args):
            names.append(parameter.name)
    return [*names, *kwargs]


def _leaf_names(signature, args, kwargs):
    """Return for every leaf its name in the graph, and its path: "x", "pair_0" and "pair[0]"."""
    positional, names = list(signature.parameters), []
    for key_path, _ in _pytree.tree_flatten_with_path((args, kwargs))[0]:
        which, entry, *rest = key_path
        if which.idx == 0:
            path = positional[entry.idx] if entry.idx < len(positional) else f"args_{entry.idx}"
        else:
            path = entry.key
        path += "".join(str(part) for part in rest)
        name = plain_name(path.replace("['", "_").replace("']", "").replace("[", "_").replace("]", "").replace(".", "_"))
        names.append((name, path))
    return names
