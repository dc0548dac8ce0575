"""Partition a graph into the largest parts that a backend supports."""

from __future__ import annotations

import itertools
import logging
import operator
from typing import TYPE_CHECKING, Any

from facula.fx.passes.tools_common import get_node_target
from facula.fx.passes.utils import _cycles
from facula.fx.passes.utils.fuser_utils import fuse_by_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from facula.fx.node import Node
    from facula.nn.modules.module import Module

logger: Any = logging.getLogger(__name__)


class Partition:
    """Hold some nodes of a graph.

    Args:
        id: the number of the partition.
        nodes: the nodes.
        node_orders: accepted; nodes know their order.

    >>> from facula.fx.passes.infra.partitioner import Partition
    >>> x = facula.fx.Graph().placeholder("x")
    >>> part = Partition(0)
    >>> part.add_node(x)
    >>> part.size(), part
    (1, {x: None})
    >>> part.remove_node(x)
    """

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Any = None) -> None:
        del node_orders
        self.id = id
        self.nodes: dict[Node, Any | None] = dict.fromkeys(nodes or ())

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: Any = None) -> None:
        """Add a node.

        Args:
            node: the node.
            node_order: accepted; the node knows its order.
        """
        del node_order
        self.nodes[node] = None

    def remove_node(self, node: Node) -> None:
        """Take a node out.

        Args:
            node: the node.
        """
        del self.nodes[node]

    def size(self) -> int:
        """Return how many nodes."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Find supported parts of a graph that are as large as possible without a cycle.

    Args:
        graph_module: the GraphModule.
        operator_support: says which nodes are supported.
        allows_single_node_partition: if True, a part may be one node.
        non_compute_ops: names of ops that do not count as computation.
        allowed_single_node_partition_ops: names of ops that may be a part alone.
        skip_horizontal_fusion: if True, parts that only share an input stay apart.

    >>> from facula.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    >>> from facula.fx.passes.operator_support import OperatorSupport
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.exp(facula.tanh(facula.relu(x))))
    >>> support = OperatorSupport({"torch.relu": None, "torch.tanh": None})
    >>> partitioner = CapabilityBasedPartitioner(gm, support)
    >>> parts = partitioner.propose_partitions()
    >>> [sorted(node.name for node in part.nodes) for part in parts]
    [['relu', 'tanh']]
    >>> partitioner.remove_bookend_non_compute_ops(parts)
    >>> print(partitioner.fuse_partitions(parts).code.strip())
    def forward(self, x):
        fused_0 = self.fused_0(x);  x = None
        exp = torch.exp(fused_0);  fused_0 = None
        return exp
    """

    graph_module: Module
    operator_support: Any

    def __init__(self, graph_module: Module, operator_support: Any, allows_single_node_partition: bool = False,
                 non_compute_ops: Any = None, allowed_single_node_partition_ops: Any = None,
                 skip_horizontal_fusion: bool = False) -> None:  # fmt: skip
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops: Any = non_compute_ops if non_compute_ops is not None else []
        self.allowed_single_node_partition_ops: Any = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node):
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """Return the list of Partitions, the last in the graph first."""
        modules = dict(self.graph_module.named_modules())
        numbers, owner, parts = itertools.count(), {}, {}
        for node in reversed(self.graph_module.graph.nodes):
            candidates = {}
            if node.op not in ("placeholder", "output", "get_attr") and self.operator_support.is_node_supported(modules, node):
                number = next(numbers)
                owner[node], parts[number] = number, Partition(number, [node])
                candidates[number] = None
            candidates.update(dict.fromkeys(owner[user] for user in node.users if user in owner))
            if self.skip_horizontal_fusion and node not in owner:
                continue
            first, *rest = candidates or [None]
            for other in rest:
                self._merge(first, other, owner, parts)
        self._keep_items_with_tuples(owner, parts)
        found = [part for part in parts.values() if part.nodes]
        return found if self.allows_single_node_partition else self._without_small(found)

    def _merge(self, number, other, owner, parts):
        """Join two partitions, unless a way leads from one out and back into the other."""
        if number == other or number not in parts or other not in parts:
            return
        joined = {**parts[number].nodes, **parts[other].nodes}

        def together(node):  # another partition counts as one node
            return parts[owner[node]].nodes if node in owner and owner[node] not in (number, other) else (node,)

        if _cycles.leads_back(joined, together):
            return
        for node in parts[other].nodes:
            owner[node] = number
            parts[number].add_node(node)
        del parts[other]

    def _keep_items_with_tuples(self, owner, parts):
        """Take an item of a tuple where the tuple is made."""
        for node in self.graph_module.graph.nodes:
            for user in node.users if not _takes_item(node) else ():
                if not _takes_item(user) or owner.get(user) == owner.get(node):
                    continue
                if user in owner:
                    parts[owner[user]].remove_node(user)
                    del owner[user]
                if node in owner:
                    owner[user] = owner[node]
                    parts[owner[node]].add_node(user)

    def _without_small(self, parts):
        non_compute = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        modules = dict(self.graph_module.named_modules())
        kept = []
        for part in parts:
            names = [get_node_target(modules, n) for n in part.nodes if n.op in ("call_function", "call_module", "call_method")]
            computing = [name for name in names if name not in non_compute]
            if len(computing) > 1 or set(names) & set(self.allowed_single_node_partition_ops):
                kept.append(part)
        return kept

    def fuse_partitions(self, partitions: Sequence[Partition], prefix: str = "fused_") -> Module:
        """Return a GraphModule with a submodule in the place of each partition.

        Args:
            partitions: the Partitions.
            prefix: of the submodules' names.
        """
        return fuse_by_partitions(self.graph_module, [dict(part.nodes) for part in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: Any) -> None:
        """Take out of partitions the ops at their ends that do not compute.

        Args:
            partitions: the Partitions.
        """
        modules = dict(self.graph_module.named_modules())
        idle = lambda node: node.op == "call_function" and get_node_target(modules, node) in self.non_compute_ops
        for part in partitions:
            for neighbors in (lambda n: n.all_input_nodes, lambda n: n.users):
                changed = True
                while changed:
                    ends = [n for n in part.nodes if idle(n) and not any(m in part.nodes for m in neighbors(n))]
                    changed = bool(ends)
                    for node in ends:
                        part.remove_node(node)

    def partition_and_fuse(self, prefix: str = "fused_") -> Module:
        """Return `fuse_partitions` of `propose_partitions`.

        Args:
            prefix: of the submodules' names.

        >>> from facula.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        >>> from facula.fx.passes.operator_support import create_op_support
        >>> gm = facula.fx.symbolic_trace(lambda x: facula.tanh(facula.relu(x)))
        >>> support = create_op_support(lambda submodules, node: node.op == "call_function")
        >>> [name for name, _ in CapabilityBasedPartitioner(gm, support).partition_and_fuse().named_children()]
        ['fused_0']
        """
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)


def _takes_item(node):
    return node.op == "call_function" and node.target is operator.getitem
