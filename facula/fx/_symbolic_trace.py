"""Trace programs symbolically: a program runs once on proxies, and its operations become a graph.

Long because a tracer is one class, whose methods are what subclasses change and have examples.
"""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import math
import types
import warnings
from typing import TYPE_CHECKING

import facula
from facula.fx._compatibility import compatibility
from facula.fx._lazy_graph_module import _make_graph_module
from facula.fx._patching import (  # noqa: F401  (programs find them here)
    HAS_VARSTUFF,
    _autowrap_check,
    _by_keyword,
    _create_wrapped_func,
    _create_wrapped_method,
    _find_proxy,
    _new_patcher,
    _orig_module_call,
    _orig_module_getattr,
    _patch_function,
    _patch_program,
    _patch_wrapped_functions,
    _Patcher,
    _proxies_in,
    _wrapped_fns_to_patch,
    _wrapped_methods_to_patch,
)
from facula.fx._public import stated_type
from facula.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from facula.fx.node import base_types
from facula.fx.proxy import ParameterProxy, Scope, ScopeContextManager, TracerBase
from facula.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.fx.graph_module import GraphModule
    from facula.nn.modules.module import Module

__all__ = ["Tracer", "symbolic_trace", "wrap", "is_fx_tracing", "PH", "ProxyableClassMeta", "PHBase"]

_proxyable_classes = {}
_is_fx_tracing_flag = False
_constant_attribute_types = (facula.Tensor,)


def is_fx_tracing():
    """Return whether a program is being traced now.

    >>> facula.fx._symbolic_trace.is_fx_tracing()
    False
    """
    return _is_fx_tracing_flag


is_fx_symbolic_tracing = is_fx_tracing_warning = is_fx_tracing


@compatibility(is_backward_compatible=True)
class ProxyableClassMeta(type):
    """Record the construction of an object from proxies as a node that calls the class; this is a metaclass.

    Args:
        name: the name of the class.
        bases: its bases.
        attrs: its attributes.

    >>> class Pair(metaclass=facula.fx.ProxyableClassMeta):
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> gm = facula.fx.symbolic_trace(lambda x: Pair(x, x + 1).b)
    >>> [node.target for node in gm.graph.nodes if node.op == "call_function"][1] is Pair
    True
    >>> gm(1)
    2
    """

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if is_fx_tracing():
            found = _proxies_in((args, kwargs))
            if found:
                return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """Mark an input of the graph among concrete arguments; `PH` is the instance.

    >>> gm = facula.fx.symbolic_trace(lambda pair: pair[0] * 2, {"pair": (facula.fx.PH, 3)})
    >>> gm((5, 3))
    10
    """

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """Mark an input with meta among concrete arguments.

    Args:
        ph_key: where the meta is kept.

    >>> one = facula.fx._symbolic_trace.PHWithMeta(ph_key="a")
    >>> one.ph_key
    'a'
    """

    def __init__(self, ph_key=None):
        super().__init__()
        self.ph_key = ph_key

    def transfer_attrs(self, node):
        """Copy what was set on this object to the node."""
        for key, value in vars(self).items():
            if not key.startswith("_") and key != "ph_key":
                node.meta[key] = value


def _transfer_attrs(fr, to):
    for attr_name in dir(fr):
        value = getattr(fr, attr_name)
        if not callable(value) and not attr_name.startswith("__") and not hasattr(to, attr_name):
            setattr(to, attr_name, value)


def _assert_is_none(value, msg):
    assert value is None, msg


