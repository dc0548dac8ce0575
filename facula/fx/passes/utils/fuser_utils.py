"""Replace some nodes by a submodule."""

from __future__ import annotations

import copy
from queue import SimpleQueue
from typing import TYPE_CHECKING

from facula.fx._compatibility import compatibility
from facula.fx.graph import Graph
from facula.fx.passes.tools_common import legalize_graph
from facula.fx.passes.utils._cycles import leads_back
from facula.fx.passes.utils.common import lift_subgraph_as_module
from facula.fx.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from facula.fx.graph_module import GraphModule
    from facula.fx.node import Node
    from facula.nn.modules.module import Module

__all__ = ["topo_sort", "validate_partition", "fuse_as_graphmodule", "insert_subgm", "erase_nodes", "fuse_by_partitions"]


@compatibility(is_backward_compatible=False)
def topo_sort(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes, each behind those that it takes.

    Args:
        nodes: the nodes.

    Errors: AssertionError where nodes take from each other in a circle.

    >>> from facula.fx.passes.utils.fuser_utils import topo_sort
    >>> x, plus, times, end = facula.fx.symbolic_trace(lambda x: (x + 1) * 2).graph.nodes
    >>> topo_sort([times, plus])
    [add, mul]
    """
    waits = {node: sum(used in nodes for used in node.all_input_nodes) for node in nodes}
    queue, order = SimpleQueue(), []
    for node in nodes:
        if not waits[node]:
            queue.put(node)
    while not queue.empty():
        node = queue.get()
        order.append(node)
        for user in node.users:
            if user in waits:
                waits[user] -= 1
                if not waits[user]:
                    queue.put(user)
    if len(order) != len(nodes):
        raise AssertionError("topo_sort: the nodes depend on one another in a circle")
    return order


@compatibility(is_backward_compatible=False)
def validate_partition(partition: Sequence[Node]) -> bool:
    """Return whether nodes can become one: nothing that they need from outside is computed from them.

    Args:
        partition: the nodes.

    >>> from facula.fx.passes.utils.fuser_utils import validate_partition
    >>> x, plus, times, minus, end = facula.fx.symbolic_trace(lambda x: (x + 1) * 2 - 3).graph.nodes
    >>> validate_partition([plus, times]), validate_partition([plus, minus])
    (True, False)
    """
    return not leads_back(set(partition))


@compatibility(is_backward_compatible=False)
def fuse_as_graphmodule(gm: Module, nodes: Iterable[Node], module_name: str, partition_lookup_table: dict[Node, None] = None, *,
                        always_return_tuple: bool = False) -> tuple[GraphModule, tuple[Node, Node], tuple[Node, ...]]:
    """Return a GraphModule of some nodes.

    Args:
        gm: where they are.
        nodes: the nodes, each behind those that it takes.
        module_name: the name of its class.
        partition_lookup_table: the nodes as a dict.
        always_return_tuple: if True, return a tuple also of one value.

    Returns:
        (the GraphModule, the nodes that it takes, the nodes that it stands for outside).

    Errors: AssertionError for nodes of another module, and where they cannot become one (`validate_partition`).

    >>> from facula.fx.passes.utils.fuser_utils import fuse_as_graphmodule
    >>> gm = facula.fx.symbolic_trace(lambda x: (x + 1) * 2 - 3)
    >>> x, plus, times, minus, end = gm.graph.nodes
    >>> fused, inputs, outputs = fuse_as_graphmodule(gm, [plus, times], "Fused")
    >>> fused(5), inputs, outputs
    (12, (x,), (mul,))
    """
    inner = partition_lookup_table if partition_lookup_table is not None else dict.fromkeys(nodes)
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"fuse_as_graphmodule: nodes of {gm._get_name()} are expected, got {node} of another graph")
        if node._erased:
            raise AssertionError(f"fuse_as_graphmodule: node {node} has been removed from its graph")
    if not validate_partition(nodes):
        raise AssertionError("fuse_as_graphmodule: the nodes of a partition reach it again through others")
    graph, inputs, values = Graph(), {}, {}

    def own(node):
        if node.op == "get_attr" and node not in inner:
            if node not in values:
                values[node] = graph.node_copy(node)
            return values[node]
        if node not in values:
            values[node] = inputs[node] = graph.placeholder(node.name, type_expr=node.type)
            values[node].meta = copy.copy(node.meta)
        return values[node]

    for node in nodes:
        values[node] = graph.node_copy(node, own)
    outputs = {node: values[node] for node in nodes if any(user not in inner for user in node.users)}
    given = tuple(outputs.values())
    graph.output(given[0] if len(given) == 1 and not always_return_tuple else given)
    graph.lint()
    fused, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return fused, tuple(inputs), tuple(outputs)


@compatibility(is_backward_compatible=False)
def insert_subgm(gm: Module, sub_gm: Module, orig_inputs: Sequence[Node], orig_outputs: Sequence[Node],
                 insertion_point: Node | None = None) -> GraphModule:  # fmt: skip
    """Let a submodule be called for what some nodes give, which stay without users.

    Args:
        gm: the GraphModule.
        sub_gm: the submodule.
        orig_inputs, orig_outputs: the nodes that it takes and that it stands for.
        insertion_point: the node before which it goes.

    >>> from facula.fx.passes.utils.fuser_utils import erase_nodes, fuse_as_graphmodule, insert_subgm
    >>> gm = facula.fx.symbolic_trace(lambda x: (x + 1) * 2 - 3)
    >>> x, plus, times, minus, end = gm.graph.nodes
    >>> fused, inputs, outputs = fuse_as_graphmodule(gm, [plus, times], "Fused")
    >>> gm = insert_subgm(gm, fused, inputs, outputs, insertion_point=minus)
    >>> erase_nodes(gm, [plus, times])
    >>> [node.name for node in gm.graph.nodes]
    ['x', 'fused', 'sub', 'output']
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    place = insertion_point or next(n for n in reversed(gm.graph.nodes) if n.op != "output")
    with gm.graph.inserting_before(insertion_point) if insertion_point else gm.graph.inserting_after(place):
        call = gm.graph.call_module(name, args=orig_inputs)
        output = sub_gm.graph.output_node().args[0]
        if len(orig_outputs) == 1 and not isinstance(output, tuple):
            orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
            return gm
    with gm.graph.inserting_after(call):
        # Each is put right behind the call, so that the first one has to come last.
        for at, old in reversed(list(enumerate(orig_outputs))):
            old.replace_all_uses_with(Proxy(call)[at].node, propagate_meta=True)
    call.meta["val"] = tuple(old.meta.get("val", None) for old in orig_outputs)
    return gm


@compatibility(is_backward_compatible=False)
def erase_nodes(gm: GraphModule | None, nodes: Iterable[Node]) -> None:
    """Take nodes out, the last first.

    Args:
        gm: the GraphModule.
        nodes: the nodes, in order.

    Errors: RuntimeError where another node still uses one.

    >>> from facula.fx.passes.utils.fuser_utils import erase_nodes
    >>> graph = facula.fx.Graph()
    >>> erase_nodes(None, [])
    """
    for node in reversed(nodes):
        gm.graph.erase_node(node)


@compatibility(is_backward_compatible=False)
def fuse_by_partitions(gm: Module, partitions: Sequence[dict[Node, None]], prefix: str = "fused_",
                       always_return_tuple: bool = False) -> Module:  # fmt: skip
    """Put a submodule in the place of each of several groups of nodes.

    Args:
        gm: the GraphModule.
        partitions: dicts whose keys are nodes.
        prefix: of the submodules' names.
        always_return_tuple: if True, submodules return tuples also of one value.

    >>> from facula.fx.passes.utils.fuser_utils import fuse_by_partitions
    >>> gm = facula.fx.symbolic_trace(lambda x: (x + 1) * 2 - 3)
    >>> x, plus, times, minus, end = gm.graph.nodes
    >>> [node.name for node in fuse_by_partitions(gm, [{plus: None, times: None}]).graph.nodes]
    ['x', 'fused_0', 'sub', 'output']
    """
    for number, nodes in enumerate(partitions):
        order = topo_sort(sorted(nodes))
        inner, inputs, outputs = fuse_as_graphmodule(
            gm, order, f"{prefix}{number}", nodes, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, inner, inputs, outputs, insertion_point=order[-1].next if order[-1].next.op != "root" else None)
        erase_nodes(gm, order)
    legalize_graph(gm)
    gm.graph.lint()
    return gm
