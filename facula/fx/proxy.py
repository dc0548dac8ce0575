"""Define proxies, which stand for values while a program is traced and record the operations on them.

Long because proxies and the tracers that they call need each other, and their methods have examples.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import inspect
import operator
from typing import TYPE_CHECKING, Any

import facula
from facula._operators.namespaces import OpOverloadPacket
from facula.fx import _public, traceback
from facula.fx._compatibility import compatibility
from facula.fx._frames import _asserts, _is_unpacking, _program_frame, _user_stack, _where
from facula.fx.graph import Graph, magic_methods, reflectable_magic_methods
from facula.fx.node import Node, base_types, map_aggregate
from facula.overrides import is_tensor_method_or_property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from facula import Tensor
    from facula.fx.node import Target
    from facula.nn.modules.module import Module

__all__ = ["TracerBase", "GraphAppendingTracer", "TraceError", "Proxy", "MetaProxy", "Attribute", "ParameterProxy", "Scope",
           "ScopeContextManager"]  # fmt: skip

@dataclasses.dataclass
class Scope:
    """Name the module whose code runs while a program is traced.

    Args:
        module_path: its path, "" for the root.
        module_type: its class, None for the root.

    >>> facula.fx.proxy.Scope("layers.0", nn.Linear).module_path
    'layers.0'
    """

    module_path: str
    module_type: object


class ScopeContextManager:
    """Change the scope of a tracer in a block, and restore it at the end. Tracers use it around calls of modules.

    Args:
        scope: the tracer's Scope, which is changed.
        current_scope: the Scope whose path and class it takes.

    >>> from facula.fx.proxy import Scope, ScopeContextManager
    >>> scope = Scope("", None)
    >>> with ScopeContextManager(scope, Scope("act", nn.ReLU)):
    ...     print(scope)
    Scope(module_path='act', module_type=<class 'facula.nn.modules.activation.ReLU'>)
    >>> scope
    Scope(module_path='', module_type=None)
    """

    def __init__(self, scope: Any, current_scope: Any) -> None:
        super().__init__()
        self._before, self._scope = copy.copy(scope), scope
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Any:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


class TraceError(ValueError):
    """Report that a program does something with a proxy that a graph cannot represent."""


class TracerBase:
    """Make nodes, and convert arguments to a form that a graph may hold; the base class of tracers.

    >>> class Telling(facula.fx.proxy.GraphAppendingTracer):
    ...     def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
    ...         print("node", kind)
    ...         return super().create_node(kind, target, args, kwargs, name, type_expr)
    >>> tracer = Telling(facula.fx.Graph())
    >>> x = tracer.create_proxy("placeholder", "x", (), {})
    node placeholder
    >>> y = facula.relu(x)
    node call_function
    >>> tracer.proxy(y.node), tracer.create_arg([x, 1])
    (Proxy(relu), [x, 1])
    """

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: collections.OrderedDict[Any, Any]
    node_name_to_scope: dict[Any, Any]

    def create_node(self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
                    type_expr: Any = None) -> Node:  # fmt: skip
        """Add a node to the graph, with what is known of where it comes from.

        Args:
            kind, target, args, kwargs, name, type_expr: see Graph.create_node.

        >>> tracer = facula.fx.proxy.GraphAppendingTracer(facula.fx.Graph())
        >>> tracer.create_node("placeholder", "x", (), {})
        x
        """
        if kind == "call_function" and self.check_mutable_operations:
            from facula.fx.operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if traceback.has_preserved_node_meta():
            for key, value in traceback.get_current_meta().items():
                if key not in ("val", "tensor_meta", "example_value"):
                    node.meta[key] = copy.copy(value)
        stack = getattr(self, "module_stack", None)
        if stack:
            node.meta["nn_module_stack"] = copy.copy(stack)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = _user_stack()
        return node

    def proxy(self, node: Node) -> Any:
        """Return the proxy that stands for a node: subclasses may give one of a class of their own.

        Args:
            node: the node.
        """
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
                     type_expr: Any = None, proxy_factory_fn: Callable[..., Any] | None = None) -> Any:  # fmt: skip
        """Add a node whose arguments may be proxies, and give its proxy.

        Args:
            kind, target, args, kwargs, name, type_expr: see Graph.create_node.
            proxy_factory_fn: makes the proxy of the node.
        """
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args_, tuple) or not isinstance(kwargs_, dict):
            raise AssertionError(f"create_proxy: args make a tuple and kwargs a dict, got {args_} and {kwargs_}")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def _find_user_frame(self):
        return _program_frame()

    def create_arg(self, a: Any) -> Any:
        """Return `a` as a graph holds it: nodes for proxies, in lists, tuples, dicts and slices. Subclasses know more kinds.

        Args:
            a: anything.
        """
        kind = type(a)
        if kind in _PLAIN:
            return a
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__") and not isinstance(a, type):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return kind(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return self._create_dict(a)
        if kind is slice:
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if kind is range:
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, base_types) or isinstance(a, enum.Enum) or a is ...:
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {field.name: self.create_arg(getattr(a, field.name)) for field in dataclasses.fields(a)}
            return self.create_node("call_function", kind, (), fields)
        if isinstance(a, OpOverloadPacket):
            return a
        raise NotImplementedError(f"create_arg: an argument that a graph can hold is expected, got {kind}")

    def _create_dict(self, a):
        found = {}
        for key, value in a.items():
            if not isinstance(key, str):
                key = self.create_arg(key)
                map_aggregate(key, _refuse_node_in_key(key))
            found[key] = self.create_arg(value)
        return found

    # ---- what a program may do with a value that is not there yet

    def to_bool(self, obj: Any) -> Any:
        """Raise an error: called where a proxy decides what the program does.

        Args:
            obj: the proxy.

        >>> facula.fx.symbolic_trace(lambda x: x if x > 0 else -x)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        facula.fx.proxy.TraceError: Proxy: the bool of a Proxy is not known while tracing...
        """
        raise TraceError(
            f"Proxy: the bool of a Proxy is not known while tracing, so it cannot decide an if, while or assert{_where()}"
        )

    def iter(self, obj: Any) -> Any:
        """Raise an error: called where the program goes through a proxy, but for `a, b = proxy`.

        Args:
            obj: the proxy.

        >>> facula.fx.symbolic_trace(lambda x: sum(x))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        facula.fx.proxy.TraceError: Proxy: the iter of a Proxy is not recorded...
        """
        raise TraceError(
            "Proxy: the iter of a Proxy is not recorded: how many items it has is not known while tracing, so it cannot "
            "stand in a loop, "
            f"nor behind * or **{_where()}"
        )

    def keys(self, obj: Any) -> Any:
        """Return the keys for `proxy.keys()`.

        Args:
            obj: the proxy.

        >>> gm = facula.fx.symbolic_trace(lambda d: d.keys())
        >>> [node.target for node in gm.graph.nodes if node.op == "call_method"]
        ['keys']
        """
        return Attribute(obj, "keys")()


_PLAIN = frozenset({str, int, float, bool, complex, type(None), type(...), facula.dtype, facula.device})


def _refuse_node_in_key(key):
    def check(value):
        if isinstance(value, Node):
            raise RuntimeError(f"create_arg: a dictionary's key must be known while tracing, got {key}")
        return value

    return check


class GraphAppendingTracer(TracerBase):
    """Add nodes to an existing graph.

    Args:
        graph: the graph.

    >>> graph = facula.fx.Graph()
    >>> tracer = facula.fx.proxy.GraphAppendingTracer(graph)
    >>> y = facula.fx.Proxy(graph.placeholder("x"), tracer) + 1
    >>> [node.name for node in graph.nodes]
    ['x', 'add']
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope: Scope = Scope("", None)
        self.module_stack: dict[Any, Any] = collections.OrderedDict()
        self.node_name_to_scope: dict[Any, Any] = {}


