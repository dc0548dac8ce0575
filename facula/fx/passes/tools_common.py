"""Define helpers of passes: names of targets, order of nodes."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

import facula
from facula.fx import _public
from facula.fx._compatibility import compatibility
from facula.fx.graph import Graph

if TYPE_CHECKING:
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
def get_acc_ops_name(k: Any) -> str:
    """Return the name of an op by which tables of supported ops know it.

    Args:
        k: the function, or its name.

    >>> from facula.fx.passes.tools_common import get_acc_ops_name
    >>> get_acc_ops_name(facula.relu), get_acc_ops_name("mine")
    ('torch.relu', 'mine')
    """
    if isinstance(k, str):
        return k
    return _public.qualified_name(k)


@compatibility(is_backward_compatible=False)
def get_node_target(submodules: dict[str, Module], node: Node) -> str:
    """Return the name of what a node calls: a class of modules, a function or a method.

    Args:
        submodules: {path: module}
        node: the node.

    Errors: AssertionError for a node that is no call.

    >>> from facula.fx.passes.tools_common import get_node_target
    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    >>> get_node_target(dict(gm.named_modules()), list(gm.graph.nodes)[1])
    'torch.nn.modules.activation.ReLU'
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"get_node_target: op must be one of {', '.join(CALLABLE_NODE_OPS)}, got {node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        kind = getattr(module, "_base_class_origin", type(module))
        return f"{_public.torch_module(kind.__module__)}.{kind.__qualname__}"
    return get_acc_ops_name(node.target) if node.op == "call_function" else node.target


@compatibility(is_backward_compatible=False)
def is_node_output_tensor(node: Node) -> bool:
    """Return whether a node gives a tensor, by what is noted in its meta.

    Args:
        node: the node.

    >>> from facula.fx.passes.shape_prop import ShapeProp
    >>> from facula.fx.passes.tools_common import is_node_output_tensor
    >>> gm = facula.fx.symbolic_trace(lambda x: x.size(0))
    >>> y = ShapeProp(gm).propagate(facula.ones(2))
    >>> [is_node_output_tensor(node) for node in gm.graph.nodes]
    [True, False, False]
    """
    kind = node.meta.get("type", None)
    return kind is not None and issubclass(kind, facula.Tensor)


@compatibility(is_backward_compatible=False)
class FxNetAccFusionsFinder:
    """Find groups of nodes that must stay together because the values between them are not tensors.

    Args:
        module: the GraphModule.
        acc_nodes: the nodes that are looked at.

    Calling it gives {node: the set of nodes that it stays together with}.

    >>> from facula.fx.passes.tools_common import FxNetAccFusionsFinder
    >>> gm = facula.fx.symbolic_trace(lambda x: x.reshape(x.size(0), -1))
    >>> groups = FxNetAccFusionsFinder(gm, {node for node in gm.graph.nodes if node.op == "call_method"})()
    >>> sorted((node.name, sorted(member.name for member in group)) for node, group in groups.items())
    [('reshape', ['reshape', 'size']), ('size', ['reshape', 'size'])]
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
    """Put nodes behind what they take, inputs first. Changes the module, and gives it.

    Args:
        gm: the GraphModule.

    Errors: RuntimeError where nodes take from each other in a circle.

    >>> from facula.fx.passes.tools_common import legalize_graph
    >>> gm = facula.fx.symbolic_trace(lambda x: (x + 1) * 2)
    >>> x, plus, times, end = gm.graph.nodes
    >>> x.append(times)
    >>> [node.name for node in gm.graph.nodes], [node.name for node in legalize_graph(gm).graph.nodes]
    (['x', 'mul', 'add', 'output'], ['x', 'add', 'mul', 'output'])
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
    """Put nodes behind what they take, else in the order that they have. Changes the module, and gives it.

    Args:
        gm: the GraphModule.

    Errors: RuntimeError where nodes take from each other in a circle.

    >>> from facula.fx.passes.tools_common import stable_topological_sort
    >>> gm = facula.fx.symbolic_trace(lambda x: (x + 1) * 2)
    >>> x, plus, times, end = gm.graph.nodes
    >>> x.append(times)
    >>> [node.name for node in stable_topological_sort(gm).graph.nodes]
    ['x', 'add', 'mul', 'output']
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
        raise RuntimeError(
            "legalize_graph: the nodes depend on one another in a circle, got "
            f"{[n for n in gm.graph.nodes if n not in set(order)]}"
        )
    values, graph = {}, Graph()
    for node in order:
        values[node] = graph.node_copy(node, lambda n: values[n])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm
