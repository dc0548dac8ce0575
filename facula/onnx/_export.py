"""Implement torch.onnx.export: export the model (`facula.export`), translate its ops, and write the graph."""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from facula import nn

from . import _ops
from ._constants import OperatorExportTypes, TrainingMode
from ._graph import Value
from ._program import ONNXProgram, real_parts
from ._translate import Translator, known_of
from .errors import OnnxExporterError, OnnxExporterWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO, Any


# ---- Modules that know how they are exported


class ExportableModule(nn.Module, abc.ABC):
    """Define example arguments of a module, and the names and sizes in its file.

    Subclasses define `forward` and `example_arguments`, and where they want to `input_names`, `output_names` and
    `dynamic_shapes`. Their constructors take what they want (`args`, `kwargs`).

    >>> class Twice(torch.onnx.ExportableModule):
    ...     def forward(self, x):
    ...         return x * 2
    ...     def example_arguments(self):
    ...         return (torch.ones(2, 3),), None
    ...     def dynamic_shapes(self):
    ...         return ({0: "batch"},)
    >>> program = Twice().to_onnx()
    >>> program.input_names, program
    (['x'], ONNXProgram(opset 20, 1 nodes, inputs: Value(x: float32['batch', 3])))
    >>> Twice().example_arguments()[1], Twice().output_names(), Twice().dynamic_shapes()
    (None, None, ({0: 'batch'},))
    """

    @abc.abstractmethod
    def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        """Return examples of the arguments of forward: a tuple of those by place, and a dict of those by name or None."""

    def input_names(self) -> Sequence[str] | None:
        """Return the names of inputs in the file; None: as in the program."""
        return None

    def output_names(self) -> Sequence[str] | None:
        """Return the names of outputs in the file; None: as in the program."""
        return None

    def dynamic_shapes(self) -> Any:
        """Return which sizes vary, as `onnx.export` takes it; None: no size."""
        return None

    def to_onnx(self, **options: Any) -> ONNXProgram | Any:
        """Return `onnx.export` of this module.

        Args:
            options: the other arguments of `onnx.export`, such as `f` and `opset_version`.
        """
        from ._export import export

        return export(self, **options)


#: ops whose result is told by their arguments alone
NAMES = frozenset(
    """abs add cos dropout exp expand log log_softmax masked_fill mul neg permute relu reshape select sigmoid sin softmax sqrt
    squeeze sub tanh transpose unsqueeze""".split()
)
#: dtypes as the programs number them
_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16"
).split()


# ---- The exporter's own translations as functions of `(g, *arguments)`, for programs that build theirs upon them


def _dtype_word(dtype):
    return _DTYPES[dtype] if isinstance(dtype, int) else str(dtype).rpartition(".")[2]


@functools.cache
def translation(name):
    """Return the translation of the op `name`; its nodes are those of the graph's opset, whichever module it is taken from."""
    if name not in NAMES:
        raise AttributeError(f"onnx.export: there is no translation of this name for programs, got {name!r}")
    function = _ops.find(name, "")

    @functools.wraps(function)
    def symbolic(g, *args, **kwargs):
        if name in ("softmax", "log_softmax") and len(args) > 2:
            args, kwargs = args[:2], {**kwargs, "dtype": args[2]}
        dtype = kwargs.pop("dtype", None)
        if name in ("add", "sub") and len(args) > 2:
            args = args[:2] if args[2] is None else args
        before, (g.dtype, g.shape, g.results) = (g.dtype, g.shape, g.results), (None, None, ())
        try:
            result = function(g, *args, **kwargs)
        finally:
            g.dtype, g.shape, g.results = before
        return g.cast(result, _dtype_word(dtype)) if dtype is not None and isinstance(result, Value) else result

    symbolic.__name__ = symbolic.__qualname__ = name
    symbolic.__doc__ = f"The value of the op `aten::{name}` in the graph `g`; its arguments follow in the op's order."
    return symbolic


DEFAULT_OPSET, OLDEST, NEWEST = 20, 17, 21

_exporting = False


