"""Find nodes by the function, or class of modules, that they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from facula.fx._compatibility import compatibility

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula.fx.graph import Graph

__all__ = ["get_source_partitions", "check_subgraphs_connected", "SourcePartition"]


@compatibility(is_backward_compatible=False)
@dataclass
class SourcePartition:
    """Hold the nodes of one call of a function or module; `get_source_partitions` returns it.

    Args:
        nodes: the nodes.
        source: the function or class.
        input_nodes: nodes outside that they take.
        output_nodes: those of them that others use.
        params: those of them that read attributes.

    >>> from facula.fx.passes.utils.source_matcher_utils import get_source_partitions
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(x) + 1)
    >>> [part] = get_source_partitions(gm.graph, [facula.relu])[facula.relu]
    >>> part.input_nodes, part.output_nodes
    ([x], [relu])
    """

    nodes: list[Any]
    source: object
    input_nodes: list[Any] = field(default_factory=list)
    output_nodes: list[Any] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)


def _sources(node):
    """Return (key, source) of a node: of the innermost module or function that it was traced in."""
    found = node.meta.get("source_fn_stack")
    if found:
        return found[-1]
    if node.op == "call_module" and node.graph.owning_module is not None:
        return node.target, type(node.graph.owning_module.get_submodule(node.target))
    if node.op == "call_function":
        return node.name, node.target
    return None


@compatibility(is_backward_compatible=False)
def get_source_partitions(graph: Graph, wanted_sources: Sequence[Any],
                          filter_fn: Any = None) -> dict[Any, list[SourcePartition]]:  # fmt: skip
    """Return {source: [SourcePartition]} of the nodes that come from some functions or classes.

    Args:
        graph: the graph.
        wanted_sources: functions and classes of modules.
        filter_fn: node -> whether a partition with it is kept.

    >>> from facula.fx.passes.utils.source_matcher_utils import get_source_partitions
    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    >>> found = get_source_partitions(gm.graph, [nn.Linear])
    >>> [part.nodes for part in found[nn.Linear]]
    [[_0]]
    """
    groups = {}
    for node in graph.nodes:
        found = _sources(node)
        if found is not None and found[1] in wanted_sources:
            groups.setdefault(found[1], {}).setdefault(found[0], []).append(node)
    result = {source: [_partition(nodes, source) for nodes in named.values()] for source, named in groups.items()}
    if filter_fn is None:
        return result
    kept = {source: [p for p in parts if all(map(filter_fn, p.nodes))] for source, parts in result.items()}
    return {source: parts for source, parts in kept.items() if parts}


def _partition(nodes, source):
    inner, inputs, outputs, params = set(nodes), {}, {}, {}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in inner:
                inputs[used] = None
        if node.op == "get_attr":
            params[node] = None
        if any(user not in inner for user in node.users):
            outputs[node] = None
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))


@compatibility(is_backward_compatible=False)
def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Return whether the second takes something from the first.

    Args:
        subgraph1, subgraph2: SourcePartitions.

    >>> from facula.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions
    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    >>> found = get_source_partitions(gm.graph, [nn.Linear, nn.ReLU])
    >>> check_subgraphs_connected(found[nn.Linear][0], found[nn.ReLU][0])
    True
    """
    return any(used in subgraph1.nodes for node in subgraph2.nodes for used in node.all_input_nodes)
