"""Record the graph of a module: every op that one call runs, in the scope of the submodule that runs it.

A function mode sees the ops; hooks around the submodules give the scopes. A tensor is known by the node that made it,
so that what the module computes in Python, between its submodules, is in the picture too.
"""

from __future__ import annotations

import contextlib

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

import facula
from facula.overrides import TorchFunctionMode
from facula.utils._pytree import tree_leaves


class _Recorder(TorchFunctionMode):
    """Collect nodes in a block."""

    def __init__(self):
        self.nodes: list[NodeDef] = []
        self.scopes: list[str] = []
        self._maker: dict[int, str] = {}  # id of a tensor -> its node
        self._kept: list[facula.Tensor] = []  # keeps the ids from being given again
        self._used: dict[str, int] = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "op")
        sources = None if name == "__get__" else self._names(args, kwargs)
        result = func(*args, **kwargs)
        made = _tensors(result)
        if sources is not None and made:
            node = self.add(name.strip("_"), f"facula::{name}", sources, made)
            for value in made:
                self.know(value, node)
        return result

    def _names(self, args, kwargs) -> list[str]:
        return [self._maker[id(t)] for t in _tensors((args, kwargs)) if id(t) in self._maker]

    def know(self, value, node: str) -> None:
        """Note that the tensor comes from that node."""
        self._maker[id(value)] = node
        self._kept.append(value)

    def maker(self, value) -> str | None:
        return self._maker.get(id(value))

    def add(self, name: str, op: str, inputs: list[str], values) -> str:
        """Add a node in the present scope; give its unique name."""
        path = "/".join([*self.scopes, name])
        count = self._used.get(path, 0)
        self._used[path] = count + 1
        if count:
            path += f"_{count}"
        shapes = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in value.shape]) for value in values]
        attributes = {"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=shapes))}
        self.nodes.append(NodeDef(name=path, op=op, input=inputs, attr=attributes))
        return path


def _tensors(tree) -> list[facula.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, facula.Tensor)]


@contextlib.contextmanager
def _scopes(model, recorder: _Recorder):
    """Make a call of a submodule a scope named after it, while entered."""
    handles = []
    root = type(model).__name__

    def leave(*_):
        recorder.scopes.pop()

    for path, module in model.named_modules():
        label = f"{type(module).__name__}[{path.rpartition('.')[2]}]" if path else root
        handles.append(module.register_forward_pre_hook(lambda *_, label=label: recorder.scopes.append(label)))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _add_state(model, recorder: _Recorder) -> None:
    """Put parameters and buffers in the scope of their module."""
    for path, value in [*model.named_parameters(), *model.named_buffers()]:
        *owners, name = path.split(".")
        module = model
        recorder.scopes = [type(model).__name__]
        for owner in owners:
            module = getattr(module, owner)
            recorder.scopes.append(f"{type(module).__name__}[{owner}]")
        recorder.know(value, recorder.add(name, "Parameter" if value.requires_grad else "Buffer", [], [value]))
    recorder.scopes = []


def _has_dict(results) -> bool:
    if isinstance(results, (tuple, list)):
        return any(map(_has_dict, results))
    return isinstance(results, dict)


def module_graph(model, inputs, strict: bool) -> GraphDef:
    """Call `model` on `inputs` (a tensor, or a tuple of its arguments) and give what ran as a graph.

    The call has effects of any other: random numbers are consumed, and running statistics move in training mode.
    """
    if not isinstance(model, facula.nn.Module):
        raise TypeError(f"SummaryWriter.add_graph: expected a Module, got {type(model).__name__}")
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    recorder = _Recorder()
    for i, value in enumerate(_tensors(arguments)):
        recorder.know(value, recorder.add(f"input/{i}", "Input", [], [value]))
    _add_state(model, recorder)
    with facula.no_grad(), _scopes(model, recorder), recorder:
        results = model(*arguments)
    if strict and _has_dict(results):
        raise RuntimeError(
            "SummaryWriter.add_graph: results in a dict are taken where use_strict_trace is False (another call may give "
            f"other keys), got {type(results).__name__} of {type(model).__name__}"
        )
    for i, value in enumerate(_tensors(results)):
        source = recorder.maker(value)
        recorder.add(f"output/{i}", "Output", [source] if source else [], [value])
    # TensorBoard expects a version of the format; PyTorch's writer states the same one.
    return GraphDef(node=recorder.nodes, versions=VersionDef(producer=22))
