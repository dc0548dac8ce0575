"""Mark functions and tensors for compiled functions.

Python runs in every call, so what a mark promises of a function (that it is constant, that it may be in a graph) changes
nothing; marks of sizes are kept on the tensors, where PyTorch keeps them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING

import facula
from facula.compiler import _region, _settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "disable_nested_graph_breaks",
    "disallow_in_graph",
    "dont_skip_tracing",
    "forbid_in_graph",
    "graph_break",
    "is_dynamo_disable_recursive",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "override_optimization_hint",
    "patch_dynamo_config",
    "skip_frame",
    "step_unsupported",
    "substitute_in_graph",
]


# ---- functions


def allow_in_graph(fn: Any) -> Any:
    """Give a function (or a list of them) back: ops are recorded wherever they are called.

    Args:
        fn: the function.

    >>> torch.compiler.allow_in_graph(len) is len
    True
    """
    for one in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(one):
            raise TypeError(f"allow_in_graph: a function is allowed, got {type(one).__name__}")
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Any:
    """Mark a function as one that always gives the same, and give it back. It is called all the same.

    Args:
        fn: the function.

    >>> torch.compiler.assume_constant_result(len) is len
    True
    """
    with contextlib.suppress(AttributeError, TypeError):  # functions in C take no marks
        fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


def _given_back(name, says):
    def mark(fn: Any = None) -> Any:
        return fn if fn is not None else mark

    mark.__name__ = mark.__qualname__ = name
    mark.__doc__ = f"""Gives a function back, or a decorator that does: {says}

    Args:
        fn: the function, or None.
    """
    return mark


disallow_in_graph = _given_back("disallow_in_graph", "whatever the function does is done at the call.")
forbid_in_graph = _given_back("forbid_in_graph", "compiled functions may call it, as Python runs in them.")
nonstrict_trace = _given_back("nonstrict_trace", "there is one way to record only.")
dont_skip_tracing = _given_back("dont_skip_tracing", "no file is left out.")
disable_nested_graph_breaks = _given_back("disable_nested_graph_breaks", "breaks are the same at every depth.")


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False,
                        is_embedded_type: bool = False) -> Any:  # fmt: skip
    """Return a decorator that gives its function back: the original one runs in compiled functions too.

    Args:
        original_fn: the other function.
        can_constant_fold_through, is_embedded_type: what PyTorch's tracer is told; without effect.
        skip_signature_check: whether the two may take other arguments.

    Errors: TypeError for what is no function, and for one with other arguments.

    >>> torch.compiler.substitute_in_graph(len)(max) is max
    True
    """
    if not callable(original_fn) or (inspect.isclass(original_fn) and not is_embedded_type):
        raise TypeError(f"substitute_in_graph: a function has a substitute, got {original_fn!r}")

    def decorate(fn):
        if not skip_signature_check:
            with contextlib.suppress(ValueError):  # functions in C may have no signature
                theirs, own = (list(inspect.signature(f).parameters) for f in (original_fn, fn))
                if theirs != own:
                    raise TypeError(f"substitute_in_graph: the substitute takes what the original does, {theirs}, got {own}")
        return fn

    return decorate


def is_dynamo_disable_recursive(method: Callable[..., Any]) -> bool | None:
    """Return whether a function that `disable` made leaves out what it calls; None for others.

    Args:
        method: the function.
    """
    return getattr(method, "_torchdynamo_disable_recursive", None)


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **settings: Any) -> Any:
    """Set other settings within a block or a function: `config.patch`.

    Args:
        arg1, arg2, settings: its arguments.
    """
    return _settings.patch(dict(arg1) if isinstance(arg1, tuple) else arg1, arg2, **settings)


# ---- breaks


def graph_break(msg: str = "") -> None:
    """End a stretch of what is being recorded; with fullgraph this is an error. Outside of a recording it does nothing.

    Args:
        msg: why, for `explain` and logs.
    """
    _region.demand(f"graph_break: {msg}" if msg else "graph_break")


def skip_frame(msg: str = "") -> None:
    """Do nothing: a recording has no frames.

    Args:
        msg: a text, for readers.
    """


step_unsupported = functools.partial(skip_frame)


# ---- tensors


def _dims(name, t, index):
    """Return the dimensions of a tensor that are meant, counted from the begin."""
    if not isinstance(t, facula.Tensor):
        raise TypeError(f"{name}: sizes of a tensor are marked, got {type(t).__name__}")
    found = []
    for one in index if isinstance(index, (list, tuple)) else (index,):
        if isinstance(one, bool) or not isinstance(one, int):
            raise TypeError(f"{name}: a dimension is an int, got {one!r}")
        if not -t.dim() <= one < t.dim():
            raise IndexError(f"{name}: a dimension of a tensor of shape {tuple(t.shape)} is expected, got {one}")
        found.append(one % t.dim())
    return found


def _mark(t, key, dims):
    marked = t.__dict__.setdefault(key, set())
    marked.update(dims)
    t._has_dynamo_dim_marking = True


def mark_dynamic(t: Any, index: int | Sequence[int], *, hint_override: int | None = None, min: int | None = None,
                 max: int | None = None, specialize_on: list[Any] | None = None) -> None:  # fmt: skip
    """Say that a size of a tensor changes from call to call.

    Args:
        t: the tensor.
        index: the dimension, or several.
        hint_override, specialize_on: what PyTorch's compiler is told; kept on the tensor.
        min, max: the least and the largest size; kept on the tensor.

    Errors: TypeError for what is no tensor or dimension, IndexError for a dimension that there is not.
    """
    from collections import namedtuple

    dims = _dims("mark_dynamic", t, index)
    _mark(t, "_dynamo_dynamic_indices", dims)
    kind = namedtuple("_DimRange", ["dim", "min", "max"])
    t.__dict__.setdefault("_dynamo_dynamic_range", set()).update(kind(dim, min, max) for dim in dims)
    hints = t.__dict__.setdefault("_dynamo_hint_overrides", {})
    if hint_override is not None:
        hints.update(dict.fromkeys(dims, hint_override))
    t.__dict__.setdefault("_specialize_on", {}).update({dim: list(specialize_on or ()) for dim in dims})


def maybe_mark_dynamic(t: Any, index: int | Sequence[int]) -> None:
    """Say that a size of a tensor may change from call to call.

    Args:
        t: the tensor.
        index: the dimension, or several.
    """
    _mark(t, "_dynamo_weak_dynamic_indices", _dims("maybe_mark_dynamic", t, index))


def mark_static(t: Any, index: int | Sequence[int] | None = None) -> None:
    """Say that a size of a tensor stays as it is; of a class of modules, that numbers in it do.

    Args:
        t: the tensor, or the class.
        index: the dimension, or several; None for all.
    """
    if inspect.isclass(t) and issubclass(t, facula.nn.Module):
        t._dynamo_marked_static = True
        return
    everything = isinstance(t, facula.Tensor) and index is None
    _mark(t, "_dynamo_static_indices", range(t.dim()) if everything else _dims("mark_static", t, index))


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Say that a tensor stays where it is in memory.

    Args:
        t: the tensor.
        guard: whether PyTorch's compiler checks it; kept on the tensor.

    Errors: TypeError for what is no tensor.
    """
    if not isinstance(t, facula.Tensor):
        raise TypeError(f"mark_static_address: a tensor is marked, got {type(t).__name__}")
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"


def override_optimization_hint(x: Any, val: int) -> None:
    """Do nothing: nothing here is chosen by a guess of a size.

    Args:
        x, val: the size and the guess.
    """
