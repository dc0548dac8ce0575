"""Trace the ops that a function runs into a graph (`make_fx`), below autograd and below composites.

The function runs on tensors. A mode receives every op where its kernel would run, and adds a node with `torch.ops.aten`
as the target, so backward passes are in the graph, too. The ops are those for which Facula has kernels, which are not
always PyTorch's (`linear` is one op, not a transposition and a product).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from typing import TYPE_CHECKING

import facula
from facula._tensor.fake import FakeTensor, FakeTensorMode
from facula.fx._symbolic_trace import PH, Tracer
from facula.fx.graph_module import GraphModule
from facula.fx.node import map_aggregate
from facula.fx.passes.shape_prop import _extract_tensor_metadata
from facula.fx.proxy import Proxy
from facula.utils import _pytree as pytree
from facula.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.fx._symbolic_trace import PHBase
    from facula.fx.node import Node
    from facula.nn.modules.module import Module

__all__ = [
    "PythonKeyTracer", "ProxyTorchDispatchMode", "dispatch_trace", "make_fx", "get_isolated_graphmodule", "get_proxy_mode",
    "maybe_disable_fake_tensor_mode", "disable_proxy_modes_tracing", "decompose",
]  # fmt: skip


class _Active(threading.local):
    def __init__(self):
        self.modes, self.tables = [], [{}]


_active = _Active()


class PythonKeyTracer(Tracer):
    """Trace for `make_fx`: tensors that are not inputs become attributes.

    >>> from facula.fx.experimental import proxy_tensor
    >>> tracer = proxy_tensor.PythonKeyTracer()
    >>> tracer.root, tracer.graph = nn.Module(), facula.fx.Graph()
    >>> x = facula.ones(2)
    >>> tracer.track(x, tracer.create_proxy("placeholder", "x", (), {}))
    >>> tracer.proxy_of(x), tracer.proxy_of(5)
    (Proxy(x), 5)
    """

    def __init__(self):
        super().__init__(autowrap_modules=())
        self.tracked: dict[Any, Any] = {}

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Run the module: no module is a node.

        Args:
            m, forward, args, kwargs: as of Tracer.call_module.
        """
        del m
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Tensor, parameter_proxy_cache: dict[Any, Any]) -> Tensor:
        """Return the attribute itself.

        Args:
            attr, attr_val, parameter_proxy_cache: as of Tracer.getattr.
        """
        del attr, parameter_proxy_cache
        return attr_val

    def create_arg(self, a: Any) -> Any:
        """Return `a` as a graph holds it.

        Args:
            a: anything.
        """
        if isinstance(a, facula.Tensor):
            known = self._known(a)
            return (self._constant(a) if known is None else known).node
        return super().create_arg(a)

    def _known(self, tensor):
        """Return the proxy of a tensor, or of the tracked one that lies where it does.

        Detached tensors, those that autograd saved among them, come about where no mode sees it.
        """
        known = self.tracked.get(id(tensor))
        if known is None and (place := _place(tensor)) is not None:
            tracked, proxy = next((pair for pair in reversed(self.tracked.values()) if _place(pair[0]) == place), (None, None))
            if tracked is not None:
                cut = self.create_proxy("call_function", facula.ops.aten.detach.default, (proxy,), {}, name="detach")
                self.track(tensor, cut)
                known = self.tracked[id(tensor)]
        return None if known is None else known[1]

    def _constant(self, tensor):
        """Return the proxy of a tensor that was there before, which becomes an attribute of the root."""
        kind = "_param_constant" if isinstance(tensor, facula.nn.Parameter) else "_tensor_constant"
        name = self.get_fresh_qualname(kind)
        setattr(self.root, name, tensor)
        proxy = self.create_proxy("get_attr", name, (), {})
        if kind == "_param_constant":
            self.track(tensor, proxy)
        return proxy

    def track(self, tensor: Tensor, proxy: Any) -> None:
        """Say which proxy stands for a tensor.

        Args:
            tensor: the tensor, which is kept.
            proxy: the proxy.
        """
        self.tracked[id(tensor)] = (tensor, proxy)

    def proxy_of(self, value: Any) -> Any:
        """Return the proxy of a tensor that is tracked; anything else as it is.

        Args:
            value: the value.
        """
        known = self._known(value) if isinstance(value, facula.Tensor) else None
        return value if known is None else known


