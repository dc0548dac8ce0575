"""Compilation marks. Facula runs eagerly: functions come back as they are, and nothing is ever compiling."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar, overload

__all__ = [
    "compile",
    "assume_constant_result",
    "reset",
    "allow_in_graph",
    "substitute_in_graph",
    "list_backends",
    "disable",
    "set_stance",
    "set_enable_guard_collectives",
    "cudagraph_mark_step_begin",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "save_cache_artifacts",
    "load_cache_artifacts",
    "nested_compile_region",
]

_F = TypeVar("_F", bound=Callable[..., Any])


# what PyTorch registers, and what `compile` takes in the place of each: eager execution
_BACKENDS = ("cudagraphs", "inductor", "openxla", "tvm")
_DEBUG_BACKENDS = """
    aot_eager aot_eager_decomp_partition aot_eager_decomp_partition_crossref aot_eager_decomp_partition_with_mode
    aot_eager_default_partitioner aot_ts eager eager_debug eager_noexcept invoke_subgraph onnxrt openxla_eval
    pre_dispatch_eager ts
    """.split()
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


class InvalidBackend(RuntimeError):
    """`compile` was given the name of no backend."""


def _check_how(backend, mode):
    if callable(backend):
        from facula.compat import placeholders

        placeholders.refuse("torch.compiler.set_default_backend", (backend,))  # a backend would be given a graph of the program
    if not isinstance(backend, str) or backend not in (*_BACKENDS, *_DEBUG_BACKENDS):
        raise InvalidBackend(f"compile: a backend is one of {', '.join((*_BACKENDS, *_DEBUG_BACKENDS))}, got {backend!r}")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"compile: a mode is one of {', '.join(_MODES)}, got {mode!r}")


@overload
def compile(model: _F, *, fullgraph: bool = False, dynamic: Any = None, backend: str = "inductor", mode: str | None = None,
            options: Any = None, disable: bool = False) -> _F: ...  # fmt: skip


@overload
def compile(model: None = None, *, fullgraph: bool = False, dynamic: Any = None, backend: str = "inductor",
            mode: str | None = None, options: Any = None, disable: bool = False) -> Callable[[_F], _F]: ...  # fmt: skip


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: Any = None, backend: str = "inductor",
            mode: str | None = None, options: Any = None, disable: bool = False) -> Any:  # fmt: skip
    """Hands back a function itself; as a decorator with arguments too.

    A module comes in an `OptimizedModule`, whose parameters are named as in checkpoints of compiled models.

    Args:
        model: a function or a module.
        fullgraph, dynamic, options: change nothing: the program runs eagerly, which is whole and takes every shape.
        backend, mode: names of backends and modes; they change nothing.
        disable: leaves a module as it is too.

    Errors: `InvalidBackend` for an unknown backend and RuntimeError for an unknown mode, or mode and options together;
    NotImplementedError for a backend that is a function, which would be handed a graph that does not exist; TypeError for what
    is neither function nor module.

    >>> double = torch.compile(lambda x: 2 * x)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(f"compile: give mode or options, not both, got mode={mode!r} and options={options!r}")
    _check_how(backend, mode)
    if model is None:
        return lambda model: compile(model, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: a module or a function is compiled, got {type(model).__name__}")
    from facula import nn

    if disable or not isinstance(model, nn.Module):
        return model
    from facula._dynamo import OptimizedModule

    return OptimizedModule(model)


def allow_in_graph(fn: Callable[..., Any]) -> Any:
    """Gives a function back as it is: in PyTorch, a mark for its compiler.

    Args:
        fn: the function.

    >>> torch.compiler.allow_in_graph(len) is len
    True
    """
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Any:
    """Gives a function back as it is: in PyTorch, a mark for its compiler.

    Args:
        fn: the function.

    >>> torch.compiler.assume_constant_result(len) is len
    True
    """
    return fn


def nested_compile_region(fn: Callable[..., Any] | None = None, options: Any = None) -> Any:
    """Gives a function back as it is, or a decorator that does: in PyTorch, a mark for its compiler.

    Args:
        fn: the function, or None.
        options: how to compile; without effect.

    >>> torch.compiler.nested_compile_region(len) is len
    True
    """
    return fn if fn is not None else lambda fn: fn


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: Any = None) -> Any:
    """Gives a function back as it is, or a decorator that does: nothing is compiled, so nothing has to be left out.

    Args:
        fn: the function, or None.
        recursive: whether functions that it calls are left out too; without effect.
        reason: a text; without effect.

    >>> @torch.compiler.disable(reason="prints")
    ... def show(x):
    ...     print(x)
    >>> show(1)
    1
    """
    return fn if fn is not None else lambda fn: fn


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False,
                        is_embedded_type: bool = False) -> Any:  # fmt: skip
    """A decorator that gives its function back: there are no graphs in which it could stand for another one.

    Args:
        original_fn: the other function.
        can_constant_fold_through, skip_signature_check, is_embedded_type: what PyTorch's compiler is told; without effect.

    >>> torch.compiler.substitute_in_graph(len)(max) is max
    True
    """
    return lambda fn: fn


def reset() -> None:
    """Forgets what was compiled: nothing, so it does nothing.

    >>> torch.compiler.reset()
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of PyTorch's backends that torch.compile takes; all of them run eagerly.

    Args:
        exclude_tags: kinds that are left out; None or none for those for debugging too.

    >>> torch.compiler.list_backends()
    ['cudagraphs', 'inductor', 'openxla', 'tvm']
    """
    return sorted(_BACKENDS if exclude_tags else (*_BACKENDS, *_DEBUG_BACKENDS))


@contextlib.contextmanager
def set_stance(stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
    """A context in which PyTorch's compiler behaves otherwise; without effect here.

    Args:
        stance: the name of the behaviour.
        skip_guard_eval_unsafe, force_backend: what PyTorch's compiler is told.

    >>> with torch.compiler.set_stance("force_eager"):
    ...     torch.compile(abs)(-1)
    1
    """
    yield


def set_enable_guard_collectives(enabled: bool) -> Any:
    """Gives the setting that there was, False; there are no guards that processes could share.

    Args:
        enabled: without effect.

    >>> torch.compiler.set_enable_guard_collectives(True)
    False
    """
    return False


def cudagraph_mark_step_begin() -> None:
    """Marks the begin of a step for graphs of CUDA that a compiler recorded; there are none, so it does nothing.

    >>> torch.compiler.cudagraph_mark_step_begin()
    """


_exporting = False  # set while `facula.export` records


def is_compiling() -> bool:
    """Whether a program is being recorded by torch.export.

    >>> torch.compiler.is_compiling()
    False
    """
    return _exporting


is_dynamo_compiling: Callable[[], bool] = is_compiling
is_exporting: Callable[[], bool] = is_compiling


def save_cache_artifacts() -> None:
    """None: nothing is compiled, so there is no cache to save.

    >>> torch.compiler.save_cache_artifacts() is None
    True
    """


def load_cache_artifacts(serialized_artifacts: Any) -> None:
    """None: nothing is compiled, so there is no cache to fill.

    Args:
        serialized_artifacts: bytes that PyTorch saved; they are not looked at.

    >>> torch.compiler.load_cache_artifacts(b"") is None
    True
    """
