"""Pass stretches of ops to a custom backend and call the functions that it returns: the Python around
`src/region/stretch.h`.

The core finds the ops of a stretch. `graph_of` converts them to a graph of ATen targets, which the backend receives
with the tensors that the stretch reads. The function that it returns runs the stretch in later calls.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.compiler import _errors, _settings
from facula.compiler._backends import aten_names
from facula.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    decompose,
    disable_proxy_modes_tracing,
    dispatch_trace,
)
from facula.fx.proxy import Proxy
from facula.utils._python_dispatch import by_own_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.fx.graph_module import GraphModule

__all__ = ["Stretches", "being_compiled", "graph_of", "plain_call"]


# ---- graphs


class _Tracer(PythonKeyTracer):
    """Identify tensors by their elements. It does not read their addresses, which would turn them into memory that
    others may write.
    """

    def __init__(self):
        super().__init__()
        self._by_place: dict[Any, Any] = {}

    def track(self, tensor: facula.Tensor, proxy: Any) -> None:
        """Say which proxy stands for a tensor.

        Args:
            tensor, proxy: as of PythonKeyTracer.track.
        """
        super().track(tensor, proxy)
        self._by_place[_C._stretch_place(tensor)] = (tensor, proxy)

    def _known(self, tensor):
        # The core may show the same elements as another object, such as a view of all of them.
        known = self.tracked.get(id(tensor)) or self._by_place.get(_C._stretch_place(tensor))
        return None if known is None else known[1]

    def _constant(self, tensor):
        if tensor.dim() > 0:
            raise RuntimeError(
                f"compile: an op was given a tensor of shape {tuple(tensor.shape)} that no op of the graph has made; "
                "torch.compiler.disable leaves its function out"
            )
        return super()._constant(tensor)


class _Mode(ProxyTorchDispatchMode):
    """Record PyTorch's name for every op of the core.

    Args:
        tracer: a tracer.
        renames: whether it does.
    """

    def __init__(self, tracer: _Tracer, renames: bool) -> None:
        super().__init__(tracer)
        self.renames = renames

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        renamed = aten_names.named(func, args, kwargs or {}) if self.renames else None
        if renamed is None:
            return super().__torch_dispatch__(func, types, args, kwargs)
        target, given, named = renamed
        tracer = self.tracer
        name = tracer.graph._target_to_str(target.overloadpacket.__name__)
        node = tracer.create_node("call_function", target, tracer.create_arg(given), tracer.create_arg(named), name=name)
        result = func(*args, **(kwargs or {}))
        self._track(result, node)
        if func.__name__ in aten_names.SHAPED:
            for part in result[1:]:
                given = (tracer.proxy_of(part).node, list(part.shape))
                flat = tracer.create_node("call_function", facula.ops.aten.view.default, given, {})
                self.note(flat, part)
                tracer.track(part, Proxy(flat, tracer))
        return result


def graph_of(run: Callable[..., Any], examples: Sequence[Any], table: Any = None, own_ops: bool = False,
             renames: bool = False) -> GraphModule:  # fmt: skip
    """Return the graph of the ops that a function of tensors runs: placeholders are arg0_1, arg1_1, ..., the output is a tuple.

    Args:
        run: takes as many tensors as there are examples.
        examples: the tensors with which it runs once.
        table: {op: function}: what is recorded in the place of an op.
        own_ops: whether targets are those of the core, `torch.ops.facula`, wherever PyTorch divides its work in another way.
        renames: whether other names are looked for (aten_names.py).
    """
    tracer, values = _Tracer(), list(examples)
    mode = _Mode(tracer, renames)
    names = ", ".join(f"arg{i}" for i in range(len(values)))

    def root(*proxies):
        for proxy, value in zip(proxies, values, strict=True):
            mode.note(proxy.node, value)
            tracer.track(value, proxy)
        with disable_proxy_modes_tracing(), decompose(table), by_own_names(None if own_ops else aten_names.OTHER_BITS), mode:
            result = run(*values)
        return tuple(map(tracer.proxy_of, result)) if isinstance(result, (tuple, list)) else tracer.proxy_of(result)

    with facula.no_grad():
        made = dispatch_trace(eval(f"lambda {names}: root({names})", {"root": root}), tracer, (_hole(),) * len(values))
    _without_idle(made.graph)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made


def _without_idle(graph):
    """Leave out conjugates of what is real: they are the same tensors."""
    for node in graph.nodes:
        if node.target is facula.ops.aten._conj.default and not node.args[0].meta["val"].is_complex():
            node.replace_all_uses_with(node.args[0])


def _hole():
    from facula.fx._symbolic_trace import PH

    return PH


def _is_same(a, b):
    """Return whether two tensors are the same, bit by bit, but for what a NaN says beside being one."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.is_complex():
        a, b = facula.view_as_real(a.resolve_conj()), facula.view_as_real(b.resolve_conj())
    if not a.dtype.is_floating_point:
        return facula.equal(a, b)
    return bool((((a == b) & (a.signbit() == b.signbit())) | ((a != a) & (b != b))).all())


