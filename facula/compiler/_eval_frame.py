"""Compile functions and modules, and exclude others from compilation."""

from __future__ import annotations

import functools
import inspect
import time
import types
import warnings
import weakref
from typing import TYPE_CHECKING

from facula import nn
from facula.compiler import _looks, _region, _settings
from facula.compiler._backends import registry, stretches

if TYPE_CHECKING:
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = [
    "ExplainOutput",
    "OptimizeContext",
    "OptimizedModule",
    "compiled",
    "disable",
    "explain",
    "innermost_fn",
    "is_dynamo_supported",
    "is_inductor_supported",
    "optimize",
    "optimize_assert",
    "reset_code",
    "run",
]

_compiled: weakref.WeakSet[Any] = weakref.WeakSet()  # all compiled functions, for `reset`


def innermost_fn(fn: Any) -> Any:
    """Return the function or module in what `compile` or `disable` made.

    Args:
        fn: the function; what was not made so is given back.
    """
    while True:
        if isinstance(fn, OptimizedModule):
            fn = fn._orig_mod
        elif isinstance(fn, _region.CompiledFunction):
            fn = fn.function
        elif isinstance(fn, types.MethodType):
            inner = innermost_fn(fn.__func__)
            return fn if inner is fn.__func__ else types.MethodType(inner, fn.__self__)
        elif isinstance(fn, types.FunctionType) and fn.__dict__.get("_torchdynamo_wrapper_id") == id(fn):
            fn = fn._torchdynamo_orig_callable  # type: ignore[attr-defined]
        else:
            return fn


def settings_for(backend: Any, **given: Any) -> _looks.Settings:
    """Return the settings of a compiled function.

    Args:
        backend: a name or a function.
        given: further settings.
    """
    if registry.is_own(backend):
        return _looks.Settings(backend=backend, **given)
    function = registry.lookup_backend(backend)
    name = backend if isinstance(backend, str) else stretches.name_of(function)
    return _looks.Settings(backend=name, function=function, **given)


def compiled(target: Any, settings: _looks.Settings) -> Any:
    """Return a compiled function, or a module around one; of a class, calls of its objects are compiled.

    Args:
        target: a function, a module or a class.
        settings: how.
    """
    target = innermost_fn(target)
    if inspect.isclass(target):
        if "__call__" in vars(target):
            target.__call__ = _function(target.__call__, settings)
        return target
    return OptimizedModule(target, OptimizeContext(settings)) if isinstance(target, nn.Module) else _function(target, settings)


def _function(target, settings):
    function = _region.CompiledFunction(target, settings)
    functools.update_wrapper(function, target)
    function.settings = settings
    function._torchdynamo_orig_callable = target
    function._torchdynamo_wrapper_id = id(function)
    function.get_compiler_config = settings.compiler_config
    _compiled.add(function)
    return function


def reset_all() -> None:
    """Forget all recordings."""
    for function in list(_compiled):
        function.reset()


def reset_code(code: Any) -> None:
    """Forget the recordings of the functions that have this code.

    Args:
        code: the code.
    """
    for function in list(_compiled):
        if getattr(function.function, "__code__", None) is code:
            function.reset()


class OptimizeContext:
    """Compile the function or module that it is called with. The `dynamo_ctx` of a compiled module is the context that
    made it.

    Args:
        settings: how; None: what it is called with is given back.
    """

    def __init__(self, settings: _looks.Settings | None) -> None:
        self.settings = settings

    def __call__(self, fn: Any) -> Any:
        return compiled(fn, self.settings) if self.settings is not None else fn

    def __enter__(self) -> None:
        raise RuntimeError("optimize: takes a function or is a decorator, got a block of `with`")

    def __exit__(self, *exception: Any) -> None:
        pass


class OptimizedModule(nn.Module):
    """Compile the calls of a module, which is `_orig_mod`. All attributes, also new ones, are those of that module.

    Args:
        mod: the module.
        dynamo_ctx: an `OptimizeContext`, or a function that makes of a callable another one; None: calls are as they are.
    """

    _own = frozenset(("training", "forward", "dynamo_ctx", "_torchdynamo_orig_callable", "get_compiler_config", "_hooked"))

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()
        del self.__dict__["training"]  # that of the module inside
        self._modules["_orig_mod"] = mod
        self.__dict__.update(dynamo_ctx=dynamo_ctx, _torchdynamo_orig_callable=mod)
        self._initialize()

    def _initialize(self):
        how, module = self.__dict__.get("dynamo_ctx"), self._modules["_orig_mod"]
        if isinstance(how, OptimizeContext):  # which makes modules of modules
            how = functools.partial(_function, settings=how.settings)
        self.__dict__["forward"] = forward = how(module) if callable(how) else module.__call__
        if hasattr(forward, "get_compiler_config"):
            self.__dict__["get_compiler_config"] = forward.get_compiler_config

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, value: bool) -> None:
        if "_orig_mod" in self._modules:
            self._modules["_orig_mod"].training = value

    def __getstate__(self):
        left_out = {"forward", "get_compiler_config", "_compiled_call_impl"}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__(state)
        self._initialize()

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod" or "_orig_mod" not in modules:
            return super().__getattr__(name)
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" or "_orig_mod" not in self.__dict__.get("_modules", {}):
            super().__setattr__(name, value)
        elif name in self._own:
            self.__dict__[name] = value
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            del self.__dict__[name]
        else:
            delattr(self._modules["_orig_mod"], name)

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})


