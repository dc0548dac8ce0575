"""Define streams that are made from other streams."""

from __future__ import annotations

import collections
import copy
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from facula.utils.data._utils.collate import default_collate

from .._columns import applied, check_columns, picked, warn_of_unpicklable
from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe
from .sharding import SHARDING_PRIORITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "IterableWrapperIterDataPipe", "MapperIterDataPipe", "FilterIterDataPipe", "CollatorIterDataPipe",
    "BatcherIterDataPipe", "UnBatcherIterDataPipe", "GrouperIterDataPipe", "ConcaterIterDataPipe",
    "MultiplexerIterDataPipe", "ZipperIterDataPipe", "ShardingFilterIterDataPipe",
]  # fmt: skip


class IterableWrapperIterDataPipe(IterDataPipe["Any"]):
    """Yield what an iterable yields.

    Args:
        iterable: the samples.
        deepcopy: if True, each iterator reads a copy of it.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2, 3]))
    [1, 2, 3]
    """

    iterable: Iterable[Any]
    deepcopy: bool

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn("IterableWrapper: the input can not be deepcopied and is read itself", UserWarning, stacklevel=2)
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe["Any"]):
    """Apply a function to each sample.

    Args:
        datapipe: the stream.
        fn: the function. ValueError for one that does not take so many columns.
        input_col: columns that it gets, of samples that are tuples, lists or dicts. Default: the sample.
        output_col: where its result goes. Default: in the place of the (first) input.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([(1, 2), (3, 4)]).map((10).__mul__, input_col=1))
    [(1, 20), (3, 40)]
    """

    datapipe: IterDataPipe[Any]
    input_col: Sequence[int] | int | str | None
    output_col: int | str | None

    def __init__(self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], input_col: Sequence[int] | int | str | None = None,
                 output_col: int | str | None = None) -> None:  # fmt: skip
        if input_col is None and output_col is not None:
            raise ValueError("map: without input_col there can be no output_col, got one")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) != 1:
                raise ValueError(f"map: output_col must be one column, got {output_col!r}")
            output_col = output_col[0]
        warn_of_unpicklable(fn)
        check_columns(fn, input_col)
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield applied(self.fn, sample, self.input_col, self.output_col)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe["Any"]):
    """Yield the samples for which a function is True.

    Args:
        datapipe: the stream.
        filter_fn: the function.
        input_col: columns that it gets. Default: the sample.

    Errors: ValueError where the function gives something else than a bool, or does not take so many columns.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper(range(5)).filter((2).__lt__))
    [3, 4]
    """

    datapipe: IterableWrapperIterDataPipe
    input_col: int | None

    def __init__(self, datapipe: IterDataPipe[Any], filter_fn: Callable[..., Any], input_col: int | None = None) -> None:
        warn_of_unpicklable(filter_fn)
        check_columns(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[int | tuple[int, int]]:
        for sample in self.datapipe:
            kept = self.filter_fn(*picked(sample, self.input_col))
            if not isinstance(kept, bool):
                raise ValueError(f"{type(self).__name__}: filter_fn must return a bool, got {type(kept)}")
            if kept:
                yield sample


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Collate batches to tensors.

    Args:
        datapipe: a stream of batches.
        collate_fn: makes tensors of a batch. Default: `default_collate`.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2, 3]).batch(2).collate())
    [tensor([1, 2]), tensor([3])]
    """

    def __init__(self, datapipe: IterDataPipe[Any], collate_fn: Callable[..., Any] = default_collate) -> None:
        super().__init__(datapipe, fn=collate_fn)


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe["Any"]):
    """Yield batches of samples, as lists.

    Args:
        datapipe: the stream.
        batch_size: samples in a batch.
        drop_last: leaves out a last batch that is not full.
        wrapper_class: what a batch is.

    Errors: AssertionError for a batch_size below 1.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper(range(5)).batch(2, drop_last=True))
    [[0, 1], [2, 3]]
    """

    datapipe: IterDataPipe[Any]
    batch_size: int
    drop_last: bool
    wrapper_class: type

    def __init__(self, datapipe: IterDataPipe[Any], batch_size: int, drop_last: bool = False,
                 wrapper_class: type = DataChunk) -> None:  # fmt: skip
        if batch_size <= 0:
            raise AssertionError(f"batch: batch_size must be 1 or more, got {batch_size}")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

    def __iter__(self) -> Iterator[DataChunk]:
        batch = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe["Any"]):
    """Yield the single samples of batches.

    Args:
        datapipe: the stream.
        unbatch_level: how often; -1: until samples are no lists.

    Errors: IndexError for samples that are no lists so deep down.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([[1, 2], [3]]).unbatch())
    [1, 2, 3]
    """

    datapipe: IterDataPipe[Any]
    unbatch_level: int

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        if unbatch_level < -1:
            raise ValueError(f"UnBatcher: unbatch_level must be -1 or not negative, got {unbatch_level}")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[int]:
        for item in self.datapipe:
            yield from self._parts(item, self.unbatch_level)

    def _parts(self, item, level):
        if level == 0 or level == -1 and not isinstance(item, list):
            yield item
            return
        if not isinstance(item, list):
            raise IndexError(f"UnBatcher: lists nested {self.unbatch_level} deep are expected, got {type(item).__name__}")
        for part in item:
            yield from self._parts(part, level if level == -1 else level - 1)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe["Any"]):
    """Yield batches of samples that have the same key.

    Args:
        datapipe: the stream.
        group_key_fn: gives the key of a sample.
        keep_key: gives (key, batch) in the place of batches.
        buffer_size: samples that wait for others of their key; None: any number.
        group_size: samples of a full group. Default: no group is full before the end.
        guaranteed_group_size: the least number of samples that a group must have when the buffer is full.
        drop_remaining: if True, leave out groups that are too small then.

    Errors: RuntimeError where the buffer is full and no group is large enough; AssertionError for sizes that do not fit it.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2, 3, 4]).groupby((2).__rmod__, keep_key=True))
    [(1, [1, 3]), (0, [2, 4])]
    """

    datapipe: IterableWrapperIterDataPipe
    keep_key: bool
    buffer_size: int
    group_size: int | None
    guaranteed_group_size: Any
    drop_remaining: bool

    def __init__(self, datapipe: IterDataPipe[Any], group_key_fn: Callable[..., Any], *, keep_key: bool = False,
                 buffer_size: int = 10000, group_size: int | None = None, guaranteed_group_size: Any = None,
                 drop_remaining: bool = False) -> None:  # fmt: skip
        warn_of_unpicklable(group_key_fn)
        guaranteed = group_size if guaranteed_group_size is None else guaranteed_group_size
        sizes = [size for size in (group_size, guaranteed) if size is not None]
        if any(size <= 0 or buffer_size is not None and size > buffer_size for size in sizes):
            raise AssertionError(f"Grouper: groups must be larger than 0 and fit the buffer of {buffer_size}, got {sizes}")
        self.datapipe, self.group_key_fn, self.keep_key, self.buffer_size = datapipe, group_key_fn, keep_key, buffer_size
        self.group_size, self.guaranteed_group_size, self.drop_remaining = group_size, guaranteed, drop_remaining

    def _group(self, key, samples):
        return (key, DataChunk(samples)) if self.keep_key else DataChunk(samples)

    def __iter__(self) -> Iterator[DataChunk | tuple[str, DataChunk]]:
        waiting, count = collections.defaultdict(list), 0
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            waiting[key].append(sample)
            count += 1
            if len(waiting[key]) == self.group_size:
                count -= self.group_size
                yield self._group(key, waiting.pop(key))
            if count == self.buffer_size:
                key = max(waiting, key=lambda k: len(waiting[k]))
                samples = waiting.pop(key)
                count -= len(samples)
                if self.guaranteed_group_size is None or len(samples) >= self.guaranteed_group_size:
                    yield self._group(key, samples)
                elif not self.drop_remaining:
                    raise RuntimeError(
                        f"Grouper: the buffer is full and no group is complete, got a largest group of {samples}"
                    )
        for key, samples in waiting.items():
            yield self._group(key, samples)


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe["Any"]):
    """Join several streams, one after another.

    Args:
        datapipes: the streams. ValueError for none; TypeError for anything else.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2]).concat(pipes.IterableWrapper([3])))
    [1, 2, 3]
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError(f"{type(self).__name__}: at least one DataPipe is expected, got none")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError(f"{type(self).__name__}: expected streams (IterDataPipe) and nothing else, got {datapipes}")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[int]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(ConcaterIterDataPipe):
    """Yield a sample of each stream in turn, until one is at its end.

    Args:
        datapipes: the streams. ValueError for none; TypeError for anything else.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2, 3]).mux(pipes.IterableWrapper([10, 20])))
    [1, 10, 2, 20]
    """

    def __iter__(self) -> Iterator[int]:
        for samples in zip(*self.datapipes, strict=False):
            yield from samples

    def __len__(self) -> int:
        return min(map(len, self.datapipes)) * len(self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(ConcaterIterDataPipe):
    """Yield tuples of a sample of each stream, until one is at its end.

    Args:
        datapipes: the streams. ValueError for none; TypeError for anything else.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2, 3]).zip(pipes.IterableWrapper([10, 20])))
    [(1, 10), (2, 20)]
    """

    def __iter__(self) -> Any:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe["Any"]):
    """Yield every n-th sample where `apply_sharding` has set n, and all samples otherwise. So workers share a stream.

    Args:
        source_datapipe: the stream.
        sharding_group_filter: the group of sharding to heed; by default the one without a name.

    >>> pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).sharding_filter()
    >>> pipe.apply_sharding(2, 1)
    >>> list(pipe)
    [1, 3]
    """

    source_datapipe: IterDataPipe[Any]
    sharding_group_filter: Any
    num_of_instances: int
    instance_id: int

    def __init__(self, source_datapipe: IterDataPipe[Any], sharding_group_filter: Any = None) -> None:
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int,
                       sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT) -> None:  # fmt: skip
        """Let the samples through whose number is `instance_id` modulo `num_of_instances`.

        `sharding_group` names the kind of sharding: parts of a later group are parts of one part of an earlier group. Errors:
        ValueError for an instance_id outside; RuntimeError for DEFAULT beside other groups.

        Args:
            num_of_instances: how many parts there are.
            instance_id: the number of this part.
            sharding_group: the kind of sharding.
        """
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(
                f"apply_sharding: instance_id must be below num_of_instances={num_of_instances}, got {instance_id}"
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self.groups):
            raise RuntimeError(
                f"ShardingFilter: expected DEFAULT or other groups, got {sharding_group!r} beside {list(self.groups)}"
            )
        self.groups[sharding_group] = num_of_instances, instance_id
        self.num_of_instances, self.instance_id = 1, 0
        # The first group here is the one whose number changes from sample to sample.
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter is None or group == self.sharding_group_filter:
                count, mine = self.groups[group]
                self.instance_id += self.num_of_instances * mine
                self.num_of_instances *= count

    def __iter__(self) -> Iterator[int]:
        for number, sample in enumerate(self.source_datapipe):
            if number % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self) -> int:
        count = len(self.source_datapipe)
        return count // self.num_of_instances + (self.instance_id < count % self.num_of_instances)
