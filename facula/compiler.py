"""Compilation marks. Facula runs eagerly: functions come back as they are, and nothing is ever compiling."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula._dynamo import OptimizedModule
    from facula.nn.modules.module import Module

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


def compile(model: Module | None = None, *, fullgraph: bool = False, dynamic: Any = None, backend: str = "inductor",
            mode: str | None = None, options: Any = None, disable: bool = False) -> OptimizedModule:  # fmt: skip
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
    """`fn` itself."""
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Any:
    """`fn` itself."""
    return fn


def nested_compile_region(fn: Callable[..., Any] | None = None, options: Any = None) -> Any:
    """`fn` itself."""
    return fn if fn is not None else lambda fn: fn


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: Any = None) -> Any:
    """`fn` itself; as a decorator with arguments too."""
    return fn if fn is not None else lambda fn: fn


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False,
                        is_embedded_type: bool = False) -> Any:  # fmt: skip
    """A decorator that hands its function back: there are no graphs to substitute in."""
    return lambda fn: fn


def reset() -> None:
    """Nothing is cached, so nothing is reset."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of PyTorch's backends that `compile` takes; with `exclude_tags` None also those for debugging."""
    return sorted(_BACKENDS if exclude_tags else (*_BACKENDS, *_DEBUG_BACKENDS))


@contextlib.contextmanager
def set_stance(stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
    """A context without effect."""
    yield


def set_enable_guard_collectives(enabled: bool) -> Any:
    """No guards exist; gives the previous setting, False."""
    return False


def cudagraph_mark_step_begin() -> None:
    """No graphs are recorded."""


_exporting = False  # set while `facula.export` records


def is_compiling() -> bool:
    """Whether a program is being recorded by `facula.export`."""
    return _exporting


is_dynamo_compiling = is_exporting = is_compiling


def save_cache_artifacts() -> None:
    """None: there is no cache."""


def load_cache_artifacts(serialized_artifacts: Any) -> None:
    """None: there is no cache."""
