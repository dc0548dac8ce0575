"""Cut a model into parts by tracing it.

The model is traced by `facula.fx`. Paths of its modules, or calls of `pipe_split()` in its code, determine where it is
cut. A part receives the outputs of the part before it and nothing else, so values that later parts need pass through
those between.
"""

from __future__ import annotations

import enum
import inspect
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import facula
from facula import fx
from facula.fx.node import map_arg

from .stage import PipelineStage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor
    from facula.distributed._group import ProcessGroup
    from facula.fx.graph_module import GraphModule
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "annotate_split_spec", "build_stage", "pipe_split", "pipeline"]


class SplitPoint(enum.Enum):
    """Name where a model is cut: before a module (BEGINNING) or after it (END).

    >>> from torch.distributed.pipelining import SplitPoint
    >>> [point.name for point in SplitPoint]
    ['BEGINNING', 'END']
    """

    BEGINNING = 1
    END = 2


class _Tracing(threading.local):
    tracer = None


_tracing = _Tracing()


def pipe_split() -> None:
    """Cut the model here, in whose code this is called. Does nothing but while `pipeline` traces the model.

    >>> from torch.distributed.pipelining import pipe_split, pipeline
    >>> class Model(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.inner, self.outer = nn.Linear(4, 8), nn.Linear(8, 2)
    ...     def forward(self, x):
    ...         x = self.inner(x)
    ...         pipe_split()
    ...         return self.outer(x)
    >>> pipeline(Model(), (torch.ones(1, 4),)).num_stages
    2
    """
    if _tracing.tracer is not None:
        _tracing.tracer.create_proxy("call_function", pipe_split, (), {})


def annotate_split_spec(mod, spec):
    """Note in a model where it is cut.

    Args:
        mod: the model.
        spec: {path of a module: SplitPoint}

    Errors: AttributeError for a path without a module, TypeError for what is no SplitPoint.
    """
    for path, point in spec.items():
        try:
            mod.get_submodule(path)
        except AttributeError as error:
            raise AttributeError(f"annotate_split_spec: the model has no module {path!r}") from error
        if not isinstance(point, SplitPoint):
            raise TypeError(f"annotate_split_spec: where the model is cut is a SplitPoint, got {point!r} for {path!r}")
    mod.__dict__["_split_spec"] = dict(spec)


class _Tracer(fx.Tracer):
    """Cut the graph at the requested modules."""

    def __init__(self, spec):
        super().__init__()
        self.spec = spec

    def is_leaf_module(self, m, module_qualified_name):
        inside = f"{module_qualified_name}."
        return super().is_leaf_module(m, module_qualified_name) and not any(path.startswith(inside) for path in self.spec)

    def call_module(self, m, forward, args, kwargs):
        point = self.spec.get(self.path_of_module(m))
        if point is SplitPoint.BEGINNING:
            pipe_split()
        result = super().call_module(m, forward, args, kwargs)
        if point is SplitPoint.END:
            pipe_split()
        return result


def _trace(module, mb_args, mb_kwargs, spec):
    """Return a GraphModule whose inputs are the tensors among `mb_args`; other arguments are what they are."""
    bound = inspect.signature(module.forward).bind(*mb_args, **mb_kwargs)
    if any(isinstance(value, facula.Tensor) for value in mb_kwargs.values()):
        raise NotImplementedError(f"pipeline: tensors are given by position, got the keywords {sorted(mb_kwargs)}")
    bound.apply_defaults()
    fixed = {name: value for name, value in bound.arguments.items() if not isinstance(value, facula.Tensor)}
    tracer = _Tracer(spec)
    _tracing.tracer = tracer
    try:
        graph = tracer.trace(module, fixed or None)
    finally:
        _tracing.tracer = None
    for node in list(graph.nodes):
        if node.op == "placeholder" and node.target not in bound.arguments:
            _erase_with_users(graph, node)  # what was fixed is not asked for
    # The fixed arguments made the tracer flatten the inputs; without them the plain signature fits again.
    graph.set_codegen(fx.CodeGen())
    return fx.GraphModule(tracer.root, graph, type(module).__name__)


def _erase_with_users(graph, node):
    for user in list(node.users):
        _erase_with_users(graph, user)
    graph.erase_node(node)


