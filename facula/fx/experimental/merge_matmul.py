"""Merge products of several matrices with the same matrix into one product."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

import facula
from facula.fx._symbolic_trace import symbolic_trace
from facula.fx.node import Node
from facula.fx.passes.tools_common import legalize_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from facula import Tensor
    from facula.fx.graph_module import GraphModule
    from facula.nn.modules.module import Module

__all__ = ["split_result_tensors", "may_depend_on", "are_nodes_independent", "merge_matmul"]


def split_result_tensors(result: Tensor, inputs: Any) -> tuple[Tensor, ...]:
    """Return the parts of a product that belong to each of the matrices that were put together.

    Args:
        result: the product.
        inputs: the matrices.

    >>> from facula.fx.experimental.merge_matmul import split_result_tensors
    >>> parts = split_result_tensors(facula.ones(5, 2), [facula.ones(2, 3), facula.ones(3, 3)])
    >>> [part.shape for part in parts]
    [torch.Size([2, 2]), torch.Size([3, 2])]
    """
    if isinstance(result, facula.fx.Proxy):
        sizes = [0] * len(inputs)
    else:
        sizes = [x.shape[0] for x in inputs]
    return facula.split(result, sizes)


def may_depend_on(a: Any, b: Node, search_depth: int = 6) -> bool:
    """Return whether a node may be computed from another.

    Args:
        a, b: the nodes: `a` from `b`.
        search_depth: how far is looked; beyond, the answer is yes.

    >>> from facula.fx.experimental.merge_matmul import may_depend_on
    >>> x, one, two, end = facula.fx.symbolic_trace(lambda x: (x + 1) * 2).graph.nodes
    >>> may_depend_on(two, x), may_depend_on(x, two)
    (True, False)
    """
    if a is b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any(may_depend_on(used, b, search_depth - 1) for used in a.all_input_nodes)


def are_nodes_independent(nodes: Iterable[Node]) -> bool:
    """Return whether none of some nodes is computed from another.

    Args:
        nodes: the nodes.

    >>> from facula.fx.experimental.merge_matmul import are_nodes_independent
    >>> x, one, two, product, end = facula.fx.symbolic_trace(lambda x: (x + 1) * (x + 2)).graph.nodes
    >>> are_nodes_independent([one, two]), are_nodes_independent([one, product])
    (True, False)
    """
    return not any(may_depend_on(a, b) or may_depend_on(b, a) for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod: Callable[..., Any] | Module) -> GraphModule:
    """Return a GraphModule in which products `a @ w`, `b @ w`, ... with one matrix `w` are one product.

    Args:
        in_mod: the module.

    >>> from facula.fx.experimental.merge_matmul import merge_matmul
    >>> class Net(nn.Module):
    ...     def forward(self, a, b, w):
    ...         return a @ w + b @ w
    >>> merged = merge_matmul(Net())
    >>> sum(node.target is facula.matmul for node in merged.graph.nodes)
    1
    >>> merged(facula.ones(1, 2), facula.ones(1, 2), facula.ones(2, 1))
    tensor([[4.]])
    """
    gm = symbolic_trace(in_mod)
    groups = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in (facula.matmul, operator.matmul) and len(node.args) == 2:
            if isinstance(node.args[1], Node):
                groups.setdefault(_same_operand(node.args[1]), []).append(node)
    for nodes in groups.values():
        if len(nodes) > 1 and are_nodes_independent(nodes):
            _merge(gm, nodes)
    gm.graph.lint()
    gm.recompile()
    return gm


def _same_operand(node):
    """Return what is equal for nodes that read the same."""
    return (node.op, node.target) if node.op == "get_attr" else node


def _merge(gm, nodes):
    left, right = [node.args[0] for node in nodes], nodes[0].args[1]
    with gm.graph.inserting_after(nodes[-1]):
        joined = gm.graph.call_function(facula.cat, (left,))
        product = gm.graph.call_function(facula.matmul, (joined, right))
        parts = gm.graph.call_function(split_result_tensors, (product, left))
        items = [gm.graph.call_function(operator.getitem, (parts, at)) for at in range(len(nodes))]
    for node, item in zip(nodes, items):
        node.replace_all_uses_with(item)
        gm.graph.erase_node(node)
    gm.graph.lint() if _is_ordered(gm) else legalize_graph(gm)


def _is_ordered(gm):
    seen = set()
    for node in gm.graph.nodes:
        if not set(node.all_input_nodes) <= seen:
            return False
        seen.add(node)
    return True


