"""Make models run faster: fold batch normalization into the layer before it, and leave dropout out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from facula import fx, nn
from facula.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from facula.fx.graph_module import GraphModule
    from facula.fx.node import Node
    from facula.nn.modules.module import Module

__all__ = ["matches_module_pattern", "replace_node_module", "fuse", "remove_dropout", "extract_subgraph",
           "optimize_for_inference", "UnionFind"]  # fmt: skip


def _parent_name(target):
    """Return (path of what holds it, its name there)."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Sequence[type], node: Node, modules: dict[str, Module]) -> bool:
    """Return whether a node calls a module of the last class of a pattern on what one of the first gives.

    Args:
        pattern: two classes of modules.
        node: the node.
        modules: {path: module}

    >>> from facula.fx.experimental.optimization import matches_module_pattern
    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    >>> x, lin, norm, end = gm.graph.nodes
    >>> matches_module_pattern((nn.Linear, nn.BatchNorm1d), norm, dict(gm.named_modules()))
    True
    """
    if not node.args:
        return False
    for expected, found in zip(pattern, (node.args[0], node)):
        if not isinstance(found, fx.Node) or found.op != "call_module" or not isinstance(found.target, str):
            return False
        if found.target not in modules or type(modules[found.target]) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Module], new_module: Module) -> None:
    """Put another module in the place of the one that a node calls.

    Args:
        node: the node.
        modules: {path: module}, which is changed too.
        new_module: the module.

    >>> from facula.fx.experimental.optimization import replace_node_module
    >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    >>> replace_node_module(list(gm.graph.nodes)[1], dict(gm.named_modules()), nn.Tanh())
    >>> gm.get_submodule("0")
    Tanh()
    """
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


_PATTERNS = [
    (nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d), (nn.Linear, nn.BatchNorm1d),
]  # fmt: skip


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Fold batch normalizations into the convolutions and linear layers before them; for evaluation.

    Args:
        model: the module.
        inplace: if True, the module itself may be changed.
        no_trace: if True, it is a GraphModule already.

    >>> from facula.fx.experimental.optimization import fuse
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    >>> fused, x = fuse(model), facula.rand(3, 2)
    >>> sum(node.op == "call_module" for node in fused.graph.nodes), facula.allclose(fused(x), model(x), atol=1e-6)
    (1, True)
    """
    if not inplace:
        model = copy.deepcopy(model)
    if not no_trace or not isinstance(model, fx.GraphModule):
        model = fx.symbolic_trace(model)
    modules, graph = dict(model.named_modules()), copy.deepcopy(model.graph)
    for pattern in _PATTERNS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            first, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            fold = fuse_linear_bn_eval if pattern[0] is nn.Linear else fuse_conv_bn_eval
            replace_node_module(node.args[0], modules, fold(first, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return fx.GraphModule(model, graph)


def remove_dropout(model: Module) -> GraphModule:
    """Leave dropout modules out.

    Args:
        model: the module.

    >>> from facula.fx.experimental.optimization import remove_dropout
    >>> remove_dropout(nn.Sequential(nn.ReLU(), nn.Dropout(0.5)))(facula.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    traced = fx.symbolic_trace(model)

    class Remover(fx.Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return Remover(traced).transform()


def extract_subgraph(orig_module: Any, nodes: Iterable[Node], inputs: Any, outputs: Any) -> GraphModule:
    """Return a GraphModule of some nodes.

    Args:
        orig_module: the module that they call submodules of.
        nodes: the nodes, in order.
        inputs, outputs: the nodes that they take and give.

    >>> from facula.fx.experimental.optimization import extract_subgraph
    >>> gm = facula.fx.symbolic_trace(lambda x: (x + 1) * 2)
    >>> x, plus, times, end = gm.graph.nodes
    >>> extract_subgraph(gm, [times], [plus], [times])(5)
    [10]
    """
    graph, values = fx.Graph(), {}
    for node in inputs:
        values[node] = graph.placeholder(node.name)
    for node in nodes:
        values[node] = graph.node_copy(node, lambda n: values[n])
    graph.output([values[node] for node in outputs])
    graph.lint()
    return fx.GraphModule(orig_module, graph)


def optimize_for_inference(model: Module, pass_config: Any = None, tracer: type = fx.Tracer) -> GraphModule:
    """Return a model for evaluation: batch normalizations folded, dropout left out.

    Args:
        model: the module.
        pass_config: {"conv_bn_fuse": bool, "remove_dropout": bool, "mkldnn_layout_optimize": bool}; Facula's products and
            convolutions keep weights in the order of their kernels by themselves, so that the last changes nothing.
        tracer: the class of the tracer.

    >>> from facula.fx.experimental.optimization import optimize_for_inference
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)).eval()
    >>> sum(node.op == "call_module" for node in optimize_for_inference(model).graph.nodes)
    1
    """
    wanted = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if wanted["conv_bn_fuse"]:
        model = fuse(model)
    if wanted["remove_dropout"]:
        model = remove_dropout(model)
    traced = tracer()
    graph = traced.trace(copy.deepcopy(model))
    return fx.GraphModule(traced.root, graph)


class UnionFind:
    """Hold disjoint sets of numbers.

    Args:
        n: how many numbers.

    >>> from facula.fx.experimental.optimization import UnionFind
    >>> sets = UnionFind(3)
    >>> for v in range(3):
    ...     sets.make_set(v)
    >>> sets.join(0, 2)
    0
    >>> [sets.find(v) for v in range(3)]
    [0, 1, 0]
    """

    parent: Any
    size: Any

    def __init__(self, n: int) -> None:
        self.parent, self.size = [None] * n, [0] * n

    def make_set(self, v: Any) -> None:
        """Make a set of one number.

        Args:
            v: the number.

        >>> from facula.fx.experimental.optimization import UnionFind
        >>> sets = UnionFind(1)
        >>> sets.make_set(0)
        """
        self.parent[v], self.size[v] = v, 1

    def find(self, v: Any) -> Any:
        """Return the number that stands for the set of `v`.

        Args:
            v: a number.
        """
        while self.parent[v] != v:
            self.parent[v] = self.parent[self.parent[v]]
            v = self.parent[v]
        return v

    def join(self, a: Any, b: Any) -> Any:
        """Make one set of two; give the number that stands for it.

        Args:
            a, b: a number of each.
        """
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return a
