"""Provide TorchScript's decorators and predicates, its archives, and traces. Scripted functions and modules run as
Python does.

Long because it has many small functions, each with an example.
"""

from __future__ import annotations

import builtins
import contextlib
import types
from typing import TYPE_CHECKING, Final, TypeVar  # noqa: F401

import facula
import facula.jit.annotations as annotations  # in place of the feature of that name
from facula._shared.on_demand import _on_demand
from facula.futures import Future
from facula.jit import scripted, traced  # noqa: F401
from facula.jit._loaded import load
from facula.jit.scripted import ScriptFunction, ScriptModule, save
from facula.jit.traced import TracerWarning, TracingCheckError, is_tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = [
    "Attribute",
    "Error",
    "Future",
    "ONNXTracedModule",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "last_executed_optimized_graph",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "run_frozen_optimizations",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "set_module",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]
_T = TypeVar("_T")


class Error(RuntimeError):
    """Report an error of TorchScript code."""


RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return a module as a ScriptModule, a function as a ScriptFunction; both run eagerly, as Python does. Anything else is
    itself.

    Args:
        obj: a Module, a function, or anything else, such as a class.
        optimize: without meaning.
        example_inputs: without meaning: nothing is compiled for types.

    The twin of a module shares its parameters, buffers and submodules. The text, the graph and the file of it are those of the
    program that its first call was.

    >>> scripted = torch.jit.script(nn.Sequential(nn.ReLU()))
    >>> scripted(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    >>> isinstance(scripted, torch.jit.ScriptModule), scripted.original_name
    (True, 'Sequential')
    """
    if builtins.isinstance(obj, facula.nn.Module):
        waiting = [name for name, p in (*obj.named_parameters(), *obj.named_buffers()) if facula.nn.parameter.is_lazy(p)]
        if waiting:
            raise RuntimeError(f"jit.script: a first call must have made all parameters, got unmade {', '.join(waiting)}")
        return scripted.module(obj)
    if builtins.isinstance(obj, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return scripted.function(obj)
    return obj


def trace(func: Callable[..., Any], example_inputs: Sequence[Tensor] | Tensor | None = None, optimize: Any = None,
          check_trace: bool = True, check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
          _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
          example_kwarg_inputs: Any = None, _store_inputs: bool = True) -> Any:  # fmt: skip
    """Return a module or a function as one that runs what was recorded for the example; `jit/traced.py` says how.

    Args:
        func: a module or a function.
        example_inputs: a tuple of arguments, or one argument.
        optimize: without meaning.
        check_trace: whether what was recorded is compared with `func`.
        check_inputs: further arguments to compare with, each as `example_inputs`.
        check_tolerance: of these comparisons.
        strict: without meaning: lists and dicts may be results.
        example_kwarg_inputs: a dict of arguments by name.

    Errors: TracingCheckError where the comparison finds another result.

    A program is recorded for each shape and dtype that comes. What cannot be recorded runs as Python does, after
    a TracerWarning.

    >>> traced = torch.jit.trace(lambda x: x.relu() + 1, torch.ones(2))
    >>> traced(torch.tensor([-1.0, 2.0]))
    tensor([1., 3.])
    >>> [node.name for node in traced.graph.nodes if node.op == "call_function"]
    ['relu', 'add']
    """
    args, kwargs = traced.as_arguments(example_inputs), dict(example_kwarg_inputs or {})
    if builtins.isinstance(func, facula.nn.Module):
        made = traced.traced_module(func, ["forward"])
    else:
        made = traced.TracedFunction(func)
    _record_example(made._traces["forward"], args, kwargs, check_trace, check_inputs, check_tolerance)
    return made


def trace_module(mod: Module, inputs: Any, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
                 check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
                 _compilation_unit: Any = None, example_inputs_is_kwarg: bool = False,
                 _store_inputs: bool = True) -> ScriptModule:  # fmt: skip
    """Return what `trace` gives, for several methods of a module: a module whose methods run programs.

    Args:
        mod: the module.
        inputs: a dict from the names of methods to their example arguments, a tuple or one argument.
        optimize: without meaning.
        check_trace: whether each program is compared with its method.
        check_inputs: a list of dicts like `inputs` to compare with too.
        check_tolerance: of these comparisons.
        strict: without meaning.
        example_inputs_is_kwarg: whether the examples are dicts of arguments by name.

    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return self.scaled(x) + 1
    ...     def scaled(self, x):
    ...         return 2 * x
    >>> traced = torch.jit.trace_module(Net(), {"forward": torch.ones(2), "scaled": (torch.ones(2),)})
    >>> traced(torch.ones(2)), traced.scaled(torch.ones(2))
    (tensor([3., 3.]), tensor([2., 2.]))
    """
    made = traced.traced_module(mod, list(inputs))
    for name, example in inputs.items():
        args, kwargs = ((), dict(example)) if example_inputs_is_kwarg else (traced.as_arguments(example), {})
        more = [given[name] for given in check_inputs or () if name in given]
        _record_example(made._traces[name], args, kwargs, check_trace, more, check_tolerance)
    return made


def _record_example(trace, args, kwargs, check_trace, check_inputs, tolerance):
    trace(*args, **kwargs)
    if trace.failed is None and check_trace:
        traced.check(trace, args, kwargs, tolerance)
        for example in check_inputs or ():
            traced.check(trace, traced.as_arguments(example), {}, tolerance)


def freeze(mod: Module, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Module:
    """Return `mod` itself: programs are recorded from a module as it is, and there is nothing to fold into them.

    Args:
        mod: a ScriptModule, or any module.
        preserved_attrs, optimize_numerics: without meaning.

    >>> scripted = torch.jit.script(nn.ReLU()).eval()
    >>> torch.jit.freeze(scripted) is scripted
    True
    """
    return mod


def optimize_for_inference(mod: Module, other_methods: Any = None) -> Module:
    """Return `mod` itself: kernels keep weights in their order by themselves.

    Args:
        mod: a ScriptModule, or any module.
        other_methods: without meaning.

    >>> scripted = torch.jit.script(nn.ReLU()).eval()
    >>> torch.jit.optimize_for_inference(scripted) is scripted
    True
    """
    return mod


def run_frozen_optimizations(mod: Module, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Do nothing, as there is nothing to optimize in a module that runs as Python does.

    Args:
        mod: the module.
        optimize_numerics, preserved_methods: without meaning.

    >>> torch.jit.run_frozen_optimizations(torch.jit.script(nn.ReLU()))
    """


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn` itself: a decorator that says of a method that TorchScript programs may call it. All may be called here.

    Args:
        fn: the method.

    >>> class Net(nn.Module):
    ...     @torch.jit.export
    ...     def scaled(self, x):
    ...         return 2 * x
    >>> torch.jit.script(Net()).scaled(3)
    6
    """
    return fn


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn` itself: a decorator that says of a method that no TorchScript program calls it. Calls run it here.

    Args:
        fn: the method.

    >>> torch.jit.unused(abs)(-1)
    1
    """
    return fn


def ignore(drop: Callable[..., Any] | bool = False, **kwargs: Any) -> Callable[..., Any]:
    """Return the decorated function itself; with or without arguments. In TorchScript it stays Python, as everything does here.

    Args:
        drop: the function, where the decorator has no arguments; else without meaning.
        kwargs: without meaning.

    >>> @torch.jit.ignore
    ... def shown(x):
    ...     return str(x)
    >>> shown(1), torch.jit.ignore(drop=True)(abs)(-1)
    ('1', 1)
    """
    return drop if callable(drop) else lambda fn: fn


def interface(obj: Any) -> Any:
    """Return `obj` itself: a decorator of classes that say which methods a module has.

    Args:
        obj: the class.

    >>> @torch.jit.interface
    ... class Scales:
    ...     def scaled(self, x): ...
    >>> Scales.__name__
    'Scales'
    """
    return obj


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn` itself: a decorator of methods of classes that derive from ScriptModule.

    Args:
        fn: the method.

    >>> class Net(torch.jit.ScriptModule):
    ...     @torch.jit.script_method
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Net()(3)
    6
    """
    return fn


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fn` itself: a decorator of functions that are compiled while a program is traced. A trace records what they do.

    Args:
        fn: the function.

    >>> torch.jit.script_if_tracing(abs)(-1)
    1
    """
    return fn


_script_if_tracing = script_if_tracing


def _overload(func):
    """Return `func` itself."""
    return func


def _overload_method(func):
    """Return `func` itself."""
    return func


def is_scripting() -> bool:
    """Return False: programs are not compiled, so that the branch for Python is the one that runs.

    >>> torch.jit.is_scripting()
    False
    """
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return `the_value`: tells a compiler a type, of which there is none here.

    Args:
        the_type: the type.
        the_value: the value.

    >>> torch.jit.annotate(list[int], [])
    []
    """
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """Return `value`: tells a compiler the type of an attribute, of which there is none here.

    Args:
        value: the value.
        type: its type.

    >>> torch.jit.Attribute({}, dict[str, int])
    {}
    """
    return value


def isinstance(obj: Any, target_type: type) -> bool:
    """Return what the builtin gives, also for list[T], dict[K, V], tuple[...] and unions, whose contents are checked.

    Args:
        obj: the value.
        target_type: a type, or a tuple of types.

    >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance([1, "a"], list[int])
    (True, False)
    >>> torch.jit.isinstance({"a": None}, dict[str, int | None])
    True
    """
    return annotations._matches(obj, target_type)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Run `func` at once; `wait` gives its result.

    Args:
        func: a function.
        args, kwargs: what it is called with.

    Returns: a Future that is done. What func raises is raised here.

    >>> torch.jit.wait(torch.jit.fork(torch.add, torch.ones(1), 2))
    tensor([3.])
    """
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> int:
    """Return the result of `fork`.

    Args:
        future: what fork returned.

    Errors: RuntimeError for what is no future.

    >>> torch.jit.wait(torch.jit.fork(torch.neg, torch.ones(1)))
    tensor([-1.])
    """
    if not hasattr(future, "wait"):
        raise RuntimeError(f"jit.wait: expected a future, got {type(future).__name__}")
    return future.wait()


@contextlib.contextmanager
def optimized_execution(should_optimize: bool):
    """Return a context without effect: there is no optimizer to turn on or off.

    Args:
        should_optimize: without meaning.

    >>> with torch.jit.optimized_execution(False):
    ...     torch.jit.script(lambda x: x + 1)(1)
    2
    """
    yield


@contextlib.contextmanager
def fuser(name: str):
    """Return a context without effect: there is no fuser to choose.

    Args:
        name: of PyTorch's fuser, "fuser0" to "fuser3".

    >>> with torch.jit.fuser("fuser1"):
    ...     torch.jit.script(lambda x: x + 1)(1)
    2
    """
    yield


class strict_fusion:
    """Accept the context for compatibility. It has no effect: nothing is fused, so that no fusion can fail.

    >>> with torch.jit.strict_fusion():
    ...     torch.jit.script(lambda x: x + 1)(1)
    2
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Change nothing; give the previous strategy, none.

    Args:
        strategy: a list of ("STATIC" or "DYNAMIC", depth).

    >>> torch.jit.set_fusion_strategy([("STATIC", 2)])
    []
    """
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Change nothing: TorchScript's programs are not fused.

    Args:
        enabled: without meaning.

    >>> torch.jit.enable_onednn_fusion(True)
    >>> torch.jit.onednn_fusion_enabled()
    False
    """


def onednn_fusion_enabled() -> Any:
    """Return False: TorchScript's programs are not fused.

    >>> torch.jit.onednn_fusion_enabled()
    False
    """
    return False


def last_executed_optimized_graph() -> Any:
    """Raise NotImplementedError: there are no optimized graphs. `graph` of a scripted module is that of its first call.

    >>> torch.jit.last_executed_optimized_graph()
    Traceback (most recent call last):
        ...
    NotImplementedError: jit.last_executed_optimized_graph: Facula makes no graphs
    """
    raise NotImplementedError("jit.last_executed_optimized_graph: Facula makes no graphs")


def set_module(obj: Any, mod: str) -> None:
    """Make `obj` say that it comes from another module.

    Args:
        obj: a class or function.
        mod: the name of the module.

    >>> def helper(): ...
    >>> torch.jit.set_module(helper, "torch.jit")
    >>> helper.__module__
    'torch.jit'
    """
    obj.__module__ = mod


class ONNXTracedModule(facula.nn.Module):
    """Refuse to wrap a module for ONNX tracing: NotImplementedError. `onnx.export` records modules itself.

    Args:
        inner: the module.
        strict, force_outplace, return_inputs, return_inputs_states: PyTorch's options of the trace.

    >>> torch.jit.ONNXTracedModule(nn.ReLU())
    Traceback (most recent call last):
        ...
    NotImplementedError: jit.ONNXTracedModule: not supported by Facula
    """

    def __init__(self, inner: Any, strict: bool = True, force_outplace: bool = False, return_inputs: bool = False,
                 return_inputs_states: bool = False) -> None:  # fmt: skip
        raise NotImplementedError("jit.ONNXTracedModule: not supported by Facula")

__getattr__ = _on_demand(__name__)