def is_in_onnx_export() -> bool:
    """Return whether a model is being exported to ONNX now.

    >>> torch.onnx.is_in_onnx_export()
    False
    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return x + 1 if torch.onnx.is_in_onnx_export() else x
    >>> [node[0] for node in torch.onnx.export(Net(), (torch.ones(2),)).graph.nodes]
    ['Add']
    """
    return _exporting


@contextlib.contextmanager
def _export_mode(model, training):
    """Put the model in the mode in which it is exported; afterwards it is as it was."""
    global _exporting
    before = [(m, m.training) for m in model.modules()] if hasattr(model, "modules") else []
    if training is not None and training is not TrainingMode.PRESERVE and before:
        model.train(training is TrainingMode.TRAINING)
    _exporting = True
    try:
        yield
    finally:
        _exporting = False
        for module, mode in before:
            module.training = mode


def _opset(asked):
    if asked is None:
        return DEFAULT_OPSET
    if not isinstance(asked, int) or asked < 7:
        raise ValueError(f"onnx.export: opset_version is a number of an opset, got {asked!r}")
    nearest = min(max(asked, OLDEST), NEWEST)
    if nearest != asked:
        warnings.warn(
            f"onnx.export: opsets {OLDEST} to {NEWEST} are written, got opset_version={asked}; the model has opset {nearest}",
            OnnxExporterWarning,
            stacklevel=4,
        )
    return nearest


def _parameters(model, args, kwargs):
    """Return the names of the arguments of forward that are given, in order."""
    forward = getattr(model, "forward", model)
    try:
        bound = inspect.signature(forward).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"onnx.export: the model does not take these arguments: {error}") from None
    names = []
    for name, value in bound.arguments.items():
        kind = inspect.signature(forward).parameters[name].kind
        names += [f"{name}_{i}" for i in range(len(value))] if kind is inspect.Parameter.VAR_POSITIONAL else [name]
    return names


def _axes(axes, named):
    """Return `{0: "batch"}`, or `[0]` with names made up, as dimensions of export."""
    from facula.export import Dim

    items = axes.items() if isinstance(axes, dict) else ((axis, None) for axis in axes)
    result = {}
    for axis, name in items:
        if not isinstance(axis, int):
            raise TypeError(f"onnx.export: dynamic_axes has numbers of axes, got {axis!r}")
        result[axis] = named.setdefault(name, Dim(name)) if name and str(name).isidentifier() else Dim.DYNAMIC
    return result


def _dynamic_shapes(model, args, kwargs, dynamic_axes, input_names, output_names):
    """Return `dynamic_axes` of the older exporter, which goes by names, as `dynamic_shapes`."""
    parameters = _parameters(model, args, kwargs)
    names = dict(zip(input_names or (), parameters))
    unknown = [n for n in dynamic_axes if n not in names and n not in parameters and n not in (output_names or ())]
    if unknown:
        warnings.warn(
            f"onnx.export: dynamic_axes names {', '.join(unknown)}, which is no input or output",
            OnnxExporterWarning,
            stacklevel=4,
        )
    named, shapes = {}, dict.fromkeys(parameters)
    for name, axes in dynamic_axes.items():
        parameter = names.get(name, name)
        if parameter in shapes:
            shapes[parameter] = _axes(axes, named)
    return shapes


def _with_dims(spec, named):
    """Return `dynamic_shapes` in which names stand for dimensions: {0: "batch"}; what has one name is one size."""
    from facula.export import Dim

    if isinstance(spec, str):
        return named.setdefault(spec, Dim(spec)) if spec.isidentifier() else Dim.DYNAMIC
    if isinstance(spec, dict):
        return {key: _with_dims(value, named) for key, value in spec.items()}
    return type(spec)(_with_dims(value, named) for value in spec) if isinstance(spec, (list, tuple)) else spec


def _dimension_names(program, dynamic_shapes):
    """Return {what sizes that vary are called in the program: what the caller calls them}."""
    names = {}

    def note(sizes, spec):
        items = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        for axis, dim in items:
            word = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
            if word and type(sizes[axis]) is not int:
                names.setdefault(str(sizes[axis]), word)

    inputs = [n for n in program.graph.nodes if n.op == "placeholder"]
    by_name = {word: n for n in inputs for word in (n.name, n.target)}
    user = [by_name[name] for name in program.graph_signature.user_inputs if name in by_name]
    specs = _leaves(dynamic_shapes)
    for node, spec in zip(user, specs):
        known = known_of(node)
        if spec and hasattr(known, "shape"):
            note(known.shape, spec)
    return names