def _gives(graph, examples, known):
    with facula.no_grad():
        return all(map(_is_same, graph.forward(*examples), known))


# ---- what runs a stretch

_here = threading.local()  # .compiling: the stretches whose backend is called


def being_compiled() -> Stretches | None:
    """Return the stretches whose backend runs now on this thread."""
    return getattr(_here, "compiling", None)


def plain_call(code: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors, of one that may take them in a list (`_boxed_call`).

    Args:
        code: the function.
    """
    if not getattr(code, "_boxed_call", False):
        return code
    return lambda *inputs: code(list(inputs))


def name_of(backend: Any) -> str:
    """Return what errors call a backend.

    Args:
        backend: a function.
    """
    return getattr(backend, "__name__", None) or type(backend).__name__


class Stretches:
    """Hold the codes that a backend has returned for a compiled function, or for its backward passes.

    Args:
        settings: those of the function.
        compiled: the function.
        backend: the backend; None until one is set.
        backward: the stretches of backward passes, or None where these are they.
    """

    def __init__(self, settings: Any, compiled: Any, backend: Any, backward: Stretches | None = None) -> None:
        self.settings, self.backend, self.backward = settings, backend, backward
        self.codes: list[Callable[..., Any]] = []  # the core calls them by their place
        self.graphs = 0
        self._compiled = weakref.ref(compiled)

    @property
    def name(self) -> str:
        return f"compile: the backend {name_of(self.backend)!r}"

    def may_record(self) -> bool:
        """Return whether more is recorded: a backward pass for which there is a compiler, or as the settings say."""
        if self.backend is None:
            return False
        compiled = self._compiled()
        return self.backward is None or (compiled is not None and self.settings.look_begins(compiled))

    def compile(self, run: Callable[..., Any], examples: tuple[Any, ...], records_gradients: bool) -> int:
        """Return the place in `codes` of what the backend gives for a stretch.

        Args:
            run: a function of a tuple of tensors that runs the ops.
            examples: the tensors.
            records_gradients: whether a derivative may be asked for.
        """
        graph = self._checked_graph(run, examples)
        outer, _here.compiling = being_compiled(), self
        self.trains = records_gradients and any(example.requires_grad for example in examples)
        try:
            code = self.backend(graph, list(examples), **(self.settings.arguments if self.backward else {}))
            if not callable(code):
                raise TypeError(f"compile: a backend must return a function, got {type(code).__name__}")
        except Exception as error:
            if not _settings.suppress_errors:
                raise _errors.BackendCompilerFailed(self.backend, error) from error
            code = graph.forward
        finally:
            _here.compiling = outer
        self.graphs += 1
        self.codes.append(plain_call(code))
        return len(self.codes) - 1

    def _checked_graph(self, run, examples):
        """Return the graph of a stretch, which gives what the ops give: else it is made of the core's own ops."""
        known = run(examples)
        for how in ({"renames": True}, {}):
            with contextlib.suppress(RuntimeError, TypeError, NotImplementedError):  # operators that take something else
                graph = graph_of(lambda *given: run(given), examples, **how)
                if _gives(graph, examples, known):
                    return graph
        graph = graph_of(lambda *given: run(given), examples, own_ops=True)
        if _gives(graph, examples, known):
            return graph
        raise RuntimeError(
            f"{self.name}: a graph that gives the results of the program's ops is expected, got\n{graph.code}"
        )

    def compile_backward_by(self, compiler: Callable[..., Any]) -> None:
        """Say who is given the stretches of backward passes.

        Args:
            compiler: a function of a graph and example inputs.
        """
        if self.backward is not None and self.backward.backend is None:
            self.backward.backend = compiler
