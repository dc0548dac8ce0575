"""Compile functions: they are recorded when they are first called, so that later calls may defer ops (docs/compile.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from facula import _C
from facula.compiler import _looks, _region
from facula.compiler._backends import registry
from facula.compiler._backends.registry import list_backends
from facula.compiler._decorators import allow_in_graph, assume_constant_result, substitute_in_graph
from facula.compiler._errors import InvalidBackend  # noqa: F401  whoever looks here finds it
from facula.compiler._looks import set_stance

from . import config

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "compile",
    "config",
    "assume_constant_result",
    "reset",
    "allow_in_graph",
    "substitute_in_graph",
    "list_backends",
    "disable",
    "get_default_backend",
    "set_default_backend",
    "set_stance",
    "set_enable_guard_collectives",
    "cudagraph_mark_step_begin",
    "wrap_numpy",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "save_cache_artifacts",
    "load_cache_artifacts",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_all_guards_unsafe",
    "nested_compile_region",
]

_F = TypeVar("_F", bound=Callable[..., Any])


def _check_options(backend, mode, options):
    """Check that "inductor" has such a mode and such options; other backends are not asked."""
    from facula.compiler import _modes

    if mode is not None and mode not in _modes.MODES and registry.is_own(backend):
        raise RuntimeError(f"compile: a mode must be {_C._one_of(mode, _modes.MODES)}")
    if backend != "inductor" or not options:
        return
    if not isinstance(options, dict):
        raise TypeError(f"compile: options are a dict, got {type(options).__name__}")
    from facula.compiler._options import _config as known

    for name, value in options.items():
        name = name.replace("-", "_")
        if name == "guard_filter_fn":  # there are no guards
            continue
        if name == "pure":  # Facula's own: see docs/compile.md
            if not isinstance(value, bool):
                raise RuntimeError(f"compile: the option pure is of type bool, got {value!r}")
            continue
        if name not in known:
            raise RuntimeError(f"compile: an option is a setting of torch._inductor.config, got {name!r}")
        kind = type(known[name])
        if kind in (bool, int, str) and not isinstance(value, kind):
            raise RuntimeError(f"compile: the option {name} is of type {kind.__name__}, got {value!r}")


@overload
def compile(model: _F, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None, mode: str | None = None,
            options: dict[str, Any] | None = None, name: str | None = None, disable: bool = False,
            recompile_limit: int | None = None, isolate_recompiles: bool = False,
            shapes_spec: Any = None) -> _F: ...  # fmt: skip


@overload
def compile(model: None = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None, disable: bool = False,
            recompile_limit: int | None = None, isolate_recompiles: bool = False,
            shapes_spec: Any = None) -> Callable[[_F], _F]: ...  # fmt: skip


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None, disable: bool = False,
            recompile_limit: int | None = None, isolate_recompiles: bool = False, shapes_spec: Any = None) -> Any:  # fmt: skip
    """Return a function that does what another one does, and is recorded when it is first called; as a decorator with arguments
    too.

    Python runs in every call, so nothing that was recorded can be out of date. A module comes in an `OptimizedModule`, whose
    parameters are named as in checkpoints of compiled models.

    Args:
        model: a function or a module, or a class, whose calls are compiled.
        fullgraph: whether it is an error (`torch._dynamo.exc.Unsupported`) where a recorded call decides by the value of a
            tensor, prints one, or calls what is left out.
        dynamic: whether sizes vary: True, False, or None, for which this is found out.
        backend: "inductor", which is Facula's own way; "eager" and others that run the program as it is; a function, or the
            name of one: it is given the ops between two breaks as a graph and example inputs, and gives what runs them from
            then on; None for the default.
        mode: one of PyTorch's modes for inductor.
        options: settings of `torch._inductor.config`, by name; those of another backend.
        name: what logs call it.
        disable: leaves the function or module as it is.
        recompile_limit: how often it is recorded, for other tensors; None: `torch._dynamo.config.recompile_limit`.
        isolate_recompiles, shapes_spec: change nothing: there is one set of recordings for each compiled function, and none
            depends on guards.

    Errors: `InvalidBackend` for an unknown backend; RuntimeError for an unknown mode or option, or mode and options together;
    `torch._dynamo.exc.BackendCompilerFailed` where a backend raises, at a call; TypeError for what is no function or module.

    >>> double = torch.compile(lambda x: 2 * x)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    from facula.compiler import _eval_frame
    from facula.compiler import _settings as settings

    if mode is not None and options is not None:
        raise RuntimeError(f"compile: give mode or options, not both, got mode={mode!r} and options={options!r}")
    for what, value in (("fullgraph", fullgraph), ("dynamic", bool(dynamic) if dynamic is None else dynamic)):
        if not isinstance(value, bool):
            raise TypeError(f"compile: {what} is True or False, got {value!r}")
    if recompile_limit is not None and (not isinstance(recompile_limit, int) or recompile_limit < 1):
        raise ValueError(f"compile: recompile_limit is a number from 1 on, got {recompile_limit!r}")
    backend = backend if backend is not None else _looks.forced_backend or _default_backend
    _check_options(backend, mode, options)
    given = {"fullgraph": fullgraph, "dynamic": dynamic, "mode": mode, "options": options, "name": name}
    how = _eval_frame.settings_for(backend, recompile_limit=recompile_limit, **given)
    if model is None:
        return lambda model: _compile(model, how, disable or settings.disable)
    return _compile(model, how, disable or settings.disable)


