"""Find backends by name: those of PyTorch, those that programs register, and those of installed packages
(`torch_dynamo_backends`).

What Facula does for PyTorch's names: "inductor" and "cudagraphs" are its own way of compiling, the latter with CUDA graphs
where there is a device (graphs.py); the others run the program as it is. As functions (`lookup_backend`) they take a graph and
give what runs it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import facula
from facula.compiler._errors import InvalidBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["list_backends", "lookup_backend", "register_backend", "register_debug_backend", "register_experimental_backend"]

#: backends that are Facula's own: name -> tags
_OWN = dict.fromkeys("cudagraphs inductor openxla tvm".split(), ()) | dict.fromkeys(
    """
    aot_eager aot_eager_decomp_partition aot_eager_decomp_partition_crossref aot_eager_decomp_partition_with_mode
    aot_eager_default_partitioner aot_ts eager eager_debug eager_noexcept invoke_subgraph onnxrt openxla_eval
    pre_dispatch_eager ts
    """.split(),
    ("debug",),
)
_registered: dict[str, Callable[..., Any]] = {}
_tags: dict[str, tuple[str, ...]] = {}


@functools.cache
def _installed():
    """Return name -> entry point of what installed packages bring."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="torch_dynamo_backends")}


def register_backend(compiler_fn: Callable[..., Any] | None = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Give a backend a name, as a function or a decorator; return the backend.

    Args:
        compiler_fn: takes a graph and example inputs, and gives a function.
        name: None for the function's own.
        tags: kinds, by which `list_backends` leaves it out.

    Errors: TypeError for what is no function; ValueError for a name that there is.

    >>> from facula._dynamo import list_backends, register_backend
    >>> @register_backend(name="plain", tags=("debug",))
    ... def plain(graph, inputs):
    ...     return graph.forward
    >>> "plain" in list_backends(), "plain" in list_backends(exclude_tags=())
    (False, True)
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend: a backend is a function, got {type(compiler_fn).__name__}")
    name = name or compiler_fn.__name__
    if name in _registered or name in _OWN:
        raise ValueError(f"register_backend: there is a backend of this name, got {name!r}")
    _registered[name], _tags[name] = compiler_fn, tuple(tags)
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Return the names of the backends that torch.compile takes.

    Args:
        exclude_tags: kinds that are left out; None or none for those for debugging too.

    >>> torch.compiler.list_backends()
    ['cudagraphs', 'inductor', 'openxla', 'tvm']
    """
    tags = {**dict.fromkeys(_installed(), ()), **_OWN, **_tags}
    left_out = set(exclude_tags or ())
    return sorted(name for name, own in tags.items() if not left_out & set(own))


def _run_as_it_is(graph, inputs):
    return getattr(graph, "forward", graph)


def _compiled_here(graph, inputs):
    return facula.compile(getattr(graph, "forward", graph))


def lookup_backend(compiler_fn: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a backend; what is no name is given back.

    Args:
        compiler_fn: a name or a function.

    Errors: `InvalidBackend` for the name of no backend.

    >>> from facula._dynamo import lookup_backend
    >>> lookup_backend("eager")(torch.fx.symbolic_trace(nn.ReLU()), [torch.ones(1)])(torch.tensor([-1.0]))
    tensor([0.])
    """
    if not isinstance(compiler_fn, str):
        if not callable(compiler_fn):
            raise InvalidBackend(compiler_fn, list_backends(None))
        return compiler_fn
    if compiler_fn in _registered:
        return _registered[compiler_fn]
    if compiler_fn in _OWN:
        return _compiled_here if compiler_fn in ("inductor", "cudagraphs") else _run_as_it_is
    if compiler_fn in _installed():
        register_backend(_installed()[compiler_fn].load(), name=compiler_fn)
        return _registered[compiler_fn]
    raise InvalidBackend(compiler_fn, list_backends(None))


def is_own(name: Any) -> bool:
    """Return whether a backend is one of Facula's, which is given no graph."""
    return isinstance(name, str) and name in _OWN
