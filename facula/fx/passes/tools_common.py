"""Helpers of passes: names of targets, order of nodes."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

import facula
from facula.fx import _public
from facula.fx._compatibility import compatibility
from facula.fx.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from facula.fx.node import Node
    from facula.nn.modules.module import Module

__all__ = ["get_acc_ops_name", "get_node_target", "is_node_output_tensor", "FxNetAccFusionsFinder", "legalize_graph",
           "stable_topological_sort"]  # fmt: skip

Tensors = tuple | list
TensorOrTensors = Any
NodeList = list
NodeSet = set
Names = list
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


@compatibility(is_backward_compatible=False)
def get_acc_ops_name(k: Callable[..., Any]) -> str:
    """The name of an op by which tables of supported ops know it.

    Args:
        k: the function, or its name.
    """
    if isinstance(k, str):
        return k
    return _public.qualified_name(k)


@compatibility(is_backward_compatible=False)
def get_node_target(submodules: dict[str, Module], node: Node) -> str:
    """The name of what a node calls: a class of modules, a function or a method.

    Args:
        submodules: {path: module}
        node: the node.
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        kind = getattr(module, "_base_class_origin", type(module))
        return f"{_public.torch_module(kind.__module__)}.{kind.__qualname__}"
    return get_acc_ops_name(node.target) if node.op == "call_function" else node.target


@compatibility(is_backward_compatible=False)
def is_node_output_tensor(node: Node) -> bool:
    """Whether a node gives a tensor, by what is noted in its meta.

    Args:
        node: the node.
    """
    kind = node.meta.get("type", None)
    return kind is not None and issubclass(kind, facula.Tensor)


@compatibility(is_backward_compatible=False)
class FxNetAccFusionsFinder:
    """Groups of nodes with values that are no tensors between them, which must stay together.

    Args:
        module: the GraphModule.
        acc_nodes: the nodes that are looked at.
    """

    def __init__(self, module: Module, acc_nodes: Any) -> None:
        self.module = module
        self.nodes: list[Any] = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    def __call__(self) -> dict[Any, Any]:
        group_of = {}
        for node in self.nodes:
            if node not in self.acc_nodes:
                continue
            others = [user for user in node.users if user in self.acc_nodes]
            if node.op == "placeholder" or "tensor_meta" in node.meta or is_node_output_tensor(node) or not others:
                continue
            self._join([node, *others], group_of)
        return dict(group_of)

    def _join(self, nodes, group_of):
        joined = set(nodes)
        for node in nodes:
            joined |= group_of.get(node, set())
        for node in joined:
            group_of[node] = joined


def _waits(graph):
    return {node: len(node.all_input_nodes) for node in graph.nodes}


@compatibility(is_backward_compatible=False)
def legalize_graph(gm: Module) -> Module:
    """Puts nodes behind what they take, inputs first. Changes the module, and gives it.

    Args:
        gm: the GraphModule.
    """
    waits = _waits(gm.graph)
    queue = deque(node for node in gm.graph.nodes if waits[node] == 0 and node.op == "placeholder")
    queue.extend(node for node in gm.graph.nodes if waits[node] == 0 and node.op != "placeholder")
    order = []
    while queue:
        node = queue.popleft()
        order.append(node)
        for user in node.users:
            waits[user] -= 1
            if waits[user] == 0:
                queue.append(user)
    return _in_order(gm, order)


@compatibility(is_backward_compatible=False)
def stable_topological_sort(gm: Module) -> Module:
    """Puts nodes behind what they take, else in the order that they have. Changes the module, and gives it.

    Args:
        gm: the GraphModule.
    """
    waits, position = _waits(gm.graph), {node: at for at, node in enumerate(gm.graph.nodes)}
    heap = [(position[node], node) for node in gm.graph.nodes if waits[node] == 0]
    order = []
    while heap:
        _, node = heapq.heappop(heap)
        order.append(node)
        for user in node.users:
            waits[user] -= 1
            if waits[user] == 0:
                heapq.heappush(heap, (position[user], user))
    return _in_order(gm, order)


def _in_order(gm, order):
    if len(order) < len(gm.graph.nodes):
        raise RuntimeError(f"Input graph has cycles, unable to add {[n for n in gm.graph.nodes if n not in set(order)]}")
    values, graph = {}, Graph()
    for node in order:
        values[node] = graph.node_copy(node, lambda n: values[n])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm
