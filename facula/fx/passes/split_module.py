"""Split a graph into modules that are called one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.fx._compatibility import compatibility
from facula.fx._lazy_graph_module import _make_graph_module
from facula.fx.graph import Graph
from facula.fx.node import map_arg
from facula.fx.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from facula.fx.graph_module import GraphModule
    from facula.nn.modules.module import Module

__all__ = ["Partition", "split_module"]


@compatibility(is_backward_compatible=True)
class Partition:
    """Hold a part of a graph: its nodes, the values that it uses from others, and those of its values that others use.

    Args:
        name: its name.

    >>> from facula.fx.passes.split_module import Partition
    >>> Partition("first").submod_name
    'submod_first'
    """

    inputs: dict[Any, Any]
    outputs: dict[Any, Any]
    dependencies: dict[Any, Any]
    dependents: dict[Any, Any]
    environment: dict[Any, Any]
    targets: dict[Any, Any]

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name: str = f"submod_{name}"
        self.node_names: list[Any] = []
        self.inputs, self.outputs = {}, {}
        self.dependencies, self.dependents = {}, {}
        self.graph: Graph = Graph()
        self.environment, self.targets = {}, {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


class _Splitter:
    """Run one split."""

    def __init__(self, m, callback, affix, tuples):
        self.m, self.callback, self.affix, self.tuples = m, callback, affix, tuples
        self.partitions = {}
        self.nodes = {node.name: node for node in m.graph.nodes}
        self.owner = {}
        self.attributes = {}

    def assign(self):
        """Ask for the partition of every call."""
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(self.callback(node))
            if name not in self.partitions:
                self.partitions[name] = partition = Partition(name)
                if self.affix is not None:
                    partition.submod_name = f"submod_{self.affix}_{name}"
            self.partitions[name].node_names.append(node.name)
            self.owner[node.name] = node._fx_partition = name

    def relate(self):
        """Find what crosses from one partition to another."""
        for node in self.m.graph.nodes:
            for used in node._input_nodes:
                self._cross(used, node)

    def _cross(self, used, user):
        source, target = self.owner.get(used.name), self.owner.get(user.name)
        if source == target:
            return
        if source is not None:
            self.partitions[source].outputs.setdefault(used.name)
            if target is not None:
                self.partitions[source].dependents.setdefault(target)
        if target is not None:
            self.partitions[target].inputs.setdefault(used.name)
            if source is not None:
                self.partitions[target].dependencies.setdefault(source)

    def order(self):
        """Return the names of partitions so that each comes after those that it takes from."""
        ready = [name for name, partition in self.partitions.items() if not partition.dependencies]
        left = {name: dict(partition.dependencies) for name, partition in self.partitions.items()}
        found = []
        while ready:
            name = ready.pop(0)
            found.append(name)
            for dependent in self.partitions[name].dependents:
                left[dependent].pop(name, None)
                if not left[dependent]:
                    ready.append(dependent)
        if len(found) != len(self.partitions):
            raise RuntimeError("split_module: the partitions depend on one another in a circle")
        return found

    def fill(self, keep_names):
        """Write the graphs of the partitions."""
        for partition in self.partitions.values():
            for at, name in enumerate(partition.inputs):
                node = self.nodes[name]
                default = node.args[0] if node.op == "placeholder" and node.args else ...
                own = partition.graph.placeholder(
                    name if keep_names else f"arg_{at}", type_expr=node.type, default_value=default
                )
                own.meta = node.meta.copy()
                partition.environment[node] = own
        for node in self.m.graph.nodes:
            name = self.owner.get(node.name)
            if name is not None:
                self._copy(node, self.partitions[name])
        for partition in self.partitions.values():
            values = tuple(partition.environment[self.nodes[name]] for name in partition.outputs)
            partition.graph.output(values[0] if len(values) == 1 and not self.tuples else values)

    def _copy(self, node, partition):
        environment = partition.environment
        args, kwargs = map_arg(node.args, environment.get), map_arg(node.kwargs, environment.get)
        target = node.target
        if node.op == "call_module":
            target = target.replace(".", "_")
            partition.targets[target] = self.m.get_submodule(node.target)
            self.attributes.setdefault(f"{partition.submod_name}.{target}", node.target)
        new = partition.graph.create_node(node.op, target, args, kwargs, type_expr=node.type, name=node.name)
        new.meta = node.meta.copy()
        environment[node] = new

    def base(self, original_order):
        """Return (the graph that calls the partitions, {attribute: value} of its module)."""
        graph, values, attributes = Graph(), {}, {}
        order = self.order()
        for node in self.m.graph.nodes:
            if node.op == "placeholder":
                default = node.args[0] if node.args else ...
                values[node.name] = graph.placeholder(node.target, type_expr=node.type, default_value=default)
                values[node.name].meta = node.meta.copy()
            elif node.op == "get_attr" and not original_order:
                self._base_attribute(graph, node, values, attributes)
        if original_order:
            self._in_original_order(graph, values, attributes, order)
        else:
            for name in order:
                self._call(graph, self.partitions[name], values, attributes)
        output = self.m.graph.output_node()
        end = graph.output(map_arg(output.args[0], lambda n: values[n.name]))
        end.meta = output.meta.copy()
        return graph, attributes

    def _in_original_order(self, graph, values, attributes, order):
        called = set()
        for node in self.m.graph.nodes:
            name = self.owner.get(node.name)
            if node.op == "get_attr":
                self._base_attribute(graph, node, values, attributes)
            elif name is not None and name not in called and self._is_ready(name, values):
                called.add(name)
                self._call(graph, self.partitions[name], values, attributes)
        for name in order:
            if name not in called:
                self._call(graph, self.partitions[name], values, attributes)

    def _is_ready(self, name, values):
        return all(needed in values for needed in self.partitions[name].inputs)

    def _base_attribute(self, graph, node, values, attributes):
        found = self.m
        for part in node.target.split("."):
            found = getattr(found, part)
        values[node.name] = graph.get_attr(node.target)
        values[node.name].meta = node.meta.copy()
        attributes[node.target] = found

    def _call(self, graph, partition, values, attributes):
        inner = _make_graph_module(partition.targets, partition.graph)
        attributes[partition.submod_name] = inner
        inputs = tuple(values[name] for name in partition.inputs)
        node = graph.call_module(partition.submod_name, inputs)
        names = list(partition.outputs)
        if len(names) > 1 or self.tuples:
            proxy = Proxy(node)
            for at, name in enumerate(names):
                values[name] = proxy[at].node
                values[name].meta = self.nodes[name].meta.copy()
        elif names:
            values[names[0]] = node


@compatibility(is_backward_compatible=True)
def split_module(m: Module, root_m: Module, split_callback: Callable[..., Any], qualname_map: dict[Any, Any] | None = None,
                 keep_original_order: bool = False, keep_original_node_name: bool = False,
                 keep_original_input_name: bool = True, *, partition_affix: str | None = None,
                 tuple_return: bool = False) -> GraphModule:  # fmt: skip
    """Return a GraphModule that calls one submodule for each part of the graph.

    Args:
        m: the GraphModule.
        root_m: the module that it was made from.
        split_callback: node -> the number or name of its part.
        qualname_map: a dict that gets {path in the result: path in `m`}.
        keep_original_order: if True, call parts where their first node was.
        keep_original_node_name: accepted; nodes keep their names.
        keep_original_input_name: if True, name inputs of parts as the nodes that they stand for.
        partition_affix: a word in the names of the submodules.
        tuple_return: if True, every part returns a tuple.

    Parts run in an order in which each has what it takes.

    Errors: RuntimeError where parts take from each other in a circle.

    >>> from facula.fx.passes.split_module import split_module
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.tanh(facula.relu(x) + 1))
    >>> split = split_module(gm, gm, lambda node: 0 if node.name == "relu" else 1)
    >>> print(split.code.strip())
    def forward(self, x):
        submod_0 = self.submod_0(x);  x = None
        submod_1 = self.submod_1(submod_0);  submod_0 = None
        return submod_1
    >>> split(facula.tensor(-1.0)) == gm(facula.tensor(-1.0))
    tensor(True)
    """
    splitter = _Splitter(m, split_callback, partition_affix, tuple_return)
    splitter.assign()
    splitter.relate()
    splitter.fill(keep_original_input_name)
    graph, attributes = splitter.base(keep_original_order)
    if qualname_map is not None:
        qualname_map.update(splitter.attributes)
    found = _make_graph_module(attributes, graph)
    found.meta = m.meta
    return found
