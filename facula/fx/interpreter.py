"""Run a graph node by node, and make new graphs from graphs in this way."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING

from facula.fx import traceback as fx_traceback
from facula.fx._compatibility import compatibility
from facula.fx._lazy_graph_module import _make_graph_module
from facula.fx._symbolic_trace import Tracer
from facula.fx.graph import Graph
from facula.fx.node import _last_uses, map_aggregate, map_arg
from facula.fx.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from facula import Tensor
    from facula.fx.graph_module import GraphModule
    from facula.fx.node import Node, Target
    from facula.nn.modules.module import Module

__all__ = ["Interpreter", "Transformer"]


@compatibility(is_backward_compatible=True)
class Interpreter:
    """Run a module's graph node by node. Subclasses change what a kind of node does.

    Args:
        module: the GraphModule.
        garbage_collect_values: if True, free a value after its last use.
        graph: a graph to run in place of the module's own.

    A node's error is raised with the node's line and stack trace in its message.

    >>> class Telling(facula.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         result = super().call_function(target, args, kwargs)
    ...         print(target.__name__, args, result)
    ...         return result
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.add(x, 1) * 2)
    >>> Telling(gm).run(3)
    add (3, 1) tensor(4)
    mul (tensor(4), 2) tensor(8)
    tensor(8)
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules: dict[str, Module] = dict(module.named_modules())
        self.graph: Any = graph if graph is not None else module.graph
        self.env = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: Any = _last_uses(self.graph.nodes) if garbage_collect_values else {}

    def run(self, *args: Any, initial_env: dict[Node, Tensor | int | None] = None, enable_io_processing: bool = True) -> Any:
        """Run the graph and give its result.

        Args:
            args: the arguments, in the order of the inputs.
            initial_env: node -> value, for nodes that do not have to be run.
            enable_io_processing: if True, take nested arguments apart, and put results together, as the graph says.

        Errors: RuntimeError where an argument is missing.
        """
        self.env: dict[Node, Tensor | int | None] = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self._run_or_explain(node)
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    del self.env[used]
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def _run_or_explain(self, node):
        try:
            return self.run_node(node)
        except Exception as error:
            if not self.extra_traceback:
                raise
            place = f"While executing {node.format_node()}"
            text = f"{error.args[0]}\n\n{place}" if error.args else place
            text = f"{text}\nOriginal traceback:\n{node.stack_trace}"
            error.args = (text, *error.args[1:])
            # A KeyError prints the repr of its text, in which line ends are escaped.
            if isinstance(error, KeyError):
                raise RuntimeError(*error.args) from error
            raise

    def boxed_run(self, args_list: Sequence[Tensor | int | None]) -> dict[str, Tensor | list[Any]]:
        """Run the graph on a list of arguments, which is emptied, so that they can be let go early.

        Args:
            args_list: the arguments.

        >>> gm, args = facula.fx.symbolic_trace(lambda x, y: x + y), [1, 2]
        >>> facula.fx.Interpreter(gm).boxed_run(args), args
        (3, [])
        """
        args_iter = iter(args_list)
        env = {node: next(args_iter) for node in self.graph.nodes if node.op == "placeholder"}
        args_list.clear()
        return self.run(initial_env=env)

    @contextlib.contextmanager
    def _set_current_node(self, n):
        with fx_traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Return the value of a node.

        Args:
            n: the node.

        >>> class Telling(facula.fx.Interpreter):
        ...     def run_node(self, n):
        ...         print(n.op, n.name)
        ...         return super().run_node(n)
        >>> Telling(facula.fx.symbolic_trace(lambda x: x + 1)).run(3)
        placeholder x
        call_function add
        output output
        4
        """
        if not fx_traceback.has_preserved_node_meta():
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Tensor | Any:
        """Return the value of an input: the next argument.

        Args:
            target: its name.
            args: its default, if any.
            kwargs: nothing.

        >>> class Doubled(facula.fx.Interpreter):
        ...     def placeholder(self, target, args, kwargs):
        ...         return 2 * super().placeholder(target, args, kwargs)
        >>> Doubled(facula.fx.symbolic_trace(lambda x: x + 1)).run(3)
        7
        """
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Interpreter: a value is expected for the argument {target}, got none") from None

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Tensor:
        """Return an attribute of the module.

        Args:
            target: its path.
            args, kwargs: nothing.

        >>> lin = facula.fx.symbolic_trace(nn.Linear(1, 1))
        >>> facula.fx.Interpreter(lin).get_attr("bias", (), {}).shape
        torch.Size([1])
        """
        return self.fetch_attr(target)

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a function.

        Args:
            target: the function.
            args, kwargs: its arguments.

        >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
        >>> facula.fx.Interpreter(gm).call_function(max, (1, 2), {})
        2
        """
        if isinstance(target, str):
            raise AssertionError(f"Interpreter: a target must be callable, got {target!r}")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Tensor:
        """Return the result of a method of the first argument.

        Args:
            target: its name.
            args, kwargs: the object, and the method's arguments.

        >>> gm = facula.fx.symbolic_trace(lambda x: x.abs())
        >>> facula.fx.Interpreter(gm).call_method("upper", ("abc",), {})
        'ABC'
        """
        obj, *rest = args
        return getattr(obj, target)(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Tensor:
        """Return the result of a submodule.

        Args:
            target: its path.
            args, kwargs: its arguments.

        >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
        >>> facula.fx.Interpreter(gm).call_module("0", (facula.tensor(-1.0),), {})
        tensor(0.)
        """
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Any:
        """Return what the graph gives.

        Args:
            target: "output".
            args: the value.
            kwargs: nothing.

        >>> gm = facula.fx.symbolic_trace(lambda x: x)
        >>> facula.fx.Interpreter(gm).output("output", (5,), {})
        5
        """
        return args[0]

    def fetch_attr(self, target: Target) -> Any:
        """Return what lies at a path of the module.

        Args:
            target: the path.

        Errors: RuntimeError where there is nothing.

        >>> gm = facula.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
        >>> facula.fx.Interpreter(gm).fetch_attr("0")
        ReLU()
        """
        found = self.module
        parts = target.split(".")
        for at, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(f"fetch_attr: the module has no attribute {'.'.join(parts[: at + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[dict[str, Any] | tuple[Any, ...], ...]:
        """Return (args, kwargs) of a node, as values.

        Args:
            n: the node.

        >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
        >>> x, plus, end = gm.graph.nodes
        >>> interpreter = facula.fx.Interpreter(gm)
        >>> interpreter.env[x] = 5
        >>> interpreter.fetch_args_kwargs_from_env(plus)
        ((5, 1), {})
        """
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Sequence[Any] | dict[str, Any] | tuple[Any, ...],
                            n: Node) -> dict[str, Any] | tuple[Any, ...]:  # fmt: skip
        """Return `args` with values in the place of nodes.

        Args:
            args: arguments.
            n: the node whose arguments they are.

        >>> gm = facula.fx.symbolic_trace(lambda x: x + 1)
        >>> x, plus, end = gm.graph.nodes
        >>> interpreter = facula.fx.Interpreter(gm)
        >>> interpreter.env[x] = 5
        >>> interpreter.map_nodes_to_values([x, 1], plus)
        [5, 1]
        """

        def value_of(node):
            if node not in self.env:
                raise RuntimeError(f"Interpreter: node {n} uses node {node}, which has no value; Graph.lint() finds such nodes")
            return self.env[node]

        return map_arg(args, value_of)


@compatibility(is_backward_compatible=True)
class Transformer(Interpreter):
    """Make a new GraphModule by running the graph on proxies. Subclasses change what nodes become.

    Args:
        module: the GraphModule.

    >>> class Swapped(facula.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(facula.tanh if target is facula.sigmoid else target, args, kwargs)
    >>> gm = facula.fx.symbolic_trace(lambda x: facula.sigmoid(x) + 1)
    >>> print(Swapped(gm).transform().graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %tanh : [num_users=1] = call_function[target=torch.tanh](args = (%x,), kwargs = {})
        %add : [num_users=1] = call_function[target=operator.add](args = (%tanh, 1), kwargs = {})
        return add
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.new_graph: Graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph = graph
                self.tensor_attrs: dict[Any, Any] = {}

            # The graph was traced before, so calls of modules stay what they are.
            def is_leaf_module(self, _: Any, __: Any) -> bool:
                return True

        self.tracer: Any = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Proxy:
        """Return an input of the new graph.

        Args:
            target, args, kwargs: as of Interpreter.placeholder.
        """
        default = args[0] if args else inspect.Signature.empty
        default = () if default is inspect.Signature.empty else (default,)
        return Proxy(self.new_graph.create_node("placeholder", target, default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Any:
        """Return a node of the new graph that reads an attribute.

        Args:
            target, args, kwargs: as of Interpreter.get_attr.
        """
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Any:
        """Return a call of a submodule in the new graph.

        Args:
            target, args, kwargs: as of Interpreter.call_module.
        """
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a call of a function in the new graph.

        Args:
            target, args, kwargs: as of Interpreter.call_function.
        """
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the new GraphModule."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            strip = lambda value: value.node if isinstance(value, Proxy) else value
            end = self.new_graph.output(map_aggregate(result, strip))
            end.meta.update(self.graph.output_node().meta)
        return _make_graph_module(self.module, self.new_graph)