# ---- parts


def _numbered(graph):
    """Return ({node: number of its part}, how many parts); the places of cuts are taken out."""
    number, found = 0, {}
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is pipe_split:
            # A cut before the first op, or right behind another cut, would make an empty part.
            number += bool(found) and any(of == number for of in found.values())
            graph.erase_node(node)
        elif node.op not in ("placeholder", "get_attr", "output"):
            found[node] = number
    return found, max(found.values(), default=0) + 1


def _check_parameters(gm, part_of):
    owners = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            names = {node.target: {part_of[user] for user in node.users if user in part_of}}
        elif node.op == "call_module":
            inner = gm.get_submodule(node.target)
            names = {f"{node.target}.{name}": {part_of[node]} for name, _ in inner.named_parameters()}
        else:
            continue
        for name, parts in names.items():
            value = gm.get_parameter(name) if isinstance(_value(gm, name), facula.nn.Parameter) else None
            if value is not None:
                owners.setdefault(id(value), (name, set()))[1].update(parts)
    for name, parts in owners.values():
        if len(parts) > 1:
            raise NotImplementedError(
                f"pipeline: a parameter belongs to one stage, got {name!r} in stages {sorted(parts)}"
            )


def _value(gm, path):
    for name in path.split("."):
        gm = getattr(gm, name)
    return gm


def _crossing(graph, part_of, count):
    """Return for each part the nodes that it gets from the one before, in order."""
    needed = [{} for _ in range(count)]
    position = {node: at for at, node in enumerate(graph.nodes)}
    last = {graph.output_node(): count - 1}
    for node in graph.nodes:
        user_part = part_of.get(node, last.get(node))
        if user_part is None:
            continue
        for used in node.all_input_nodes:
            if used.op != "get_attr":
                # A value for a later part passes through all the parts between.
                for part in range(part_of.get(used, -1) + 1, user_part + 1):
                    needed[part][used] = None
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    return [inputs, *(sorted(found, key=position.get) for found in needed[1:])]


def _parts(gm):
    part_of, count = _numbered(gm.graph)
    _check_parameters(gm, part_of)
    crossing = _crossing(gm.graph, part_of, count)
    found = []
    for number in range(count):
        graph, values = fx.Graph(), {}
        for node in crossing[number]:
            values[node] = graph.placeholder(node.target if node.op == "placeholder" else node.name, type_expr=node.type)

        def own(node, graph=graph, values=values):
            if node not in values:
                values[node] = graph.node_copy(node)  # an attribute
            return values[node]

        for node in gm.graph.nodes:
            if part_of.get(node) == number:
                values[node] = graph.node_copy(node, own)
        if number + 1 < count:
            given = [own(node) for node in crossing[number + 1]]
            graph.output(given[0] if len(given) == 1 else tuple(given))
        else:
            graph.output(map_arg(gm.graph.output_node().args[0], own))
        graph.lint()
        found.append(fx.GraphModule(gm, graph, f"Stage{number}"))
    return found


@dataclass
class PipeInfo:
    """Describe a model that was cut.

    Args:
        graph: the graph whose nodes are the parts.
        num_stages: how many parts there are.
        has_loss_and_backward: False: parts compute outputs only.
    """

    graph: fx.Graph
    num_stages: int
    has_loss_and_backward: bool = False


