"""List the pipes from which a data pipe is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .datapipes.datapipe import IterDataPipe, MapDataPipe

if TYPE_CHECKING:
    from typing import Any

__all__ = ["traverse", "traverse_dps"]

_KINDS = (IterDataPipe, MapDataPipe)


def _inner(value, seen):
    """Yield the pipes that a value holds, in containers, too."""
    if id(value) in seen:
        return
    if isinstance(value, _KINDS):
        yield value
        return
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set)) else ()
    for part in values:
        yield from _inner(part, seen | {id(value)})


def traverse_dps(datapipe: Any) -> dict[int, Any]:
    """Return {id: (pipe, the same of the pipes that it is made of)}, of the pipe `datapipe`.

    Args:
        datapipe: the pipe.

    Errors: RuntimeError for what is no pipe.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper([1, 2]).map(str)
    >>> [(str(pipe), [str(inner) for inner, _ in below.values()]) for pipe, below in
    ...  torch.utils.data.graph.traverse_dps(pipe).values()]
    [('MapperIterDataPipe', ['IterableWrapperIterDataPipe'])]
    """
    return _graph(datapipe, frozenset())


def _graph(pipe, above):
    if not isinstance(pipe, _KINDS):
        raise RuntimeError(f"traverse: an IterDataPipe or a MapDataPipe is expected, got {type(pipe)}")
    if id(pipe) in above:
        return {}
    below = {}
    for value in vars(pipe).values():
        for part in _inner(value, frozenset()):
            below.update(_graph(part, above | {id(pipe)}))
    return {id(pipe): (pipe, below)}


def traverse(datapipe: Any, only_datapipe: Any = None) -> dict[int, Any]:
    """Call `traverse_dps`, of which this is the old name.

    Args:
        datapipe: the pipe.
        only_datapipe: must not be False: objects that are no pipes are not gone through.

    Returns: what `traverse_dps` returns.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper([1, 2])
    >>> list(torch.utils.data.graph.traverse(pipe, only_datapipe=True)) == [id(pipe)]
    True
    """
    if only_datapipe is False:
        raise NotImplementedError("traverse: objects that are no pipes are not gone through, got only_datapipe=False")
    return traverse_dps(datapipe)