def assert_fn(x: Any) -> None:
    """Assert that something holds: what `assert x` becomes in a graph, where a tracer traces asserts."""
    assert x


@compatibility(is_backward_compatible=True)
class Proxy:
    """Represent the value of a node. The operations of a program on it become nodes.

    Args:
        node: the node.
        tracer: what makes nodes; by default one that adds to the node's graph.

    Operators, methods, attributes, and functions of Facula take proxies. What needs a value that is not there raises TraceError
    (`bool`, loops over it) or RuntimeError (`len`).

    >>> graph = facula.fx.Graph()
    >>> x = facula.fx.Proxy(graph.placeholder("x"))
    >>> y = facula.relu(x.reshape(-1)) + 1
    >>> y
    Proxy(add)
    >>> end = graph.output(y.node)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %reshape : [num_users=1] = call_method[target=reshape](args = (%x, -1), kwargs = {})
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%reshape,), kwargs = {})
        %add : [num_users=1] = call_function[target=operator.add](args = (%relu, 1), kwargs = {})
        return add
    """

    def __init__(self, node: Node, tracer: Any = None) -> None:
        # not by assignment: subclasses may define __setattr__
        self.__dict__["tracer"] = tracer if tracer is not None else GraphAppendingTracer(node.graph)
        self.__dict__["node"] = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        return Attribute(self, k)

    def __getstate__(self) -> Any:
        return self.__dict__

    def __setstate__(self, d: Any) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = Proxy.__new__(type(self))
        new.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        return new

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe().f_back
        count = _is_unpacking(frame)
        if count is not None:
            return (self[i] for i in range(count))
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _asserts(inspect.currentframe().f_back):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> list[str]:
        """Return the keys for `**proxy`, which the tracer says.

        >>> x = facula.fx.Proxy(facula.fx.Graph().placeholder("x"))
        >>> x.keys()
        Proxy(keys)
        """
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "Proxy: the len of a Proxy is not recorded by itself: wrap it at the top of the module, "
            f"torch.fx.wrap('len'){_where()}"
        )

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: tuple[Any, ...] | None = None,
                           kwargs: dict[str, Any] | None = None) -> Any:  # fmt: skip
        args, kwargs = args or (), kwargs or {}
        tracer = _tracer_of((args, kwargs))
        if is_tensor_method_or_property(orig_method):
            name = orig_method.__name__
            return tracer.create_proxy("call_method", _METHOD_NAMES.get(name, name), args, kwargs)
        target, args, kwargs = _public.written_call(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", target, args, kwargs)


#: operators on a real tensor and a proxy, as the methods that a graph calls
_METHOD_NAMES = {
    "__add__": "add", "__radd__": "add", "__mul__": "mul", "__rmul__": "mul", "__sub__": "sub", "__matmul__": "matmul",
    "__truediv__": "div", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
}  # fmt: skip


def _tracer_of(arguments):
    """Return the tracer of the proxies among arguments; all have one."""
    found = {}

    def note(value):
        if isinstance(value, Proxy):
            found[value.tracer] = None
        return value

    map_aggregate(arguments, note)
    if len(found) > 1:
        raise RuntimeError(f"Proxy: the proxies of a call must be of one tracer, got {list(found)}")
    if not found:
        raise AssertionError("fx: no proxy among the arguments of a traced call")
    return next(iter(found))


class MetaProxy(Proxy):
    """Represent the value of a node together with a fake tensor, on which ops run too, so that shapes are known.

    Args:
        node, tracer: as of Proxy.
        fake_mode: the mode of its tensor.

    >>> from facula._subclasses.fake_tensor import FakeTensorMode
    >>> mode = FakeTensorMode()
    >>> node = facula.fx.Graph().placeholder("x")
    >>> node.meta["val"] = mode.from_tensor(facula.ones(2, 3))
    >>> y = facula.relu(facula.fx.proxy.MetaProxy(node, fake_mode=mode))
    >>> y.node.meta["val"].shape
    torch.Size([2, 3])
    """

    def __init__(self, node: Node, tracer: Any = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.__dict__["fake_mode"] = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: tuple[Any, ...] | None = None,
                           kwargs: dict[str, Any] | None = None) -> MetaProxy:  # fmt: skip
        args, kwargs = args or (), kwargs or {}
        mode = next(arg.fake_mode for arg in args if isinstance(arg, MetaProxy))
        proxy = super().__torch_function__(orig_method, types, args, kwargs)
        value = lambda a: a.node.meta["val"] if isinstance(a, MetaProxy) else a
        with mode if mode is not None else contextlib.nullcontext():
            proxy.node.meta["val"] = orig_method(*map(value, args), **{k: value(v) for k, v in kwargs.items()})
        return MetaProxy(proxy.node, proxy.tracer, mode)


@compatibility(is_backward_compatible=True)
class Attribute(Proxy):
    """Represent an attribute of a proxy. It becomes a node when its value is needed, so that a method call is one node.

    Args:
        root: the proxy.
        attr: the name.

    >>> x = facula.fx.Proxy(facula.fx.Graph().placeholder("x"))
    >>> shape = x.shape
    >>> type(shape).__name__, [node.name for node in x.node.graph.nodes]
    ('Attribute', ['x'])
    >>> shape.node
    getattr_1
    """

    def __init__(self, root: Module, attr: str) -> None:
        self.__dict__.update(root=root, attr=attr, tracer=root.tracer, _node=None)

    @property
    def node(self) -> Node:
        """The node that reads the attribute."""
        if self._node is None:
            proxy = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self.__dict__["_node"] = proxy.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Represent a parameter. Questions that do not depend on values are answered from the parameter itself.

    Args:
        tracer, node: as of Proxy.
        name: the parameter's path.
        param: the parameter.

    >>> lin = nn.Linear(2, 3)
    >>> graph = facula.fx.Tracer(param_shapes_constant=True).trace(lin)
    >>> node = facula.fx.Graph().get_attr("weight")
    >>> weight = facula.fx.proxy.ParameterProxy(None, node, "weight", lin.weight)
    >>> weight.shape, weight.size(0), weight.dim(), weight.numel(), weight.nelement()
    (torch.Size([3, 2]), 3, 2, 6, 6)
    """

    def __init__(self, tracer: Any, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, facula.nn.Parameter):
            raise AssertionError(f"ParameterProxy: expected a Parameter, got {type(param)}")
        self.__dict__.update(param=param, name=name)

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self, *dim: int) -> int:
        """Return the parameter's size.

        Args:
            dim: a dimension; without, all sizes come.
        """
        return self.param.size(*dim)

    def dim(self) -> int:
        """Return the parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> Attribute:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> Any:
        """Return the parameter's number of elements."""
        return self.param.numel()

    def nelement(self) -> Any:
        """Return the parameter's number of elements."""
        return self.param.nelement()


def _define_operators():
    for name in magic_methods:
        function = getattr(operator, name)

        def forwards(*args, _function=function):
            return args[0].tracer.create_proxy("call_function", _function, args, {})

        forwards.__name__ = name
        setattr(Proxy, f"__{name.strip('_')}__", forwards)
    for name in reflectable_magic_methods:
        function = getattr(operator, name)

        def reflected(self, rhs, _function=function):
            return self.tracer.create_proxy("call_function", _function, (rhs, self), {})

        reflected.__name__ = f"__r{name.strip('_')}__"
        setattr(Proxy, f"__r{name.strip('_')}__", reflected)


_define_operators()
Proxy.__hash__ = object.__hash__