class Pipe(facula.nn.Module):
    """Hold a model that was cut into parts; `pipeline` makes it. A call computes all parts here.

    Args:
        traced: the whole, as a GraphModule.
        parts: the parts, as GraphModules.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import SplitPoint, pipeline
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> pipe = pipeline(model, (torch.ones(1, 4),), split_spec={"2": SplitPoint.BEGINNING})
    >>> pipe.num_stages, pipe.info().num_stages, pipe(torch.ones(3, 4)).shape
    (2, 2, torch.Size([3, 2]))
    >>> pipe.get_stage_module(1)(torch.ones(3, 8)).shape
    torch.Size([3, 2])
    >>> pipe.build_stage(1, "cpu").is_last
    True
    >>> dist.destroy_process_group()
    """

    def __init__(self, traced: Module, parts: Sequence[Module]) -> None:
        super().__init__()
        self.num_stages: int = len(parts)
        self.has_loss_and_backward = False
        root, graph = facula.nn.Module(), fx.Graph()
        inputs = [node for node in parts[0].graph.nodes if node.op == "placeholder"]
        values = tuple(graph.placeholder(node.target, type_expr=node.type) for node in inputs)
        for number, part in enumerate(parts):
            root.add_module(f"submod_{number}", part)
            call = graph.call_module(f"submod_{number}", values)
            count = sum(node.op == "placeholder" for node in parts[number + 1].graph.nodes) if part is not parts[-1] else 0
            # A part with one result returns the result itself, no tuple.
            values = (call,) if count < 2 else tuple(fx.Proxy(call)[at].node for at in range(count))
        graph.output(values[0])
        self.split_gm: GraphModule = fx.GraphModule(root, graph)
        self._whole = [traced]  # not a submodule

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return what the model gives, computed here part by part.

        Args:
            args, kwargs: what the model is called with.

        Returns: a tensor of the shape that the model gives, or whatever else it gives.
        """
        return self.split_gm(*args, **kwargs)

    def get_stage_module(self, stage_idx: int) -> GraphModule:
        """Return a part, as a GraphModule.

        Args:
            stage_idx: its number. ValueError where there is none of it.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"get_stage_module: there are {self.num_stages} stages, got {stage_idx}")
        return getattr(self.split_gm, f"submod_{stage_idx}")

    def info(self) -> PipeInfo:
        """Return a PipeInfo: the graph of the parts and their number."""
        return PipeInfo(self.split_gm.graph, self.num_stages)

    def build_stage(self, stage_index: Any, device: Device, group: ProcessGroup | None = None) -> PipelineStage:
        """Return the PipelineStage of a part.

        Args:
            stage_index: its number.
            device: where it runs.
            group: the processes. Default: all.
        """
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)


def build_stage(stage_module: Any, stage_index: Any, pipe_info: Any, device: Device,
                group: ProcessGroup | None = None) -> PipelineStage:  # fmt: skip
    """Return the PipelineStage of a part.

    Args:
        stage_module: the part, moved to `device`.
        stage_index: its number.
        pipe_info: what `Pipe.info` gives.
        device: where it runs.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import SplitPoint, build_stage, pipeline
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> pipe = pipeline(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), (torch.ones(1, 4),), split_spec={"1": SplitPoint.BEGINNING})
    >>> build_stage(pipe.get_stage_module(0), 0, pipe.info(), "cpu").is_first
    True
    >>> dist.destroy_process_group()
    """
    return PipelineStage(stage_module.to(device), stage_index, pipe_info.num_stages, device, group=group)


def pipeline(module: Module, mb_args: Sequence[Tensor | bool], mb_kwargs: dict[str, bool] | None = None,
             split_spec: dict[str, SplitPoint] | None = None,
             split_policy: Callable[..., Any] | None = None) -> Pipe:  # fmt: skip
    """Return a model cut into parts, a Pipe. It is traced by `facula.fx`.

    Args:
        module: the model. What decides by values of tensors cannot be traced.
        mb_args: arguments for one piece of a batch, as a tuple: which of them are tensors is what counts.
        mb_kwargs: the same by keyword; no tensors (NotImplementedError).
        split_spec: {path of a module: SplitPoint}; without, the model calls `pipe_split()`.
        split_policy: instead of that, a function that puts calls of `pipe_split` into a GraphModule, and gives it.

    Errors: ValueError for both `split_spec` and `split_policy`, AttributeError for a path that is not there,
    NotImplementedError where a parameter would belong to two parts.

    >>> from torch.distributed.pipelining import SplitPoint, pipeline
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> pipeline(model, (torch.ones(1, 4),), split_spec={"2": SplitPoint.BEGINNING}).num_stages
    2
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("pipeline: where the model is cut is said by split_spec or split_policy, got both")
    if split_spec is not None:
        annotate_split_spec(module, split_spec)
    traced = _trace(module, tuple(mb_args), dict(mb_kwargs or {}), getattr(module, "_split_spec", {}))
    if split_policy is not None:
        traced = split_policy(traced)
    return Pipe(traced, _parts(traced))
