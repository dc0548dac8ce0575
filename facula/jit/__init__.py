"""TorchScript's decorators and questions, its archives, and traces. What is scripted runs as Python does."""

from __future__ import annotations

import builtins
import contextlib
import types
from typing import TYPE_CHECKING, Final, TypeVar  # noqa: F401

import facula
import facula.jit.annotations as annotations  # in place of the feature of that name
from facula.futures import Future
from facula.jit import scripted, traced  # noqa: F401
from facula.jit.loaded import load
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
    """An error of TorchScript code."""


RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """A module as a ScriptModule, a function as a ScriptFunction; both run eagerly. Anything else is itself."""
    if builtins.isinstance(obj, facula.nn.Module):
        return scripted.module(obj)
    if builtins.isinstance(obj, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return scripted.function(obj)
    return obj


def trace(func: Callable[..., Any], example_inputs: Sequence[Tensor] | Tensor | None = None, optimize: Any = None,
          check_trace: bool = True, check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
          _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
          example_kwarg_inputs: Any = None, _store_inputs: bool = True) -> Any:  # fmt: skip
    """A module or a function as one that runs what was recorded for the example; `jit/traced.py` says how.

    Args:
        func: a module or a function.
        example_inputs: a tuple of arguments, or one argument.
        optimize: without meaning.
        check_trace: whether what was recorded is compared with `func`.
        check_inputs: further arguments to compare with, each as `example_inputs`.
        check_tolerance: of these comparisons.
        strict: without meaning: lists and dicts may be results.
        example_kwarg_inputs: a dict of arguments by name.
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
    """As `trace`, for several methods of a module.

    Args:
        mod: the module.
        inputs: a dict from the names of methods to their example arguments.
        optimize: without meaning.
        check_trace: as for `trace`.
        check_inputs: a list of dicts like `inputs`.
        check_tolerance: as for `trace`.
        strict: without meaning.
        example_inputs_is_kwarg: whether the examples are dicts of arguments by name.
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
    """`mod` itself."""
    return mod


def optimize_for_inference(mod: Module, other_methods: Any = None) -> Module:
    """`mod` itself."""
    return mod


def run_frozen_optimizations(mod: Module, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Nothing to do."""


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` itself."""
    return fn


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` itself."""
    return fn


def ignore(drop: Callable[..., Any] | bool = False, **kwargs: Any) -> Callable[..., Any]:
    """The decorated function itself; with or without arguments."""
    return drop if callable(drop) else lambda fn: fn


def interface(obj: Any) -> Any:
    """`obj` itself."""
    return obj


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` itself."""
    return fn


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` itself."""
    return fn


_script_if_tracing = script_if_tracing


def _overload(func):
    """`func` itself."""
    return func


def _overload_method(func):
    """`func` itself."""
    return func


def is_scripting() -> bool:
    """False."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """`the_value`."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """`value`."""
    return value


def isinstance(obj: Any, target_type: type) -> bool:
    """As the builtin, also for list[T], dict[K, V], tuple[...] and unions, whose contents are checked."""
    return annotations.matches(obj, target_type)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Runs `func` at once; `wait` gives its result.

    Args:
        func: a function.
        args, kwargs: what it is called with.

    Returns a Future that is done. What func raises is raised here.

    >>> torch.jit.wait(torch.jit.fork(torch.add, torch.ones(1), 2))
    tensor([3.])
    """
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> int:
    """The result of `fork`.

    Args:
        future: what fork returned.

    >>> torch.jit.wait(torch.jit.fork(torch.neg, torch.ones(1)))
    tensor([-1.])
    """
    return future.wait()


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """A context without effect."""
    yield


@contextlib.contextmanager
def fuser(name):
    """A context without effect."""
    yield


class strict_fusion:
    """A context without effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Nothing is fused; gives the previous strategy, none."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing is fused."""


def onednn_fusion_enabled() -> Any:
    """False."""
    return False


def last_executed_optimized_graph() -> Any:
    """Not supported: there are no graphs."""
    raise NotImplementedError("jit.last_executed_optimized_graph: Facula makes no graphs")


def set_module(obj: Any, mod: Module) -> None:
    """Makes `obj` say that it comes from module `mod`."""
    obj.__module__ = mod


class ONNXTracedModule(facula.nn.Module):
    """Wraps a module for ONNX tracing, which is not supported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("jit.ONNXTracedModule is not supported by Facula")


def __getattr__(name: str) -> Any:
    from facula.compat import placeholders

    return placeholders.member("torch.jit", name)