def _leaves(spec):
    """Return the parts of `dynamic_shapes` that belong to one tensor, in order."""
    if spec is None:
        return [None]
    if isinstance(spec, dict) and not all(isinstance(key, int) for key in spec):
        return [leaf for value in spec.values() for leaf in _leaves(value)]
    if isinstance(spec, (list, tuple)) and any(isinstance(v, (dict, list, tuple)) or v is None for v in spec):
        return [leaf for value in spec for leaf in _leaves(value)]
    return [spec]


def _refuse(operator_export_type, export_modules_as_functions):
    if operator_export_type is not OperatorExportTypes.ONNX:
        raise NotImplementedError(f"onnx.export: only ONNX's own ops are written, got {operator_export_type}")
    if export_modules_as_functions:
        raise NotImplementedError("onnx.export: modules are not written as functions, got export_modules_as_functions")


def _exported(model, args, kwargs, dynamic_shapes):
    from facula import export as capture
    from facula import nn

    if isinstance(model, capture.ExportedProgram):
        return model
    if not isinstance(model, nn.Module):
        if not callable(model):
            raise TypeError(f"onnx.export: model must be a Module or an ExportedProgram, got {type(model).__name__}")
        model = _module_of(model)
    return capture.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)


def _module_of(function):
    from facula import nn

    class Callable(nn.Module):
        def forward(self, *args, **kwargs):
            return function(*args, **kwargs)

    return Callable()


def _compared(program, model, args, kwargs):
    """Raise unless onnxruntime computes what the model computes."""
    from facula import Tensor, no_grad, testing
    from facula.utils import _pytree as pytree

    with no_grad():
        expected = [r for r in pytree.tree_leaves(model(*args, **kwargs)) if isinstance(r, Tensor)]
    for i, (got, wanted) in enumerate(zip(program(*args, **kwargs), expected)):
        told = lambda message, i=i: f"onnx.export: output {i}: {message}"
        testing.assert_close(got, real_parts(wanted.detach()), rtol=1e-3, atol=1e-4, msg=told)


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: dict[Callable[..., Any], Any] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Any = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: dict[str, int] | None = None,
    export_modules_as_functions: bool = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | Any:
    """Export a model to ONNX.

    Args:
        model: a Module, a function of tensors, or an ExportedProgram. An `ExportableModule` knows arguments and names itself.
        args: its arguments, a tuple; a dict at its end holds arguments by name. They tell shapes and dtypes.
        f: where to write: a path, or a file opened for bytes. None: nothing is written.
        kwargs: arguments by name.
        verbose: prints what was exported.
        input_names, output_names: names in the file; by default those of the program.
        opset_version: 17 to 21; default 20. Of others the nearest is written, with a warning.
        dynamo: True returns an `ONNXProgram` and exports the model in the mode in which it is; False is the interface of the
            older exporter, which puts the model into the mode `training` and returns None. What is written is the same.
        external_data: models above 2 GB have their weights in a file beside, `<f>.data`.
        dynamic_shapes: sizes that vary, as for `export.export`, or by names (`{"x": {0: "batch"}}`), which are in the file.
        dynamic_axes: the same by names of inputs: `{"x": {0: "batch"}}` or `{"x": [0]}`.
        custom_translation_table: `{op: function(graph, *arguments)}` or `{op: [function]}`, translations of own ops, or
            others of known ones. `graph.Relu(x)` makes a node.
        report: writes `onnx_export_report.md` into `artifacts_dir`; `dump_exported_program` writes the program there.
        verify: runs the model by onnxruntime and compares the results.
        profile: accepted; the time is in the report.
        export_params: False: without weights. `keep_initializers_as_inputs`: weights are inputs too, with these values as
            defaults.
        optimize, do_constant_folding, autograd_inlining: accepted; what depends on constants alone is always computed.
        custom_opsets: `{domain: version}` of own domains.
        operator_export_type: OperatorExportTypes.ONNX; others are refused with NotImplementedError.
        export_modules_as_functions: False; True is refused with NotImplementedError.

    Returns:
        An `ONNXProgram`; None if `dynamo` is False.

    Raises:
        UnsupportedOperatorError: an op has no translation; the message names it and the line of the program.

    Example:
        >>> import facula
        >>> model = facula.nn.Linear(4, 2)
        >>> program = facula.onnx.export(model, (facula.ones(1, 4),), input_names=["x"], output_names=["y"])
        >>> program.input_names, program.output_names
        (['x'], ['y'])
    """
    _refuse(operator_export_type, export_modules_as_functions)
    if isinstance(model, ExportableModule):
        if not args and not kwargs:
            args, kwargs = model.example_arguments()
        input_names, output_names = input_names or model.input_names(), output_names or model.output_names()
        dynamic_shapes = dynamic_shapes or model.dynamic_shapes()
    if not args and not kwargs and hasattr(model, "graph_signature"):
        args, kwargs = model.example_inputs
    args, kwargs = _arguments(args, kwargs)
    opset = _opset(opset_version)
    with _export_mode(model, None if dynamo else training):
        if dynamic_axes and dynamic_shapes is None and not hasattr(model, "graph_signature"):
            dynamic_shapes = _dynamic_shapes(model, args, kwargs, dynamic_axes, input_names, output_names)
        program = _exported(model, args, kwargs, _with_dims(dynamic_shapes, {}))
        names = _dimension_names(program, dynamic_shapes)
        custom = {op: _first(function) for op, function in (custom_translation_table or {}).items()}
        translator = Translator(program, opset, input_names, output_names, names, custom)
        graph = translator.run()
        _told_unused(set(custom) - translator.used)
        _told_names(graph, input_names, output_names)
        result = ONNXProgram(graph, program, custom_opsets)
        if verify:
            _compared(result, program.module() if hasattr(model, "graph_signature") else model, args, kwargs)
    if f is not None:
        large = external_data and not hasattr(f, "write") and result.size() > 2**31 - 2**20
        result.save(
            f, include_initializers=export_params, keep_initializers_as_inputs=keep_initializers_as_inputs, external_data=large
        )
    _told(result, verbose, report or profile, dump_exported_program, artifacts_dir)
    return result if dynamo else None