def _place(tensor):
    # Where a tensor's elements lie, and how: None for those without memory or elements, and for classes that hold others.
    if type(tensor) not in (facula.Tensor, facula.nn.Parameter) or tensor.layout != facula.strided or not tensor.numel():
        return None
    if tensor.device.type == "meta":
        return None
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg()


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Add a node for every op in a block.

    Args:
        tracer: a PythonKeyTracer.
        tracing_mode: "real" or "fake".

    >>> from facula.fx.experimental import proxy_tensor
    >>> tracer = proxy_tensor.PythonKeyTracer()
    >>> tracer.root, tracer.graph, tracer.tensor_attrs = nn.Module(), facula.fx.Graph(), {}
    >>> mode = proxy_tensor.ProxyTorchDispatchMode(tracer)
    >>> x = facula.ones(2)
    >>> with mode:
    ...     y = x.sin()
    >>> [node.name for node in tracer.graph.nodes]
    ['_tensor_constant0', 'sin']
    >>> mode.note(tracer.proxy_of(y).node, y)
    >>> tracer.proxy_of(y).node.meta["tensor_meta"].shape
    torch.Size([2])
    """

    tracer: Tracer
    tracing_mode: str

    def __init__(self, tracer: Tracer, tracing_mode: str = "real") -> None:
        super().__init__()
        self.tracer, self.tracing_mode = tracer, tracing_mode
        self._fakes = FakeTensorMode()

    def __enter__(self) -> Self:
        _active.modes.append(self)
        return super().__enter__()

    def __exit__(self, *exception: object) -> bool | None:
        _active.modes.pop()
        return super().__exit__(*exception)

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Tensor:  # fmt: skip
        kwargs = kwargs or {}
        decomposition = _active.tables[-1].get(func, _active.tables[-1].get(func.overloadpacket))
        if decomposition is not None:
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        name = func.overloadpacket.__name__
        given = self.tracer.create_arg(args), self.tracer.create_arg(kwargs)
        node = self.tracer.create_node("call_function", func, *given, name=self.tracer.graph._target_to_str(name))
        result = func(*args, **kwargs)
        self._track(result, node)
        return result

    def _track(self, result, node):
        """Note which tensors the node stands for, and what is known of them."""
        tracer = self.tracer
        self.note(node, result)
        if isinstance(result, facula.Tensor):
            tracer.track(result, Proxy(node, tracer))
        elif isinstance(result, (list, tuple)):
            for at, part in enumerate(result):
                if isinstance(part, facula.Tensor):
                    item = Proxy(node, tracer)[at]
                    self.note(item.node, part)
                    tracer.track(part, item)

    def note(self, node: Node, value: Any) -> None:
        """Put what is known of a value in the node's `meta`: "val" and "tensor_meta".

        Args:
            node: the node.
            value: its value.
        """
        with _disable_current_modes():
            imitate = lambda v: self._imitation(v) if isinstance(v, facula.Tensor) else v
            node.meta["val"] = map_aggregate(value, imitate)
            if isinstance(value, facula.Tensor):
                node.meta["tensor_meta"] = _extract_tensor_metadata(value)

    def _imitation(self, tensor):
        if isinstance(tensor, FakeTensor):
            return tensor
        data = facula.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
        return FakeTensor(self._fakes, data, tensor.device, tensor.requires_grad)


def get_proxy_mode() -> Any:
    """Return the innermost mode of `make_fx` that is on, or None.

    >>> from facula.fx.experimental.proxy_tensor import get_proxy_mode
    >>> get_proxy_mode() is None
    True
    """
    return _active.modes[-1] if _active.modes else None


get_innermost_proxy_mode = get_proxy_mode


@contextlib.contextmanager
def disable_proxy_modes_tracing():
    """Record no ops within it.

    >>> from facula.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
    >>> def step(x):
    ...     with disable_proxy_modes_tracing():
    ...         scale = facula.ones(2).sum()
    ...     return x * scale
    >>> print(make_fx(step)(facula.ones(2)).graph)
    graph():
        %x_1 : [num_users=1] = placeholder[target=x_1]
        %_tensor_constant0 : [num_users=1] = get_attr[target=_tensor_constant0]
        %mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%x_1, %_tensor_constant0), kwargs = {})
        return mul
    """
    before, _active.modes = _active.modes, []
    try:
        with _disable_current_modes():
            yield
    finally:
        _active.modes = before


maybe_disable_fake_tensor_mode = _disable_current_modes


@contextlib.contextmanager
def decompose(decomposition_table: Any):
    """Replace, within it, recorded ops that the table has by what its functions run.

    Args:
        decomposition_table: {op: function}

    >>> from facula.fx.experimental.proxy_tensor import decompose, make_fx
    >>> with decompose({}) as table:
    ...     table
    {}
    >>> gm = make_fx(lambda x: x.sinc(), {facula.ops.aten.sinc: lambda x: x.sin() / x})(facula.ones(2))
    >>> [node.name for node in gm.graph.nodes]
    ['x_1', 'sin', 'div', 'output']
    """
    _active.tables.append(dict(decomposition_table or {}))
    try:
        yield _active.tables[-1]
    finally:
        _active.tables.pop()


def dispatch_trace(root: Callable[..., Any], tracer: Tracer,
                   concrete_args: Sequence[PHBase | Sequence[PHBase] | dict[str, PHBase]] | None = None) -> GraphModule:
    """Return a GraphModule of what a tracer records of a function.

    Args:
        root: the function.
        tracer: the tracer.
        concrete_args: as of Tracer.trace.

    >>> from facula.fx.experimental.proxy_tensor import PythonKeyTracer, dispatch_trace
    >>> gm = dispatch_trace(lambda x: x + 1, PythonKeyTracer())
    >>> gm(1)
    2
    """
    graph = tracer.trace(root, concrete_args)
    graph.eliminate_dead_code(lambda node: node.op != "get_attr")
    name = root.__class__.__name__ if isinstance(root, facula.nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


def _with_names(function, count):
    """Return `function` as one with `count` named parameters, if its own are not known."""
    target = inspect.unwrap(function)
    code = getattr(target, "__code__", None)
    if code is not None and not code.co_flags & inspect.CO_VARARGS and not inspect.ismethod(target):
        return function
    names = ", ".join(f"arg{at}" for at in range(count))
    # Only names that were made here are evaluated; `fx` reads the parameters from the code.
    return eval(f"lambda {names}: function({names})", {"function": function})


def make_fx(f: Callable[..., Any], decomposition_table: dict[Callable[..., Any], Callable[..., Any]] | None = None,
            tracing_mode: str = "real", _allow_non_fake_inputs: bool = False, *, pre_dispatch: bool = False,
            record_module_stack: bool = False, _allow_fake_constant: bool = False,
            _error_on_data_dependent_ops: bool = True) -> Callable[..., Any]:  # fmt: skip
    """Return a function that runs `f` on its arguments and gives the GraphModule of the ops that it ran.

    Args:
        f: the function or module.
        decomposition_table: {op: function}: what is recorded instead of an op is what the function runs.
        tracing_mode: "real" computes; "fake" runs on fake tensors, which have shapes only.
        pre_dispatch, record_module_stack: accepted where they are False.

    >>> gm = facula.fx.experimental.proxy_tensor.make_fx(lambda x: x.sin() + 1)(facula.ones(2))
    >>> [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]
    ['aten.sin.default', 'aten.add.Tensor']
    """
    if tracing_mode not in ("real", "fake"):
        raise NotImplementedError(
            f"make_fx: tracing_mode is 'real' or 'fake', since sizes are numbers here, got {tracing_mode!r}"
        )
    if pre_dispatch or record_module_stack:
        raise NotImplementedError("make_fx: pre_dispatch and record_module_stack are not supported, got True")

    @functools.wraps(f)
    def wrapped(*args):
        return _make_fx(f, decomposition_table, tracing_mode, args)

    return wrapped


def _make_fx(f, table, tracing_mode, args):
    tracer = PythonKeyTracer()
    mode = ProxyTorchDispatchMode(tracer, tracing_mode)
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True) if tracing_mode == "fake" else None
    imitate = lambda v: fake_mode.from_tensor(v) if isinstance(v, facula.Tensor) else v
    values = pytree.tree_map(imitate, args) if fake_mode is not None else args
    named = _with_names(f, len(args))

    @functools.wraps(named)
    def root(*proxies):
        _track_inputs(mode, tracer, pytree.tree_leaves(proxies), pytree.tree_leaves(values))
        with contextlib.ExitStack() as stack:
            if fake_mode is not None:
                stack.enter_context(fake_mode)
            stack.enter_context(decompose(table))
            stack.enter_context(mode)
            result = named(*values)
        return pytree.tree_map(tracer.proxy_of, result)

    holes = tuple(pytree.tree_map(lambda _: PH, args))
    return dispatch_trace(root, tracer, holes)


def _track_inputs(mode, tracer, proxies, values):
    for proxy, value in zip(proxies, values):
        mode.note(proxy.node, value)
        if isinstance(value, facula.Tensor):
            tracer.track(value, proxy)


def get_isolated_graphmodule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                             tracing_mode: str = "real", decomposition_table: Any = None) -> GraphModule:  # fmt: skip
    """Return the GraphModule of what a function runs on some arguments, whatever else is being recorded.

    Args:
        func: the function.
        args, kwargs: its arguments.
        tracing_mode, decomposition_table: as of make_fx.

    >>> from facula.fx.experimental.proxy_tensor import get_isolated_graphmodule
    >>> gm = get_isolated_graphmodule(lambda x, scale: x * scale, (facula.ones(2),), {"scale": 3})
    >>> [node.name for node in gm.graph.nodes]
    ['arguments_1', 'arguments_2', 'mul', 'output']
    """
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def wrapped(arguments):
        given, named = pytree.tree_unflatten(arguments, spec)
        return func(*given, **named)

    with disable_proxy_modes_tracing():
        return make_fx(wrapped, decomposition_table, tracing_mode)(leaves)
