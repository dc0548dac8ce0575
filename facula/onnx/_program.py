"""Define the result of export: a graph, which can be written to a file or run by onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._serialization.replacing import replacing
from . import _protobuf as pb
from ._graph import Graph, numpy_dtype
from .errors import OnnxExporterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO

    from facula import Tensor
    from facula.export import ExportedProgram

_LARGEST_FILE = 2**31 - 1 - 2**20  # protobuf's limit, less room for the graph


def _bytes(value):
    """Return the elements of a constant, little-endian, in the order of their indices."""
    if value.array is not None:
        return memoryview(value.array.reshape(-1).view("u1")) if value.array.size else b""
    tensor = value.exact.detach().cpu().contiguous()
    if not tensor.numel():
        return b""
    if numpy_dtype(value.dtype) is None:  # NumPy has no such dtype: bits of the same width
        module = __import__(type(tensor).__module__.split(".")[0])
        tensor = tensor.view({1: module.int8, 2: module.int16}[tensor.element_size()])
    return memoryview(tensor.reshape(-1).numpy().view("u1"))


def _infos(values):
    return [pb.value_info(v.name, v.dtype, v.shape) for v in values]


def real_parts(tensor: Tensor) -> Tensor:
    """Return what stands for a tensor in a file: complex numbers are two along a last dimension."""
    if not tensor.is_complex():
        return tensor
    from facula import view_as_real

    return view_as_real(tensor.resolve_conj())


class ONNXProgram:
    r"""Hold a model as ONNX's graph.

    `save(path)` writes it, `model_proto` is it as a message of the `onnx` package, and a call runs it by `onnxruntime`,
    with the arguments that the model takes; complex numbers are real ones with their parts as a last dimension.

    Args:
        graph: the graph, which `onnx.export` makes.
        exported_program: the ExportedProgram that it was made of.
        custom_opsets: `{domain: version}` of own domains.

    >>> program = torch.onnx.export(nn.Linear(2, 3), (torch.ones(4, 2),), dynamic_shapes=({0: "batch"},))
    >>> program
    ONNXProgram(opset 20, 1 nodes, inputs: Value(input: float32['batch', 2]))
    >>> program.size(), program.serialize()[:2]
    (36, b'\x08\t')
    >>> program.rename_axes({"batch": "rows"})
    >>> program.apply_weights({"bias": torch.zeros(3)})
    >>> program.optimize()
    >>> program.release()
    """

    def __init__(self, graph: Graph, exported_program: ExportedProgram, custom_opsets: dict[str, int] | None = None) -> None:
        self.graph, self.exported_program = graph, exported_program
        self._opsets = {"": graph.opset, **{d: (custom_opsets or {}).get(d, v) for d, v in graph.domains.items()}}
        self._session = None

    def __repr__(self) -> str:
        inputs = ", ".join(map(repr, self.graph.inputs))
        return f"ONNXProgram(opset {self.graph.opset}, {len(self.graph.nodes)} nodes, inputs: {inputs})"

    @property
    def input_names(self) -> list[str]:
        """What the inputs are called in the file."""
        return [v.name for v in self.graph.inputs]

    @property
    def output_names(self) -> list[str]:
        """What the outputs are called in the file."""
        return [v.name for v in self.graph.outputs]

    def _message(self, *, initializers=True, as_inputs=False, external=None):
        """Return the model as pieces of bytes; `external` is `(name of the other file, list that takes what belongs into
        it)`."""
        g, offset, tensors = self.graph, 0, []
        self._count = 0
        for value in g.initializers.values() if initializers else ():
            raw = _bytes(value)
            # Small constants, such as shapes, stay in the model, where tools read them without the other file.
            if external and len(raw) >= 1024:
                external[1].append((offset, raw))
                tensors.append(pb.tensor(value.name, value.dtype, value.shape, (external[0], offset, len(raw))))
                # Every tensor begins at a page, so that runtimes can map it into memory.
                offset = -(-(offset + len(raw)) // 4096) * 4096
            else:
                tensors.append(pb.tensor(value.name, value.dtype, value.shape, raw))
        inputs = [*g.inputs, *(g.initializers.values() if as_inputs or not initializers else ())]
        graph = pb.graph("main_graph", self._nodes(g), tensors, _infos(inputs), _infos(g.outputs), _infos(g.values))
        from facula import __version__

        return pb.model(graph, self._opsets, "facula", __version__)

    def size(self) -> int:
        """Return the bytes of the weights."""
        return sum(len(_bytes(value)) for value in self.graph.initializers.values())

    def _nodes(self, graph):
        for op, inputs, outputs, attributes, domain, line in graph.nodes:
            name, self._count = f"{op}_{self._count}", self._count + 1
            inner = {key: (pb.GRAPH, self._inner(name, v)) for key, v in attributes.items() if isinstance(v, Graph)}
            metadata = {"pkg.facula.stack_trace": line} if line else None
            yield pb.node(op, inputs, outputs, {**attributes, **inner}, name, domain, metadata)

    def _inner(self, name, graph):
        return pb.graph(f"{name}_graph", self._nodes(graph), (), _infos(graph.inputs), _infos(graph.outputs), ())

    def serialize(self) -> bytes:
        """Return the whole model as bytes; models above 2 GB are written by `save` with their weights in a file beside it."""
        message = self._message()
        if pb.length(message) > _LARGEST_FILE:
            raise OnnxExporterError(f"onnx.export: a model in one piece has at most 2 GB, got {pb.length(message)} bytes")
        return b"".join(message)

    @property
    def model_proto(self) -> Any:
        """The model as `onnx.ModelProto`; needs the package `onnx`."""
        import onnx

        return onnx.load_model_from_string(self.serialize())

    model: Any = model_proto

    def save(self, destination: str | os.PathLike[str] | IO[bytes], *, include_initializers: bool = True,
             keep_initializers_as_inputs: bool = False, external_data: bool | None = None) -> None:  # fmt: skip
        """Write the model; weights go to `<destination>.data` if `external_data`, or if the model has more than 2 GB.

        Args:
            destination: a path, or a file opened for bytes, which gets the model in one piece.
            include_initializers: False: the file has no weights; they are inputs.
            keep_initializers_as_inputs: weights are inputs too, with these values as defaults.
            external_data: whether weights of 1 KB and more go into a file beside.

        >>> import os, tempfile
        >>> program = torch.onnx.export(nn.Linear(20, 30), (torch.ones(4, 20),))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     program.save(os.path.join(folder, "model.onnx"), external_data=True)
        ...     sorted(os.listdir(folder))
        ['model.onnx', 'model.onnx.data']
        """
        if hasattr(destination, "write"):
            destination.write(self.serialize())
            return
        path = Path(os.fspath(destination))
        form = {"initializers": include_initializers, "as_inputs": keep_initializers_as_inputs}
        message = self._message(**form)
        if external_data or pb.length(message) > _LARGEST_FILE:
            beside = []
            message = self._message(**form, external=(path.name + ".data", beside))
            with replacing(path.with_name(path.name + ".data")) as file:
                for offset, raw in beside:
                    file.write(b"\0" * (offset - file.tell()))
                    file.write(raw)
        with replacing(path) as file:
            file.writelines(message)

    # running

    def initialize_inference_session(self, initializer: Callable[..., Any] | None = None, **options: Any) -> None:
        """Make onnxruntime's session; a call does so when it is needed.

        Args:
            initializer: makes the session of the model's bytes; None: `onnxruntime.InferenceSession`.
            options: its other arguments, such as `providers`.

        Errors: OnnxExporterError without the package onnxruntime.

        >>> program = torch.onnx.export(nn.ReLU(), (torch.ones(2),))
        >>> import importlib.util
        >>> if importlib.util.find_spec("onnxruntime"):
        ...     program.initialize_inference_session(providers=["CPUExecutionProvider"])
        """
        try:
            import onnxruntime
        except ImportError:
            raise OnnxExporterError("ONNXProgram: running a model needs the package onnxruntime, got none") from None
        self._session = (initializer or onnxruntime.InferenceSession)(self.serialize(), **options)

    def release(self) -> None:
        """Let go of onnxruntime's session; the next call makes another."""
        self._session = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        if self._session is None:
            self.initialize_inference_session(providers=["CPUExecutionProvider"])
        return self._computed(self._session.run, [i.name for i in self._session.get_inputs()], args, kwargs)

    @staticmethod
    def _computed(run, names, args, kwargs):
        """Return what `run(None, {name: array})` gives, as tensors."""
        from facula import Tensor, from_numpy
        from facula.utils import _pytree as pytree

        given = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, Tensor)]
        if len(given) != len(names):
            raise OnnxExporterError(f"ONNXProgram: the model takes {len(names)} tensors ({', '.join(names)}), got {len(given)}")
        feed = {name: real_parts(a.detach()).cpu().numpy() for name, a in zip(names, given)}
        return tuple(from_numpy(r.copy()) for r in run(None, feed))

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Return the results as the package `onnx` itself computes them, slowly: a tuple of tensors.

        Args:
            args, kwargs: the arguments that the model takes.

        Errors: ImportError without the package onnx.

        >>> program = torch.onnx.export(nn.ReLU(), (torch.ones(2),))
        >>> import importlib.util
        >>> if importlib.util.find_spec("onnx"):
        ...     assert program.call_reference(torch.tensor([-1.0, 2.0]))[0].tolist() == [0.0, 2.0]
        """
        from onnx.reference import ReferenceEvaluator

        return self._computed(ReferenceEvaluator(self.model_proto).run, self.input_names, args, kwargs)

    def compute_values(self, value_names: Sequence[str], args: Sequence[Any] = (),
                       kwargs: dict[str, Any] | None = None) -> tuple[Tensor, ...]:  # fmt: skip
        """Return what values within the graph are (`graph.nodes` has their names), computed by onnxruntime: a tuple of tensors.

        Args:
            value_names: the names.
            args, kwargs: the arguments that the model takes.

        Errors: OnnxExporterError where the graph has no such value; ImportError without the packages onnx and onnxruntime.

        >>> program = torch.onnx.export(nn.ReLU(), (torch.ones(2),))
        >>> program.compute_values(["hidden"], (torch.ones(2),))
        Traceback (most recent call last):
            ...
        facula.onnx.errors.OnnxExporterError: ONNXProgram.compute_values: the graph has no value 'hidden'
        """
        made = {name for node in self.graph.nodes for name in node[2]}
        for name in value_names:
            if name not in made:
                raise OnnxExporterError(f"ONNXProgram.compute_values: the graph has no value {name!r}")
        proto = self.model_proto
        known = {output.name for output in proto.graph.output}
        proto.graph.output.extend(type(proto.graph.output[0])(name=n) for n in value_names if n not in known)
        import onnxruntime

        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        run = lambda _, feed: session.run(list(value_names), feed)
        return self._computed(run, [i.name for i in session.get_inputs()], args, kwargs or {})

    def apply_weights(self, state_dict: dict[str, Tensor]) -> None:
        """Put other weights in the place of those that the model was exported with.

        Args:
            state_dict: {name: tensor}, names as of the model's `state_dict()`; those that are not given stay.

        Errors: OnnxExporterError for a name that the model has not, and for another shape.
        """
        for name, tensor in state_dict.items():
            value = self.graph.initializers.get(name)
            if value is None:
                raise OnnxExporterError(f"ONNXProgram.apply_weights: the model has no {name}")
            if tuple(tensor.shape) != tuple(value.shape):
                raise OnnxExporterError(
                    f"ONNXProgram.apply_weights: {name} has the shape {tuple(value.shape)}, got {tuple(tensor.shape)}"
                )
            value.exact = tensor
        self._session = None

    def rename_axes(self, names: dict[str, str]) -> None:
        """Give sizes that vary other names.

        Args:
            names: {name: new name}, such as `{"s0": "batch"}`.
        """
        for value in (*self.graph.inputs, *self.graph.outputs, *self.graph.values):
            value.shape = tuple(names.get(s, s) for s in value.shape) if value.shape is not None else None

    def optimize(self) -> None:
        """Do nothing: the graph has no dead nodes, and what depends on constants alone is computed."""
