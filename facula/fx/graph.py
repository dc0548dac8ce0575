"""Define the graph, which holds nodes in the order in which they run, and its operations.

Long because Graph is one class, most of whose methods have an example.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from typing import TYPE_CHECKING

from facula import _C
from facula.fx._codegen import (  # noqa: F401
    CodeGen,
    PythonCode,
    _custom_builtins,
    _CustomBuiltin,
    _format_target,
    _is_from_torch,
    _is_magic,
    _Namespace,
    _parse_stack_trace,
    _ParsedStackTrace,
    _PyTreeCodeGen,
    _PyTreeInfo,
    _register_custom_builtin,
    _snake_case,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from facula.fx._compatibility import compatibility
from facula.fx._lint import _check_argument, _check_reference, _has_attribute, _has_module
from facula.fx._node_list import _FindNodesLookupTable, _Insertion, _node_list
from facula.fx._public import short_name
from facula.fx.node import (  # noqa: F401
    Argument,
    Node,
    Target,
    _get_qualified_name,
    _legal_ops,
    _type_repr,
    dtype_abbrs,
    map_arg,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from facula.fx.graph_module import GraphModule
    from facula.nn.modules.module import Module

__all__ = ["PythonCode", "CodeGen", "Graph"]


# ---- Plain tables of text


def simple_table(rows, headers):
    """Return the columns under headers and a rule; numbers to the right."""
    cells = [[str(value) for value in row] for row in rows]
    numeric = [bool(rows) and all(type(row[at]) in (int, float) for row in rows) for at in range(len(headers))]
    widths = [max([len(header), *(len(row[at]) for row in cells)]) for at, header in enumerate(headers)]
    # a column of headers only is two wider, as tables of this kind are
    widths = [max(width, len(header) + 2) if rows else width for width, header in zip(widths, headers)]
    place = lambda row: "  ".join(
        text.rjust(width) if right else text.ljust(width) for text, width, right in zip(row, widths, numeric)
    ).rstrip()
    return "\n".join([place(headers), "  ".join("-" * width for width in widths), *map(place, cells)])


class Graph:
    """Represent a program: inputs, calls and one output, as nodes in the order in which they run.

    Args:
        owning_module: the GraphModule that it belongs to.
        tracer_cls: the class of the tracer that made it.
        tracer_extras: what that tracer needs to be made again.

    >>> graph = facula.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> doubled = graph.call_function(facula.mul, (x, 2))
    >>> end = graph.output(graph.call_method("relu", (doubled,)))
    >>> facula.fx.GraphModule(nn.Module(), graph)(facula.tensor([-1.0, 3.0]))
    tensor([0., 6.])
    >>> with graph.inserting_after(doubled):
    ...     unused = graph.create_node("call_function", facula.neg, (doubled,))
    >>> graph.eliminate_dead_code()
    True
    >>> with graph.inserting_before(doubled):
    ...     unused = graph.call_function(facula.neg, (x,))
    >>> graph.erase_node(unused)
    >>> graph.lint()
    >>> graph.find_nodes(op="call_function", target=facula.mul), graph.output_node()
    ([mul], output)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %mul : [num_users=1] = call_function[target=torch.mul](args = (%x, 2), kwargs = {})
        %relu : [num_users=1] = call_method[target=relu](args = (%mul,), kwargs = {})
        return relu
    """

    def __init__(self, owning_module: Any = None, tracer_cls: type | None = None, tracer_extras: Any = None) -> None:
        self._root = root = Node.__new__(Node)
        root.graph, root.name, root._op, root._target, root.type = self, "", "root", "", None
        root._input_nodes, root.users, root.meta = {}, {}, {}
        # The nodes are a ring around this root, so that no insertion has to treat the ends separately.
        root._prev = root._next = root
        root._args, root._kwargs, root._erased, root._repr_fn, root._order = (), {}, False, None, 0
        self._used_names = {}
        self._insert = root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._find_nodes_lookup_table = _FindNodesLookupTable()
        self._co_fields = {}
        self._ordered = True

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that runs this graph, the last where there are several; None where there is none."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: Module) -> None:
        if module is not None:
            self._owning_module = module

    @property
    def nodes(self) -> Any:
        """The nodes in order."""
        return _node_list(self)

    def output_node(self) -> Node:
        """Return the node that ends the graph.

        Errors: AssertionError where the last node is no output.
        """
        node = self._root._prev
        if node.op != "output":
            raise AssertionError(f"output_node: the last node must be the output, got {node.op}")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the list of nodes with this op, and this target if one is given.

        Args:
            op: for example "call_function".
            target: the target, which call_function needs; None for all.
            sort: if True, they come in the order of the graph.

        Errors: AssertionError for call_function without a target.
        """
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes: call_function needs a target, got None")
        found = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(found) if sort else found

    # ---- order

    def _note_order(self, node):
        if node._next is self._root and self._ordered:
            node._order = node._prev._order + 1  # at the end
        else:
            # Numbers of nodes are computed again only when two nodes are compared, as most insertions are at the end.
            self._ordered = False

    def _renumber(self):
        if self._ordered:
            return
        node, number = self._root._next, 1
        self._root._order = 0
        while node is not self._root:
            node._order = number
            node, number = node._next, number + 1
        self._ordered = True

    # ---- copying

    def graph_copy(self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False) -> Any:
        """Add the nodes of another graph.

        Args:
            g: the graph that is copied.
            val_map: node there -> node here; gets the new ones, and says what stands for inputs that are in it already.
            return_output_node: if True, return the other's output node with the result.

        Returns:
            What `g` gives, in nodes of this graph; None if it gives nothing.

        >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
        >>> graph = facula.fx.Graph()
        >>> values = {}
        >>> end = graph.output(graph.graph_copy(gm.graph, values))
        >>> [node.name for node in graph.nodes]
        ['x', 'add', 'output']
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                given = map_arg(node.args[0], lambda n: val_map[n])
                return (given, node) if return_output_node else given
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] = None) -> Self:
        memo = {} if memo is None else memo
        g = type(self)(tracer_cls=self._tracer_cls)
        g._codegen = copy.deepcopy(self._codegen)
        g._tracer_extras = self._tracer_extras
        val_map = {}
        given = g.graph_copy(self, val_map, return_output_node=True)
        for old, new in val_map.items():
            memo[id(old)] = new
        if given is not None:
            value, old = given
            new = g.output(value, type_expr=getattr(old, "type", None))
            new.meta = copy.copy(old.meta)
            memo[id(old)] = new
        return g

    def node_copy(self, node: Node, arg_transform: Callable[..., Any] = lambda x: x) -> Node:
        """Return a copy of a node of another graph here.

        Args:
            node: the node.
            arg_transform: node there -> node here, for its arguments.

        >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
        >>> graph, values = facula.fx.Graph(), {}
        >>> for node in gm.graph.nodes:
        ...     values[node] = graph.node_copy(node, lambda n: values[n])
        >>> str(graph) == str(gm.graph)
        True
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        new = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new.meta = copy.copy(node.meta)
        return new

    # ---- making nodes

    def _target_to_str(self, target):
        if callable(target):
            name = short_name(target)
        else:
            name = target
            if _is_magic(name):
                name = name[2:-2]
        return _snake_case(name)

    def create_node(self, op: str, target: Target, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
                    name: str | None = None, type_expr: Any = None) -> Node:  # fmt: skip
        """Add a node.

        Args:
            op, target, args, kwargs: see Node.
            name: what it would be called; it gets a number if that is taken.
            type_expr: the type of its result.

        >>> graph = facula.fx.Graph()
        >>> graph.create_node("placeholder", "x"), graph.create_node("call_function", facula.ones, (2,), name="x")
        (x, x_1)
        """
        if op not in _legal_ops or op == "root":
            raise AssertionError(f"create_node: op must be {_C._one_of(op, _legal_ops)}")
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"create_node: args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"create_node: kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        owner = self.owning_module
        for hook in getattr(owner, "_create_node_hooks", None) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        return node

    def process_inputs(self, *args: Any) -> list[int] | tuple[Any, ...]:
        """Return the arguments as the placeholders get them: with the CodeGen of a trace of nested arguments, their leaves.

        Args:
            args: the arguments of the call.

        >>> PH = facula.fx.PH
        >>> graph = facula.fx.Tracer().trace(lambda pair: pair[0] + pair[1], {"pair": (PH, PH)})
        >>> graph.process_inputs((1, 2))
        [1, 2]
        """
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the results as the caller gets them: with the CodeGen of a trace of nested arguments, nested as the program
        gave them.

        Args:
            out: what the output node gives.

        >>> PH = facula.fx.PH
        >>> graph = facula.fx.Tracer().trace(lambda pair: {"first": pair[0]}, {"pair": (PH, PH)})
        >>> graph.process_outputs([1])
        {'first': 1}
        """
        return self._codegen.process_outputs(out)

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out.

        Args:
            to_erase: the node, which no other node may use.

        Errors: RuntimeError where another node still uses it, or it belongs to another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"erase_node: no other node may use {to_erase}, got {len(to_erase.users)} users: {list(to_erase.users)}"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"erase_node: a node of this graph is expected, got {to_erase} of another one")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node")
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        # The node must not count as a user of its arguments any more.
        to_erase._set_arguments((), {})

    def inserting_before(self, n: Node | None = None) -> Any:
        """Let new nodes go before `n`, by default before all: until another place is set, or to the end of a `with` block."""
        return self.inserting_after(self._root) if n is None else self._inserting(n, n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Let new nodes go after `n`, by default after all: until another place is set, or to the end of a `with` block."""
        return self.inserting_before(self._root) if n is None else self._inserting(n, n.append)

    def _inserting(self, node, insert):
        if node.graph is not self:
            raise AssertionError(f"inserting: expected a node of this graph, got {node} of another one")
        return _Insertion(self, insert)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add an input.

        Args:
            name: the parameter; may begin with * or **.
            type_expr: its type.
            default_value: its default.
        """
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a node that reads an attribute of the owning module.

        Args:
            qualified_name: such as "layers.0.weight".
            type_expr: its type.

        The attribute should be there already: otherwise there is a warning.

        >>> gm = facula.fx.GraphModule({"scale": facula.tensor(3.0)}, facula.fx.Graph())
        >>> gm.scale = facula.tensor(3.0)
        >>> end = gm.graph.output(gm.graph.get_attr("scale"))
        >>> code = gm.recompile()
        >>> gm()
        tensor(3.)
        """
        owner = self.owning_module
        if owner is not None and not _has_attribute(owner, qualified_name):
            warnings.warn(
                f"get_attr: the graph's module has no {qualified_name!r} yet; give it one with add_submodule, "
                "register_parameter or register_buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
                    type_expr: Any = None) -> Node:  # fmt: skip
        """Add a call of a submodule of the owning module.

        Args:
            module_name: its path.
            args, kwargs: arguments.
            type_expr: the type of the result.

        The submodule should be there already: otherwise there is a warning.

        >>> graph = facula.fx.Graph()
        >>> end = graph.output(graph.call_module("act", (graph.placeholder("x"),)))
        >>> facula.fx.GraphModule({"act": nn.ReLU()}, graph)(facula.tensor([-1.0, 2.0]))
        tensor([0., 2.])
        """
        if self.owning_module is not None and not _has_module(self.owning_module, module_name):
            warnings.warn(
                f"call_module: the graph's module has no module {module_name!r} yet; give it one with add_submodule"
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
                    type_expr: Any = None) -> Node:  # fmt: skip
        """Add a call of a method of its first argument.

        Args:
            method_name: its name.
            args, kwargs: arguments; the first is the object.
            type_expr: the type of the result.
        """
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function: Callable[..., Any] | type, args: tuple[Any, ...] | None = None,
                      kwargs: dict[str, Any] | None = None, type_expr: Any = None,
                      name: str | None = None) -> Node:  # fmt: skip
        """Add a call of a function.

        Args:
            the_function: anything that can be called and has a name.
            args, kwargs: arguments.
            type_expr: the type of the result.
            name: what the node would be called.
        """
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Node | Sequence[Node | int | None] | dict[str, Node | Sequence[Any]],
               type_expr: Any = None) -> Node:  # fmt: skip
        """Add the end: what the graph gives.

        Args:
            result: nodes, and lists, tuples and dicts of them.
            type_expr: its type.
        """
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    # ---- text

    def python_code(self, root_module: str, *, verbose: bool = False, include_stride: bool = False,
                    include_device: bool = False, colored: bool = False, expanded_def: bool = False, record_func: bool = False,
                    additional_meta: Any = None, include_meta: bool = False) -> PythonCode:  # fmt: skip
        """Return the graph as a function in Python: a PythonCode.

        Args:
            root_module: what the text calls the module, mostly "self".
            verbose: if True, lines say where nodes come from.
            include_stride, include_device, include_meta: what is said of tensors.
            colored, expanded_def, record_func, additional_meta: accepted; they change nothing here.

        >>> graph = facula.fx.symbolic_trace(lambda x: x * 2).graph
        >>> print(graph.python_code("self").src.strip())
        def forward(self, x):
            mul = x * 2;  x = None
            return mul
        """
        namespace = _Namespace()
        shown = {}

        def node_repr(node):
            text = shown.get(node)
            if text is None:
                text = shown[node] = namespace.create_name(node.name, node)
            return text

        with self._shown_as(node_repr):
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose, include_stride=include_stride,
                include_device=include_device, include_meta=include_meta,
            )  # fmt: skip

    @contextlib.contextmanager
    def _shown_as(self, function):
        nodes = list(self.nodes)
        before = [node._repr_fn for node in nodes]
        for node in nodes:
            node._repr_fn = function
        try:
            yield
        finally:
            for node, old in zip(nodes, before):
                node._repr_fn = old

    _override_repr = _shown_as

    def __str__(self) -> str:
        placeholders, kind = [], [""]
        lines = [node.format_node(placeholders, kind) for node in self.nodes if node.op != "placeholder"]
        inputs = [node.format_node() for node in self.nodes if node.op == "placeholder"]
        in_order, at = [], {"in": iter(inputs), "other": iter(lines)}
        for node in self.nodes:
            in_order.append(next(at["in" if node.op == "placeholder" else "other"]))
        return f"graph():{''.join(f'{chr(10)}    {line}' for line in in_order)}"

    def print_tabular(self) -> None:
        """Print the nodes as a table.

        >>> facula.fx.symbolic_trace(lambda x: x * 2).graph.print_tabular()
        opcode         name    target                   args    kwargs
        -------------  ------  -----------------------  ------  --------
        placeholder    x       x                        ()      {}
        call_function  mul     <built-in function mul>  (x, 2)  {}
        output         output  output                   (mul,)  {}
        """
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(simple_table(rows, ["opcode", "name", "target", "args", "kwargs"]))

    # ---- checks and cleaning

    def lint(self) -> None:
        """Check that every node is used after it was made, names differ, and what modules are called are there.

        Errors: RuntimeError, with the node and what is wrong with it.
        """
        seen_names, seen = set(), set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Graph.lint: node {node} belongs to another graph")
            if node not in self._find_nodes_lookup_table:
                raise RuntimeError(f"lint: {node} is missing from the table that find_nodes reads")
            for arg in node._input_nodes:
                _check_argument(self, node, arg, seen)
            seen.add(node)
            if node.name in seen_names:
                raise RuntimeError(f"Graph.lint: each node needs a name of its own, got {node.name} twice")
            seen_names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    _check_reference(self.owning_module, node)

    def eliminate_dead_code(self, is_impure_node: Callable[..., Any] | None = None) -> bool:
        """Take nodes out that nobody uses, the last first.

        Args:
            is_impure_node: says of a node whether it stays; by default `node.is_impure()`.

        Returns:
            Whether there were any.
        """
        self.lint()
        changed = False
        # Backwards, so that the arguments of an erased node can be erased in the same pass.
        for node in reversed(self.nodes):
            stays = is_impure_node(node) if is_impure_node is not None else node.is_impure()
            if not stays and not node.users:
                self.erase_node(node)
                changed = True
        return changed

    def set_codegen(self, codegen: Any) -> None:
        """Set how the graph becomes a function; the module's code is written anew by `recompile`.

        Args:
            codegen: a CodeGen.

        >>> graph = facula.fx.symbolic_trace(lambda x: x * 2).graph
        >>> graph.set_codegen(facula.fx.CodeGen())
        """
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Any) -> Any:
        r"""Let the lines of the body be changed before they become code.

        Args:
            make_transformer: gets the function that does so now, or None, and gives the new one: list of str -> list of str.

        Returns:
            A context manager that takes the change back.

        >>> gm = facula.fx.symbolic_trace(lambda x: x * 2)
        >>> with gm.graph.on_generate_code(lambda before: lambda lines: ["print('runs')\n", *lines]):
        ...     code = gm.recompile()
        >>> gm(3)
        runs
        6
        """
        codegen, before = self._codegen, self._codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def until_the_end():
            try:
                yield
            finally:
                codegen._body_transformer = before

        return until_the_end()


compatibility(is_backward_compatible=True)(Graph)
