"""Compare graphs, and lift parts of graphs into modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.fx.graph_module import GraphModule
from facula.fx.passes.utils.matcher_utils import SubgraphMatcher

if TYPE_CHECKING:
    from typing import Any

    from facula.fx.graph import Graph
    from facula.nn.modules.module import Module

__all__ = ["HolderModule", "lift_subgraph_as_module", "compare_graphs"]


class HolderModule(facula.nn.Module):
    """Hold the given submodules.

    Args:
        d: {name: module}

    >>> from facula.fx.passes.utils import HolderModule
    >>> HolderModule({"act": nn.ReLU()})
    HolderModule(
      (act): ReLU()
    )
    """

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(gm: Module, subgraph: Graph, comp_name: str = "",
                            class_name: str = "GraphModule") -> tuple[GraphModule, dict[Any, Any]]:  # fmt: skip
    """Return a GraphModule of a part of another's graph, with what it names.

    Args:
        gm: the module.
        subgraph: the graph of the part.
        comp_name: accepted; what is named keeps its name.
        class_name: the name of the class.

    Returns:
        (the GraphModule, {name of an attribute there: its name in `gm`}).

    >>> from facula.fx.passes.utils import lift_subgraph_as_module
    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    >>> graph = facula.fx.Graph()
    >>> end = graph.output(graph.call_module("1", (graph.placeholder("x"),)))
    >>> part, names = lift_subgraph_as_module(gm, graph)
    >>> part, names  # doctest: +ELLIPSIS
    (GraphModule(
      (1): Tanh()
    ), {'1': '1'})
    """
    submodule = HolderModule({})
    renamed = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        holder, *path = submodule, *node.target.split(".")
        source = gm
        for part in path[:-1]:
            source = getattr(source, part)
            if not hasattr(holder, part):
                holder.add_module(part, HolderModule({}))
            holder = getattr(holder, part)
        value = getattr(source, path[-1])
        if isinstance(value, facula.Tensor) and not isinstance(value, facula.nn.Parameter):
            if path[-1] not in holder._buffers:
                holder.register_buffer(path[-1], value)
        else:
            setattr(holder, path[-1], value)
        renamed[node.target] = node.target
    return GraphModule(submodule, subgraph, class_name), renamed


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Return whether two graphs do the same by the same nodes.

    Args:
        left, right: the graphs.

    >>> from facula.fx.passes.utils import compare_graphs
    >>> trace = lambda f: facula.fx.symbolic_trace(f).graph
    >>> compare_graphs(trace(lambda x: x + 1), trace(lambda y: y + 1))
    True
    >>> compare_graphs(trace(lambda x: x + 1), trace(lambda x: x * 1))
    False
    """
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return bool(matcher.match(right))