@compatibility(is_backward_compatible=True)
def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Make calls of a function become nodes instead of being traced into. At the top level of a module, as a decorator or a
    call.

    Args:
        fn_or_name: the function, or its name in that module (also of a builtin, such as "len").

    Errors: NotImplementedError within a function; RuntimeError for what is neither a function nor a name.

    >>> @facula.fx.wrap
    ... def clipped(x, low):
    ...     return x if x > low else low
    >>> gm = facula.fx.symbolic_trace(lambda x: clipped(x, 0) + 1)
    >>> [node.name for node in gm.graph.nodes]
    ['x', 'clipped', 'add', 'output']
    >>> gm(-3)
    1
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(f"wrap: expected a function or the name of one, got {type(fn_or_name).__name__}")
    name = fn_or_name.__name__ if callable(fn_or_name) else fn_or_name
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError(f"wrap: expected a call at module scope, got one inside {frame.f_code.co_name}")
    # A dict of globals cannot be a key itself.
    _wrapped_fns_to_patch[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


# ---- the tracer


@compatibility(is_backward_compatible=True)
class Tracer(TracerBase):
    """Make graphs of modules and functions. Subclasses change what is a leaf, how values are recorded, and more.

    Args:
        autowrap_modules: modules whose functions become nodes when they are given proxies.
        autowrap_functions: more such functions.
        param_shapes_constant: if True, shapes of parameters are numbers in the graph.

    >>> class Whole(facula.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return isinstance(m, nn.Sequential)
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    ...     def forward(self, x):
    ...         return self.layers(x)
    >>> print(Whole().trace(Net()))
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %layers : [num_users=1] = call_module[target=layers](args = (%x,), kwargs = {})
        return layers
    """

    def __init__(self, autowrap_modules: Sequence[ModuleType] | tuple[Any, ...] = (math,),
                 autowrap_functions: tuple[Any, ...] = (), param_shapes_constant: bool = False) -> None:  # fmt: skip
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths = None
        self.root_module_name = ""
        self.scope: Scope = Scope("", None)
        self.module_stack: dict[Any, Any] = collections.OrderedDict()
        self.num_calls: dict[Any, Any] = {}
        self.node_name_to_scope: dict[Any, Any] = {}

    _proxy_count = 0

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return an attribute name of the root that is not taken: the prefix and a number.

        Args:
            prefix: such as "_tensor_constant".

        >>> tracer = facula.fx.Tracer()
        >>> tracer.root = nn.Linear(1, 1)
        >>> tracer.get_fresh_qualname("weight")
        'weight0'
        """
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Any:
        """Return `a` as a graph holds it; tensors and parameters become attributes of the root.

        Args:
            a: anything.
        """
        if isinstance(a, facula.Tensor):
            if isinstance(a, facula.nn.Parameter):
                return self._parameter_node(a)
            return self._tensor_node(a)
        if isinstance(a, facula.nn.Module):
            for name, module in self.root.named_modules():
                if module is a and name:
                    return self.create_node("get_attr", name, (), {})
            raise NotImplementedError(f"create_arg: an argument that a graph can hold is expected, got {type(a)}")
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), items, {})
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _parameter_node(self, parameter):
        for name, found in self.root.named_parameters():
            if found is parameter:
                return self.create_node("get_attr", name, (), {})
        raise NameError("symbolic_trace: the program uses a parameter that the traced module does not hold")

    def _tensor_node(self, tensor):
        for name, found in self.root.named_buffers():
            if found is tensor:
                return self.create_node("get_attr", name, (), {})
        name = self.tensor_attrs.get(tensor)
        if name is None:
            name = self.get_fresh_qualname("_tensor_constant")
            self.tensor_attrs[tensor] = name
            setattr(self.root, name, tensor)
        return self.create_node("get_attr", name, (), {})

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a module is one node: by default those of `torch.nn`, but Sequential.

        Args:
            m: the module.
            module_qualified_name: its path.

        >>> tracer = facula.fx.Tracer()
        >>> tracer.is_leaf_module(nn.Linear(1, 1), "lin"), tracer.is_leaf_module(nn.Sequential(), "layers")
        (True, False)
        """
        home = m.__module__
        ours = home.startswith(("facula.nn", "facula.ao.nn", "torch.nn", "torch.ao.nn"))
        return ours and not isinstance(m, facula.nn.Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a module in the root.

        Args:
            mod: the module.

        Errors: NameError where it is not one of the root's.

        >>> tracer, act = facula.fx.Tracer(), nn.ReLU()
        >>> tracer.root = nn.Sequential(act)
        >>> tracer.path_of_module(act)
        '0'
        """
        paths = self.submodule_paths
        if paths is None:
            paths = {module: name for name, module in self.root.named_modules()}
        if mod not in paths:
            raise NameError("module is not installed as a submodule")
        return paths[mod]

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call of a module, tracing on or making a node; called for each.

        Args:
            m: the module.
            forward: runs it.
            args, kwargs: its arguments.

        >>> class Telling(facula.fx.Tracer):
        ...     def call_module(self, m, forward, args, kwargs):
        ...         print("calls", self.path_of_module(m))
        ...         return super().call_module(m, forward, args, kwargs)
        >>> graph = Telling().trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
        calls 0
        calls 1
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            self.num_calls[path] = calls + 1
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Module | Tensor, parameter_proxy_cache: dict[Any, Any]) -> Tensor | Any:
        """Return an attribute that a module does not have as such: a parameter, a buffer or a submodule; called for each.

        Args:
            attr: the name.
            attr_val: the value.
            parameter_proxy_cache: path -> proxy, of this trace.

        >>> class Telling(facula.fx.Tracer):
        ...     def getattr(self, attr, attr_val, parameter_proxy_cache):
        ...         print("reads", attr)
        ...         return super().getattr(attr, attr_val, parameter_proxy_cache)
        >>> graph = Telling().trace(nn.Linear(1, 1))
        reads weight
        reads bias
        """
        return self._module_getattr(attr, attr_val, parameter_proxy_cache)

    def _module_getattr(self, attr, attr_val, parameter_proxy_cache):
        def cached(members, make):
            for name, value in members:
                if value is attr_val:
                    if name not in parameter_proxy_cache:
                        more = {} if make is None else {"proxy_factory_fn": functools.partial(make, name)}
                        parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **more)
                    return parameter_proxy_cache[name]
            return None

        if isinstance(attr_val, facula.nn.Parameter):
            make = None
            if self.param_shapes_constant and self._knows_factories():
                make = lambda name, node: ParameterProxy(self, node, name, attr_val)
            found = cached(self._parameters(), make)
            if found is not None:
                return found
        elif self.proxy_buffer_attributes and isinstance(attr_val, facula.Tensor):
            found = cached(self.root.named_buffers(), None)
            if found is not None:
                return found
        return attr_val

    def _knows_factories(self):
        """Return whether `create_proxy`, which a subclass may have written anew, takes a factory."""
        if "_takes_factory" not in self.__dict__:
            self._takes_factory = "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters
        return self._takes_factory

    def _parameters(self):
        by_id = self.__dict__.get("_parameter_names")
        if by_id is None:
            by_id = self.__dict__["_parameter_names"] = list(self.root.named_parameters())
        return by_id

    def _proxy_placeholder(self, name, concrete_args, sig, fn_for_analysis):
        """Return the proxy of an argument, or its concrete value."""
        if concrete_args is not None and name in concrete_args:
            return self._concrete(name, concrete_args[name], sig)
        default = ()
        if name[0] != "*":
            parameter = sig.parameters[name]
            default = () if parameter.default is parameter.empty else (parameter.default,)
        kind = stated_type(fn_for_analysis, name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _concrete(self, name, value, sig):
        counter = 0

        def replace(leaf):
            nonlocal counter
            counter += 1
            if isinstance(leaf, PHBase):
                proxy = self.create_proxy("placeholder", f"{name}_{counter}", (), {})
                if leaf is not PH:
                    _transfer_attrs(fr=leaf, to=proxy.node)
                return proxy
            self._specialize(name, counter, leaf, sig)
            return leaf

        return pytree.tree_map(replace, value)

    def _specialize(self, name, counter, value, sig):
        """Check an input whose value the graph relies on."""
        default = sig.parameters[name].default
        args = () if default is inspect.Parameter.empty else (default,)
        proxy = self.create_proxy("placeholder", f"{name}_{counter}", args, {})
        if value is None:
            text = f"{name} was None while tracing, got another value"
            self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
        elif isinstance(value, base_types) and not isinstance(value, facula.Tensor):
            text = f"{name} was {value} while tracing, got another value"
            self.create_proxy("call_function", facula._assert, (proxy == value, text), {})
        else:
            warnings.warn(
                f"symbolic_trace: no check is recorded for {name}, given in concrete_args as {type(value).__name__}; "
                "call the result with that same value"
            )

    def create_args_for_root(self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None) -> Any:
        """Return the proxies for the arguments of the program.

        Args:
            root_fn: the function.
            is_module: if True, its first argument is the root.
            concrete_args: values instead of proxies, by name, or as a tuple for the last ones.

        Returns:
            (the function to call, its arguments).

        >>> tracer = facula.fx.Tracer()
        >>> tracer.root, tracer.graph = nn.Module(), facula.fx.Graph()
        >>> function, args = tracer.create_args_for_root(lambda x, y: x, False)
        >>> args
        [Proxy(x), Proxy(y)]
        """
        fn = inspect.unwrap(root_fn)
        code = fn.__code__
        names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        sig = inspect.signature(fn)
        args, names_left = [], names
        if is_module:
            if not names:
                raise RuntimeError("symbolic_trace: forward must name self apart from *args, got no such parameter")
            args.append(self.root)
            names_left = names[1:]
        if isinstance(concrete_args, tuple) and not names_left and code.co_flags & inspect.CO_VARARGS:
            inputs = {f"input_{i}": value for i, value in enumerate(concrete_args)}
            return root_fn, args + [
                self.create_proxy("placeholder", name, (), {}) if value is PH else value for name, value in inputs.items()
            ]
        if isinstance(concrete_args, tuple):
            if len(names_left) != len(concrete_args):
                count = len(concrete_args)
                raise RuntimeError(f"symbolic_trace: expected {len(names_left)} concrete arguments, got {count}")
            concrete_args = dict(zip(names_left, concrete_args))
        args += [self._proxy_placeholder(name, concrete_args, sig, fn) for name in names_left]
        if code.co_flags & HAS_VARSTUFF:
            at = len(names)
            if code.co_flags & inspect.CO_VARARGS:
                args.append(self._proxy_placeholder(f"*{code.co_varnames[at]}", concrete_args, sig, fn))
                at += 1
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(self._proxy_placeholder(f"**{code.co_varnames[at]}", concrete_args, sig, fn))
            root_fn = _patch_function(fn, len(args))
        elif code.co_kwonlyargcount:
            root_fn = _by_keyword(root_fn, names[code.co_argcount :])
        return self._flattened(root_fn, args, names, is_module, concrete_args)

    def _flattened(self, fn, args, names, is_module, concrete_args):
        """Flatten arguments that are nested: the graph takes their leaves."""
        values = args[1:] if is_module else args
        leaves, spec = pytree.tree_flatten(tuple(values))
        if concrete_args is None or all(map(pytree.tree_is_leaf, values)):
            return fn, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names[1:] if is_module else list(names), spec, None))

        def flatten_fn(*flat):
            tree = pytree.tree_unflatten(list(flat[1:] if is_module else flat), spec)
            result = fn(*([flat[0]] if is_module else []), *tree)
            out, out_spec = pytree.tree_flatten(result)
            self.graph._codegen.pytree_info = self.graph._codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flatten_fn, ([args[0]] if is_module else []) + leaves

    def trace(self, root: Callable[..., Any] | Module, concrete_args: Any = None) -> Graph:
        """Return the graph of a module or function.

        Args:
            root: the module or function.
            concrete_args: values for some arguments, which then are no inputs: {name: value}, PH for an input inside of one.
        """
        global _is_fx_tracing_flag
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            return self._trace(root, concrete_args)
        finally:
            _is_fx_tracing_flag = before

    def _trace(self, root, concrete_args):
        if isinstance(root, facula.nn.Module):
            fn = self._prepare_module(root)
        else:
            self.root, fn = facula.nn.Module(), root
            self.submodule_paths = None
        tracer_cls = getattr(self, "__class__", None)
        self.graph: Graph = Graph(tracer_cls=tracer_cls)
        if hasattr(fn, "__code__"):
            code = fn.__code__
            self.graph._co_fields = {
                "co_name": code.co_name, "co_filename": code.co_filename, "co_firstlineno": code.co_firstlineno,
            }  # fmt: skip
        self.tensor_attrs: dict[Any, Any] = {}
        self.__dict__.pop("_parameter_names", None)
        self._collect_tensors(self.root, [])
        if not isinstance(fn, (types.FunctionType, functools.partial)) and not hasattr(fn, "__code__"):
            raise AssertionError(f"Tracer: a module or a function is expected, got {type(fn)}")
        scope = inspect.unwrap(fn).__globals__
        fn, args = self.create_args_for_root(fn, isinstance(root, facula.nn.Module), concrete_args)
        with _new_patcher() as patcher:
            _patch_program(self, patcher, scope)
            result = fn(*args)
        kind = stated_type(fn, "return")
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=kind)
        self.submodule_paths = None
        return self.graph

    def _prepare_module(self, root):
        """Return the function of a root module."""
        self.root: Module = root
        if not hasattr(type(root), self.traced_func_name):
            raise AssertionError(f"Tracer: {type(root).__name__} must have traced_func_name, got {self.traced_func_name}")
        fn = getattr(type(root), self.traced_func_name)
        self.root_module_name: str = root._get_name()
        self.submodule_paths: dict[Any, Any] | None = {module: name for name, module in root.named_modules()}
        return fn

    def _collect_tensors(self, module, prefix):
        for name, value in list(vars(module).items()):
            if isinstance(value, _constant_attribute_types) and not isinstance(value, facula.nn.Parameter):
                self.tensor_attrs[value] = ".".join([*prefix, name])
        for name, child in module.named_children():
            self._collect_tensors(child, [*prefix, name])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = Tracer.__new__(type(self))
        for key, value in vars(self).items():
            if key == "_autowrap_search":
                new.__dict__[key] = list(value)
            else:
                new.__dict__[key] = copy.deepcopy(value, memo)
        return new


@compatibility(is_backward_compatible=True)
def symbolic_trace(root: Callable[..., Any] | Module, concrete_args: Any = None) -> GraphModule:
    """Return a GraphModule of a module or function, by running it on proxies.

    Args:
        root: the module or function.
        concrete_args: values for some arguments; see Tracer.trace.

    >>> facula.fx.symbolic_trace(lambda x: facula.relu(x) + 1)(facula.tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, facula.nn.Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)
