"""Compute the sizes of nodes, and replace their targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import facula
from facula.fx._compatibility import compatibility
from facula.fx.graph import Graph
from facula.fx.node import map_arg
from facula.fx.passes.shape_prop import ShapeProp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.fx.node import Node
    from facula.nn.modules.module import Module

__all__ = ["replace_target_nodes_with", "size_bytes", "get_size_of_all_nodes", "get_tensor_meta", "get_size_of_node"]


@compatibility(is_backward_compatible=False)
def replace_target_nodes_with(fx_module: Module, old_op: str, old_target: Any, new_op: str,
                              new_target: Any) -> None:  # fmt: skip
    """Give the nodes of one target another, in a new graph of the module.

    Args:
        fx_module: the GraphModule.
        old_op, old_target: which nodes.
        new_op, new_target: what they become.

    >>> from facula.fx.passes.graph_manipulation import replace_target_nodes_with
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.relu(x))
    >>> replace_target_nodes_with(gm, "call_function", facula.relu, "call_function", facula.tanh)
    >>> gm(facula.tensor(0.0))
    tensor(0.)
    """
    graph, values = Graph(), {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = (map_arg(part, lambda n: values[n]) for part in (node.args, node.kwargs))
            if not isinstance(args, tuple):
                raise AssertionError(f"replace_target_nodes_with: args must be a tuple, got {type(args)}")
            values[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            values[node] = graph.node_copy(node, lambda n: values[n])
    fx_module.graph = graph


@compatibility(is_backward_compatible=False)
class size_bytes(NamedTuple):  # noqa: N801
    """Hold the bytes of a node; `get_size_of_node` returns it.

    Args:
        output_size: those of its result.
        total_size: those of its result and, of a call of a module, its parameters and buffers.

    >>> from facula.fx.passes.graph_manipulation import size_bytes
    >>> size_bytes(output_size=8, total_size=24)
    size_bytes(output_size=8, total_size=24)
    """

    output_size: int
    total_size: int


@compatibility(is_backward_compatible=False)
def get_size_of_all_nodes(fx_module: Module, args: Sequence[Tensor] | None = None) -> None:
    """Note in every node how many bytes it has (`size_bytes`).

    Args:
        fx_module: the GraphModule.
        args: arguments to run it on; without, shapes must be known.

    >>> from facula.fx.passes.graph_manipulation import get_size_of_all_nodes
    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2)))
    >>> get_size_of_all_nodes(gm, (facula.ones(4, 3),))
    >>> list(gm.graph.nodes)[1].size_bytes
    size_bytes(output_size=32, total_size=64)
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


@compatibility(is_backward_compatible=False)
def get_tensor_meta(node: Node) -> Any:
    """Return the TensorMetadata of a node; RuntimeError where there is none.

    Args:
        node: the node.

    >>> from facula.fx.passes.graph_manipulation import get_tensor_meta
    >>> from facula.fx.passes.shape_prop import ShapeProp
    >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
    >>> y = ShapeProp(gm).propagate(facula.ones(2))
    >>> get_tensor_meta(list(gm.graph.nodes)[1]).shape
    torch.Size([2])
    """
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(f"get_tensor_meta: {node} has no tensor_meta yet, run ShapeProp first")
    return found


@compatibility(is_backward_compatible=False)
def get_size_of_node(fx_module: Module, node: Node) -> size_bytes:
    """Return the bytes of a node: its result, and its parameters.

    Args:
        fx_module: the GraphModule.
        node: the node.

    The sizes must be known: run ShapeProp before.

    >>> from facula.fx.passes.graph_manipulation import get_size_of_node
    >>> from facula.fx.passes.shape_prop import ShapeProp
    >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
    >>> y = ShapeProp(gm).propagate(facula.ones(2))
    >>> get_size_of_node(gm, list(gm.graph.nodes)[1])
    size_bytes(output_size=8, total_size=8)
    """
    elements = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        elements += sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    meta = get_tensor_meta(node)
    metas = list(meta) if not hasattr(meta, "shape") else [meta]
    given = sum(m.shape.numel() for m in metas)
    each = facula.tensor([], dtype=metas[0].dtype).element_size()
    return size_bytes(each * given, each * (elements + given))