def _first(function):
    """Return the translation of an op, of which there may be several for other dtypes: what is written here holds for all."""
    functions = list(function) if isinstance(function, (list, tuple)) else [function]
    if len(functions) != 1 or not callable(functions[0]):
        raise TypeError(f"onnx.export: custom_translation_table has one function for an op, got {function!r}")
    return functions[0]


def _told_unused(ops):
    """Warn of translations that nothing asked for: ops of `library.custom_op` are recorded as what they run."""
    if ops:
        names = ", ".join(sorted(map(str, ops)))
        what = f"onnx.export: the program has no {names}, of which custom_translation_table has a translation"
        warnings.warn(what, OnnxExporterWarning, stacklevel=3)


def _told_names(graph, input_names, output_names):
    """Warn of names beyond what the model has: they are no error, as they never were."""
    for word, names, values in (("input", input_names, graph.inputs), ("output", output_names, graph.outputs)):
        if len(names or ()) > len(values):
            what = f"onnx.export: {word}_names has {len(names)} names, the model has {len(values)} {word}s"
            warnings.warn(what, OnnxExporterWarning, stacklevel=3)


def _arguments(args, kwargs):
    args = tuple(args) if isinstance(args, (list, tuple)) else (args,)
    kwargs = dict(kwargs or {})
    if args and isinstance(args[-1], dict) and not kwargs:
        args, kwargs = args[:-1], args[-1]
    return args, kwargs


def _told(program, verbose, report, dump, folder):
    if verbose:
        print(program)
    folder = Path(os.fspath(folder))
    if report:
        ops = sorted({node[0] for node in program.graph.nodes})
        lines = ["# Export to ONNX", "", str(program), "", f"Ops: {', '.join(ops)}", "", "```"]
        lines += [str(program.exported_program), "```"]
        (folder / "onnx_export_report.md").write_text("\n".join(lines) + "\n")
    if dump:
        from facula.export import save

        save(program.exported_program, folder / "onnx_export_program.pt2")


__all__ = ["OnnxExporterError", "export", "is_in_onnx_export"]