def _compile(model, how, disable):
    from facula.compiler import _eval_frame

    if not callable(model):
        raise TypeError(f"compile: a module or a function is compiled, got {type(model).__name__}")
    return model if disable else _eval_frame.compiled(model, how)


_default_backend: Any = "inductor"


def get_default_backend() -> Any:
    """Return the backend of functions that are compiled without one.

    >>> torch.compiler.get_default_backend()
    'inductor'
    """
    return _default_backend


def set_default_backend(backend: Any) -> None:
    """Set the backend of functions that are compiled without one.

    Args:
        backend: its name; None for "inductor".

    Errors: those of `compile` for the backend.

    >>> torch.compiler.set_default_backend("eager")
    >>> torch.compiler.set_default_backend(None)
    """
    from facula.compiler import _eval_frame

    global _default_backend
    if backend is not None:
        _eval_frame.settings_for(backend)
    _default_backend = backend if backend is not None else "inductor"


def nested_compile_region(fn: Callable[..., Any] | None = None, *, options: Any = None, max_reuse_entries: int = 8,
                          reuse_hash_fn: Any = None) -> Any:  # fmt: skip
    """Give a function back as it is, or a decorator that does: in PyTorch, a mark for its compiler.

    Args:
        fn: the function, or None.
        options, max_reuse_entries, reuse_hash_fn: what PyTorch's compiler is told; without effect.

    >>> torch.compiler.nested_compile_region(len) is len
    True
    """
    return fn if fn is not None else lambda fn: fn


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function that compiled functions leave out: what it does is not recorded, and `is_compiling()` is False there.

    Args:
        fn: the function, a module or a class; None for a decorator.
        recursive: whether functions that it calls are left out too, which is so in any case.
        reason: a text, for readers.

    >>> @torch.compiler.disable(reason="prints")
    ... def show(x):
    ...     print(x, torch.compiler.is_compiling())
    >>> torch.compile(show)(1), torch.compile(lambda x: show(x))(1)
    1 True
    1 False
    (None, None)
    """
    from facula.compiler import _eval_frame

    return _eval_frame.disable(fn, recursive, reason=reason)


def reset() -> None:
    """Forget all recordings of compiled functions.

    >>> torch.compiler.reset()
    """
    from facula.compiler import _eval_frame

    _eval_frame.reset_all()


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Set whether processes agree on guards, and give what was set; there are no guards.

    Args:
        enabled: kept.

    >>> torch.compiler.set_enable_guard_collectives(False)
    False
    """
    global _guard_collectives
    before, _guard_collectives = _guard_collectives, enabled
    return before


_guard_collectives = False


