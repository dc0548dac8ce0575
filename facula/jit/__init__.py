"""TorchScript's decorators and questions, and its archives. Facula runs Python itself: nothing is compiled or traced."""

import builtins
import contextlib
import types
from typing import Final, TypeVar  # noqa: F401

import facula
from facula.futures import Future
from facula.jit import annotations, scripted  # noqa: F401
from facula.jit.loaded import load
from facula.jit.scripted import ScriptFunction, ScriptModule

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


class TracingCheckError(Error):
    """A trace differs from the function it was made of."""


class TracerWarning(Warning):
    """Warns that a trace fixes a value of the program; never given, as nothing is traced."""


RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """A module as a ScriptModule, a function as a ScriptFunction; both run eagerly. Anything else is itself."""
    if builtins.isinstance(obj, facula.nn.Module):
        return scripted.module(obj)
    if builtins.isinstance(obj, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return scripted.function(obj)
    return obj


def trace(func, example_inputs=None, *args, **kwargs):
    """As `script`: what is traced runs eagerly, with whatever control flow it has."""
    return script(func)


def trace_module(mod, inputs, *args, **kwargs):
    """As `script`."""
    return script(mod)


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """`mod` itself."""
    return mod


def optimize_for_inference(mod, other_methods=None):
    """`mod` itself."""
    return mod


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None):
    """Nothing to do."""


def export(fn):
    """`fn` itself."""
    return fn


def unused(fn):
    """`fn` itself."""
    return fn


def ignore(drop=False, **kwargs):
    """The decorated function itself; with or without arguments."""
    return drop if callable(drop) else lambda fn: fn


def interface(obj):
    """`obj` itself."""
    return obj


def script_method(fn):
    """`fn` itself."""
    return fn


def script_if_tracing(fn):
    """`fn` itself."""
    return fn


_script_if_tracing = script_if_tracing


def _overload(func):
    """`func` itself."""
    return func


def _overload_method(func):
    """`func` itself."""
    return func


def is_scripting():
    """False."""
    return False


def is_tracing():
    """False."""
    return False


def annotate(the_type, the_value):
    """`the_value`."""
    return the_value


def Attribute(value, type):
    """`value`."""
    return value


def isinstance(obj, target_type):
    """As the builtin, also for list[T], dict[K, V], tuple[...] and unions, whose contents are checked."""
    return annotations.matches(obj, target_type)


def fork(func, *args, **kwargs):
    """Runs `func` at once; `wait` gives its result."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """The result of `fork`."""
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def set_fusion_strategy(strategy):
    """Nothing is fused; gives the previous strategy, none."""
    return []


def enable_onednn_fusion(enabled):
    """Nothing is fused."""


def onednn_fusion_enabled():
    """False."""
    return False


def last_executed_optimized_graph():
    """Not supported: there are no graphs."""
    raise NotImplementedError("jit.last_executed_optimized_graph: Facula makes no graphs")


def set_module(obj, mod):
    """Makes `obj` say that it comes from module `mod`."""
    obj.__module__ = mod


class ONNXTracedModule(facula.nn.Module):
    """Wraps a module for ONNX tracing, which is not supported."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("jit.ONNXTracedModule is not supported by Facula")


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.jit", name)
