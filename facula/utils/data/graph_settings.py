"""Apply settings to all pipes from which a data pipe is made."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING

import facula

from .datapipes.iter.combinatorics import ShufflerIterDataPipe
from .datapipes.iter.sharding import SHARDING_PRIORITIES
from .datapipes.map import ShufflerIterDataPipe as ShufflerOfMap
from .graph import traverse_dps

if TYPE_CHECKING:
    from typing import Any

    from facula import Generator
    from facula.utils.data.datapipes.datapipe import IterDataPipe
    from facula.utils.data.datapipes.iter.streams import ShardingFilterIterDataPipe

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: dict[int, Any]) -> list[Any]:
    """Return the pipes of `graph`, which `traverse_dps` gives, each once, as a list.

    Args:
        graph: what `traverse_dps` returns.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper([1, 2]).map(str)
    >>> torch.utils.data.graph_settings.get_all_graph_pipes(torch.utils.data.graph.traverse_dps(pipe))
    [MapperIterDataPipe, IterableWrapperIterDataPipe]
    """
    found = {}
    for key, (pipe, below) in graph.items():
        found[key] = pipe
        found.update({id(other): other for other in get_all_graph_pipes(below)})
    return list(found.values())


def _pipes(datapipe):
    return get_all_graph_pipes(traverse_dps(datapipe))


def apply_sharding(
    datapipe: IterDataPipe[Any],
    num_of_instances: int,
    instance_id: int,
    sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
) -> ShardingFilterIterDataPipe:
    """Set for the nearest sharding filters on every way which of `num_of_instances` parts they let through.

    Args:
        datapipe: the pipe.
        num_of_instances: the number of parts.
        instance_id: the number of the part, from 0.
        sharding_group: the group of the filters that follow this setting.

    Returns: the pipe.

    Errors: RuntimeError for a filter behind another.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).sharding_filter().map(str)
    >>> list(torch.utils.data.graph_settings.apply_sharding(pipe, 2, 0))
    ['0', '2', '4']
    """

    def visit(graph, before=None):
        for pipe, below in graph.values():
            filters = hasattr(type(pipe), "apply_sharding")
            if filters and before is not None:
                raise RuntimeError(f"apply_sharding: a pipeline is sharded at most once on its way, got {pipe} and {before}")
            if filters:
                takes_group = len(inspect.signature(pipe.apply_sharding).parameters) > 2
                pipe.apply_sharding(num_of_instances, instance_id, *([sharding_group] if takes_group else ()))
            visit(below, pipe if filters else before)

    visit(traverse_dps(datapipe))
    return datapipe


def _shuffles(pipe):
    return isinstance(pipe, (ShufflerIterDataPipe, ShufflerOfMap)) or all(
        callable(getattr(type(pipe), name, None)) for name in ("set_shuffle", "set_seed")
    )


def apply_shuffle_settings(datapipe: IterDataPipe[Any],
                           shuffle: bool | None = None) -> IterDataPipe[Any]:
    """Turn shuffling on or off in all pipes of which `datapipe` is made and that shuffle.

    Args:
        datapipe: the pipe.
        shuffle: True, for which there must be one that shuffles, or one is added, with a UserWarning; False; None leaves it.

    Returns: the pipe.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).shuffle()
    >>> list(torch.utils.data.graph_settings.apply_shuffle_settings(pipe, False))
    [0, 1, 2, 3, 4]
    """
    if shuffle is None:
        return datapipe
    shufflers = [pipe for pipe in _pipes(datapipe) if _shuffles(pipe)]
    if not shufflers and shuffle:
        warnings.warn(
            "apply_shuffle_settings: no pipe here shuffles, so a Shuffler is put at the end; its default buffer may be too "
            "small for good mixing",
            UserWarning,
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe: Any, rng: Any) -> IterDataPipe[Any]:
    """Call `apply_random_seed`, of which this is the old name, with the same arguments `datapipe` and `rng`.

    Args:
        datapipe: the pipe.
        rng: a Generator.

    Returns: the pipe.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).shuffle()
    >>> torch.utils.data.graph_settings.apply_shuffle_seed(pipe, torch.Generator().manual_seed(0)) is pipe
    True
    """
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe: IterDataPipe[Any], rng: Generator) -> IterDataPipe[Any]:
    """Give every pipe of which `datapipe` is made a seed of its own, drawn by the Generator `rng`; give the pipe.

    Args:
        datapipe: the pipe.
        rng: a Generator, from which the seeds are drawn.

    Returns: the pipe.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).shuffle()
    >>> seeded = torch.utils.data.graph_settings.apply_random_seed
    >>> first = list(seeded(pipe, torch.Generator().manual_seed(0)))
    >>> list(seeded(pipe, torch.Generator().manual_seed(0))) == first
    True
    """
    for pipe in _pipes(datapipe):
        if callable(getattr(type(pipe), "set_seed", None)):
            pipe.set_seed(int(facula.empty((), dtype=facula.int64).random_(generator=rng)))
    return datapipe