def cudagraph_mark_step_begin() -> None:
    """Mark the begin of a step for graphs of CUDA that a compiler recorded; there are none, so it does nothing.

    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that calls one of NumPy's arrays, without derivatives.

    Args:
        fn: the function of arrays.

    >>> torch.compiler.wrap_numpy(lambda a: a + 1)(torch.ones(2))
    tensor([2., 2.])
    """
    import functools

    import numpy

    import facula
    from facula.utils._pytree import tree_map

    @functools.wraps(fn)
    def of_tensors(*args, **kwargs):
        args, kwargs = tree_map(lambda leaf: leaf.numpy() if isinstance(leaf, facula.Tensor) else leaf, (args, kwargs))
        kinds = (numpy.ndarray, numpy.generic)
        return tree_map(lambda leaf: facula.as_tensor(leaf) if isinstance(leaf, kinds) else leaf, fn(*args, **kwargs))

    return of_tensors


_exporting = False  # set while `facula.export` records


def is_compiling() -> bool:
    """Return whether this is a call of a compiled function, recorded or not, or one that torch.export records.

    >>> torch.compiler.is_compiling(), torch.compile(torch.compiler.is_compiling)()
    (False, True)
    """
    return _exporting or _region.in_region()


is_dynamo_compiling: Callable[[], bool] = is_compiling


def is_exporting() -> bool:
    """Return whether a program is being recorded by torch.export.

    >>> torch.compiler.is_exporting()
    False
    """
    return _exporting


def save_cache_artifacts() -> None:
    """Return None: what is kept of compiled functions is made anew by one call.

    >>> torch.compiler.save_cache_artifacts() is None
    True
    """


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Return None: there is no cache that would have to be filled.

    Args:
        serialized_artifacts: bytes that PyTorch saved; they are not looked at.

    Errors: TypeError for what are no bytes.

    >>> torch.compiler.load_cache_artifacts(b"") is None
    True
    """
    if not isinstance(serialized_artifacts, (bytes, bytearray)):
        raise TypeError(f"load_cache_artifacts: bytes are loaded, got {type(serialized_artifacts).__name__}")


# ---- filters of guards, for options={"guard_filter_fn": ...}: there are no guards, so they are not called


def _filter(name, says, keeps):
    def choose(guard_entries: Sequence[Any]) -> list[bool]:
        return [bool(keeps(entry)) for entry in guard_entries]

    choose.__name__ = choose.__qualname__ = name
    choose.__doc__ = f"""Return which guards PyTorch's compiler keeps: {says}. There are none here.

    Args:
        guard_entries: the guards.

    >>> torch.compiler.{name}([])
    []
    """
    return choose


def _of_module(entry):
    return "MODULE" in str(getattr(entry, "guard_type", ""))


skip_all_guards_unsafe: Callable[..., list[bool]] = _filter("skip_all_guards_unsafe", "none", lambda entry: False)
skip_guard_on_globals_unsafe: Callable[..., list[bool]] = _filter(
    "skip_guard_on_globals_unsafe", "those not on globals", lambda entry: not getattr(entry, "is_global", False)
)
skip_guard_on_all_nn_modules_unsafe: Callable[..., list[bool]] = _filter(
    "skip_guard_on_all_nn_modules_unsafe", "those not on modules", lambda entry: not _of_module(entry)
)
skip_guard_on_inbuilt_nn_modules_unsafe: Callable[..., list[bool]] = _filter(
    "skip_guard_on_inbuilt_nn_modules_unsafe", "those not on modules of torch.nn", lambda entry: not _of_module(entry)
)
keep_portable_guards_unsafe: Callable[..., list[bool]] = _filter(
    "keep_portable_guards_unsafe", "those that hold in other processes", lambda entry: not getattr(entry, "is_global", False)
)


def keep_tensor_guards_unsafe(guard_entries: Sequence[Any], keep_parameters: bool = False) -> list[bool]:
    """Return which guards PyTorch's compiler keeps: those on tensors. There are none here.

    Args:
        guard_entries: the guards.
        keep_parameters: whether those on parameters are kept too.

    >>> torch.compiler.keep_tensor_guards_unsafe([])
    []
    """
    kept = [getattr(entry, "guard_type", None) == "TENSOR_MATCH" for entry in guard_entries]
    values = [type(getattr(entry, "value", None)).__name__ for entry in guard_entries]
    return [keep and (keep_parameters or value != "Parameter") for keep, value in zip(kept, values, strict=True)]
