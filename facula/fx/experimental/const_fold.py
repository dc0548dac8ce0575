"""Compute parts of a graph that do not depend on inputs once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import facula
from facula import fx
from facula.fx.graph_module import GraphModule
from facula.fx.passes.split_module import split_module

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.fx.graph import Graph
    from facula.nn.modules.module import Module

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """Run a graph a part of which is computed once: at the first call, or by `run_folding`.

    Args:
        root, graph: as of GraphModule.
        const_subgraph: the graph of that part.
        fx_const_folded_attrs_name: the attribute that holds what it gives.
        device_for_folded_attrs: where that lies.

    >>> from facula.fx.experimental.const_fold import split_const_subgraphs
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = nn.Parameter(facula.ones(2))
    ...     def forward(self, x):
    ...         return x * (self.w + self.w)
    >>> folded = split_const_subgraphs(Net())
    >>> folded.run_folding()
    >>> folded(facula.tensor([1.0, 2.0]))
    tensor([2., 4.], grad_fn=<MulBackward0>)
    >>> [node.op for node in folded.graph.nodes]
    ['placeholder', 'get_attr', 'call_function', 'output']
    """

    def __init__(self, root: Module, graph: Graph, const_subgraph: Graph | None = None,
                 fx_const_folded_attrs_name: str | None = None, device_for_folded_attrs: str = "cpu") -> None:  # fmt: skip
        super().__init__(root, graph)
        self.const_subgraph_module: GraphModule | None = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute what does not depend on inputs."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("run_folding: the graph was folded already")
        self.has_folding_been_run: bool = True
        folded = self.const_subgraph_module()
        as_parameter = lambda t: facula.nn.Parameter(t.detach() if not t.is_leaf else t, requires_grad=t.requires_grad)
        if isinstance(folded, facula.Tensor):
            setattr(self, self.fx_const_folded_attrs_name, as_parameter(folded))
        else:
            setattr(self, self.fx_const_folded_attrs_name, facula.nn.ParameterList([as_parameter(t) for t in folded]))


def get_unique_attr_name_in_module(mod_traced: Module, name: str) -> str:
    """Return an attribute name that the module does not have.

    Args:
        mod_traced: the module.
        name: what it would be.

    >>> from facula.fx.experimental.const_fold import get_unique_attr_name_in_module
    >>> get_unique_attr_name_in_module(nn.Linear(1, 1), "weight")
    'weight_1'
    """
    name = re.sub(r"[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        match = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if match is None else f"{match.group(1)}_{int(match.group(2)) + 1}"
    return name


def _constant_nodes(gm, skip):
    """Return the calls that depend on attributes only."""
    constant, found = set(), False
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "get_attr" and not set(node.all_input_nodes) <= constant:
            continue
        if node.op != "get_attr" and (not node.all_input_nodes or skip and skip(node) or node.is_impure()):
            continue
        constant.add(node)
        found = found or node.op != "get_attr"
    return constant if found else set()


def split_const_subgraphs(module: Module, skip_folding_node_fn: Any = None,
                          device_for_folded_attrs: str = "cpu") -> FoldedGraphModule:  # fmt: skip
    """Return a FoldedGraphModule: what depends on attributes only is a part of its own.

    Args:
        module: the module.
        skip_folding_node_fn: node -> whether it stays where it is.
        device_for_folded_attrs: where the results of that part lie.

    >>> from facula.fx.experimental.const_fold import split_const_subgraphs
    >>> folded = split_const_subgraphs(nn.Sequential(nn.ReLU()))
    >>> folded.const_subgraph_module is None
    True
    """
    traced = module if isinstance(module, GraphModule) else fx.symbolic_trace(module)
    constant = _constant_nodes(traced, skip_folding_node_fn)
    if not constant:
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constant else 1)
    inner, outer = split.submod_0, split.submod_1
    _copy_attributes(split, inner)
    call = next(node for node in split.graph.nodes if node.op == "call_module" and node.target == "submod_0")
    for own, given in zip([n for n in inner.graph.nodes if n.op == "placeholder"], call.args):
        with inner.graph.inserting_before(own):
            attribute = inner.graph.get_attr(given.target)
        own.replace_all_uses_with(attribute)
        inner.graph.erase_node(own)
    inner.recompile()
    return _joined(split, inner, outer, call, device_for_folded_attrs)


def _copy_attributes(source, target):
    for node in source.graph.nodes:
        if node.op == "get_attr":
            fx.graph_module._copy_attr(source, target, node.target)


def _joined(split, inner, outer, call, device):
    """Return one graph of both parts: the first is an attribute."""
    name = get_unique_attr_name_in_module(split, "_FX_CONST_FOLDED_ATTRS")
    several = isinstance(inner.graph.output_node().args[0], tuple)
    count = len(inner.graph.output_node().args[0]) if several else 1
    holder = facula.nn.ParameterList([facula.nn.Parameter(facula.empty(0))] * count) if several else None
    setattr(split, name, holder if several else facula.nn.Parameter(facula.empty(0)))
    with split.graph.inserting_before(call):
        attribute = split.graph.get_attr(name)
    call.replace_all_uses_with(attribute)
    split.graph.erase_node(call)
    _inline(split, outer)
    split.graph.eliminate_dead_code()
    root = facula.nn.Module()
    for node in (*split.graph.nodes, *inner.graph.nodes):
        if node.op in ("get_attr", "call_module"):
            source = split if node.graph is split.graph else inner
            fx.graph_module._copy_attr(source, root, node.target)
    return FoldedGraphModule(root, split.graph, inner.graph, name, device)


def _inline(split, outer):
    """Put the nodes of a called GraphModule in the place of the call."""
    call = next(node for node in split.graph.nodes if node.op == "call_module" and node.target == "submod_1")
    values = dict(zip([n for n in outer.graph.nodes if n.op == "placeholder"], call.args))
    for node in outer.graph.nodes:
        if node.op in ("call_module", "get_attr"):
            fx.graph_module._copy_attr(outer, split, node.target)
    with split.graph.inserting_before(call):
        result = split.graph.graph_copy(outer.graph, values)
    if isinstance(result, fx.Node):
        call.replace_all_uses_with(result)
    else:
        for user in list(call.users):
            user.replace_all_uses_with(result[user.args[1]])
            split.graph.erase_node(user)
    split.graph.erase_node(call)