# ---- what is left out


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """Return a function that compiled functions leave out: what it does, and what it calls, is not recorded.

    Args:
        fn: the function, a module or a class (whose objects are made and called so); None for a decorator.
        recursive: whether functions that it calls are left out too, which is so in any case: what they do belongs to the call.
        reason: why, for `explain` and logs; kept in `_torchdynamo_disable_msg`.
        wrapping: whether another function is given; else only a mark is set.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    fn = innermost_fn(fn)
    if isinstance(fn, nn.Module):
        return OptimizedModule(fn, functools.partial(_left_out, recursive=recursive, reason=reason))
    if inspect.isclass(fn):
        for name in ("__init__", "__call__"):
            if name in vars(fn):
                setattr(fn, name, _left_out(vars(fn)[name], recursive, reason))
        return fn
    if not callable(fn):
        raise TypeError(f"disable: a function, a module or a class is left out, got {type(fn).__name__}")
    if not wrapping:
        fn._torchdynamo_disable, fn._torchdynamo_disable_msg, fn._torchdynamo_disable_recursive = True, reason, recursive
        return fn
    return _left_out(fn, recursive, reason)


def _left_out(fn, recursive, reason):
    def outside(*args, **kwargs):
        if not _region.in_region():
            return fn(*args, **kwargs)
        _region.demand(f"disable: {reason}" if reason else "disable")
        state = _region.leave()
        try:
            return fn(*args, **kwargs)
        finally:
            _region.enter(state)

    functools.update_wrapper(outside, fn)
    outside._torchdynamo_disable, outside._torchdynamo_disable_msg = True, reason
    outside._torchdynamo_disable_recursive, outside._torchdynamo_orig_callable = recursive, fn
    outside._torchdynamo_wrapper_id = id(outside)  # which functions that are wrapped around it copy, too
    return outside


def run(fn: Any = None) -> Any:
    """Return a function, within which compiled functions record nothing new.

    Args:
        fn: the function or module; None for a decorator.
    """
    if fn is None:
        return run

    @functools.wraps(fn if not isinstance(fn, nn.Module) else fn.forward)
    def without_looks(*args, **kwargs):
        with _looks.set_stance("eager_on_recompile"):
            return fn(*args, **kwargs)

    return without_looks


# ---- older ways to say `compile`


def optimize(backend: Any = "inductor", *, nopython: bool = False, guard_export_fn: Any = None, guard_fail_fn: Any = None,
             guard_filter_fn: Any = None, disable: bool = False, dynamic: bool | None = None,
             package: Any = None) -> Any:  # fmt: skip
    """Return what compiles a function or module that it is called with.

    Args:
        backend, dynamic, disable: those of `compile`.
        nopython: its `fullgraph`.
        guard_export_fn, guard_fail_fn, guard_filter_fn: are told of guards, of which there are none.
        package: where PyTorch writes code; without effect.
    """
    if disable or _settings.disable:
        return OptimizeContext(None)
    return OptimizeContext(settings_for(backend, fullgraph=nopython, dynamic=dynamic))


def optimize_assert(backend: Any = "inductor", **settings: Any) -> Any:
    """Return what `optimize` gives with nopython.

    Args:
        backend, settings: those of `optimize`.
    """
    return optimize(backend, nopython=True, **settings)


# ---- explain


class ExplainOutput:
    """Describe a call of a function: how many stretches of ops it has, and where and why they end.

    `str()` shows it. `graphs` are the stretches as texts, `recording` the recording of the core.
    """

    def __init__(self, recording: Any, seconds: float) -> None:
        self.recording = recording
        self.ops_per_graph = _looks.stretches(recording)
        self.graphs = ["\n".join(map(_region.op_in_words, ops)) for ops in self.ops_per_graph]
        self.graph_count = len(self.graphs)
        self.break_reasons = _looks.breaks(recording)
        self.graph_break_count = len(self.break_reasons)
        self.op_count = sum(map(len, self.ops_per_graph))
        self.out_guards: list[Any] = []
        self.compile_times = f"the recorded call: {seconds * 1e3:.3f} ms"

    def __str__(self) -> str:
        counts = {"Graph": self.graph_count, "Graph Break": self.graph_break_count, "Op": self.op_count}
        lines = [*(f"{what} Count: {count}" for what, count in counts.items()), "Break Reasons:"]
        for i, reason in enumerate(self.break_reasons, 1):
            place = reason.user_stack[0]
            lines += [f"  Break Reason {i}:", f"    Reason: {reason.reason}", f"    At: {place.filename}:{place.lineno}"]
        lines.append("Ops per Graph:")
        for i, text in enumerate(self.graphs, 1):
            lines += [f"  Ops {i}:", *(f"    {line}" for line in text.split("\n"))]
        lines += [f"Groups: {self.recording.groups}", "Out Guards: none, since Python runs in every call"]
        lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines)


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Say what a call of a function does for the compiler: `explain(f)(*args)`. The call is made, eagerly.

    Args:
        f: the function or module.
        extra_args, extra_kwargs: the arguments of the call, in the form that PyTorch deprecates.

    Returns: a function that takes the arguments and gives an `ExplainOutput`.
    """

    def of_call(*args, **kwargs):
        begin = time.perf_counter()
        _, recording = _region.explain(innermost_fn(f), args, kwargs)
        return ExplainOutput(recording, time.perf_counter() - begin)

    if not extra_args and not extra_kwargs:
        return of_call
    warnings.warn("explain: arguments beside the function are deprecated, use explain(f)(...)", FutureWarning, stacklevel=2)
    return of_call(*extra_args, **extra_kwargs)


def is_dynamo_supported() -> bool:
    """Return True: functions can be compiled."""
    return True


def is_inductor_supported() -> bool:
    """Return True: functions can be compiled."""
    return True
