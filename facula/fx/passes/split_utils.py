"""Split a graph by tags on its nodes."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import facula
from facula.fx._compatibility import compatibility
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import map_arg
from facula.fx.passes.utils.common import HolderModule, lift_subgraph_as_module

if TYPE_CHECKING:
    from facula.nn.modules.module import Module

__all__ = ["getattr_recursive", "setattr_recursive", "Component", "split_by_tags"]


@compatibility(is_backward_compatible=False)
def getattr_recursive(obj: Any, name: str) -> Any:
    """Return what lies at a path of an object, or None.

    Args:
        obj: the object.
        name: the path.

    >>> from facula.fx.passes.split_utils import getattr_recursive
    >>> getattr_recursive(nn.Sequential(nn.Linear(2, 3)), "0.bias").shape
    torch.Size([3])
    """
    for part in name.split("."):
        if isinstance(obj, facula.nn.ModuleList):
            obj = obj[int(part)] if part.isdigit() else getattr(obj, part, None)
        elif not hasattr(obj, part):
            return None
        else:
            obj = getattr(obj, part)
    return obj


@compatibility(is_backward_compatible=False)
def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Put a value at a path of an object.

    Args:
        obj: the object.
        attr: the path.
        value: the value.

    >>> from facula.fx.passes.split_utils import setattr_recursive
    >>> model = nn.Sequential(nn.Dropout(0.5))
    >>> setattr_recursive(model, "0.p", 0.1)
    >>> model
    Sequential(
      (0): Dropout(p=0.1, inplace=False)
    )
    """
    first, _, rest = attr.partition(".")
    if rest:
        setattr_recursive(getattr(obj, first), rest, value)
    else:
        setattr(obj, first, value)


@dataclass
class Component:
    """Hold a part of a split; `split_by_tags` makes one for each tag.

    Args:
        graph: its graph.
        order: the place of its tag.
        name: its tag.
        input_placeholders: its inputs.
        orig_inputs: the nodes of the original that they stand for.
        orig_outputs: the nodes of the original that it gives.
        getattr_maps: {path here: path in the original} of what it reads.
        constructor_args: nothing here.
        gm: its GraphModule, once it is made.

    >>> from facula.fx.passes.split_utils import Component
    >>> Component(facula.fx.Graph(), order=0, name="first").orig_inputs
    []
    """

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Any] = field(default_factory=list)
    orig_inputs: list[Any] = field(default_factory=list)
    orig_outputs: list[Any] = field(default_factory=list)
    getattr_maps: dict[Any, Any] = field(default_factory=dict)
    constructor_args: list[Any] = field(default_factory=list)
    gm: GraphModule | None = None


@compatibility(is_backward_compatible=False)
def split_by_tags(gm: Module, tags: Any, return_fqn_mapping: bool = False, return_tuple: bool = False,
                  GraphModuleCls: type = GraphModule) -> GraphModule:  # fmt: skip
    """Return a GraphModule that calls one submodule for each tag; every node has one, as its attribute `tag`.

    Args:
        gm: the GraphModule.
        tags: the tags, in the order in which the parts run.
        return_fqn_mapping: if True, also return {path in the result: path in `gm`}.
        return_tuple: if True, every part returns a tuple.
        GraphModuleCls: the class of the results.

    >>> from facula.fx.passes.split_utils import split_by_tags
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.tanh(facula.relu(x)))
    >>> for node in gm.graph.nodes:
    ...     node.tag = "first" if node.name == "relu" else "second"
    >>> print(split_by_tags(gm, ["first", "second"]).code.strip())
    def forward(self, x):
        first = self.first(x);  x = None
        second = self.second(first);  first = None
        return second
    """
    parts = {tag: Component(Graph(), at, tag) for at, tag in enumerate(tags)}
    place, inside = {}, {}
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if not hasattr(node, "tag"):
            raise AssertionError(f"split_by_tags: each node needs a tag, got none of {node.format_node()}")
        part = parts[node.tag]
        _bring_inputs(part, node, place, inside)
        new = part.graph.node_copy(node, lambda n, p=part: inside[p.name, n])
        inside[part.name, node] = new
        place[node] = part
    _note_outputs(gm, parts, place)
    names = {}
    for part in parts.values():
        values = tuple(inside[part.name, node] for node in part.orig_outputs)
        part.graph.output(values[0] if len(values) == 1 and not return_tuple else values)
        part.gm, found = lift_subgraph_as_module(gm, part.graph, class_name="GraphModule")
        part.getattr_maps = found
        names.update({f"{part.name}.{new}": old for new, old in found.items()})
    root = _main(gm, list(parts.values()), return_tuple, GraphModuleCls)
    return (root, names) if return_fqn_mapping else root


def _bring_inputs(part, node, place, inside):
    """Give a part inputs and attributes for what a node of it takes from elsewhere."""
    for used in node.all_input_nodes:
        key = (part.name, used)
        if key in inside:
            continue
        if used.op == "get_attr":
            inside[key] = part.graph.node_copy(used)
        elif place.get(used) is not part:
            new = part.graph.placeholder(used.name, type_expr=used.type)
            new.meta = used.meta.copy()
            inside[key] = new
            part.orig_inputs.append(used)
            part.input_placeholders.append(new)
            if used in place and used not in place[used].orig_outputs:
                place[used].orig_outputs.append(used)


def _note_outputs(gm, parts, place):
    for used in gm.graph.output_node().all_input_nodes:
        if used in place and used not in place[used].orig_outputs:
            place[used].orig_outputs.append(used)
    position = {node: at for at, node in enumerate(gm.graph.nodes)}
    for part in parts.values():
        part.orig_outputs.sort(key=position.get)


def _main(gm, parts, return_tuple, cls):
    graph, values, held = Graph(), {}, {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = graph.node_copy(node)
    for part in parts:
        call = graph.call_module(part.name, tuple(values[n] for n in part.orig_inputs))
        held[part.name] = part.gm
        if len(part.orig_outputs) == 1 and not return_tuple:
            values[part.orig_outputs[0]] = call
            continue
        for at, node in enumerate(part.orig_outputs):
            values[node] = graph.call_function(operator.getitem, (call, at))
    holder = HolderModule(held)

    def final(node):
        if node.op == "get_attr" and node not in values:
            setattr(holder, node.target.replace(".", "_"), getattr_recursive(gm, node.target))
            values[node] = graph.get_attr(node.target.replace(".", "_"))
        return values[node]

    graph.output(map_arg(gm.graph.output_node().args[0], final))
    graph._codegen = gm.graph._codegen
    return cls(holder, graph)
