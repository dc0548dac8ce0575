"""Streams made of streams."""

from __future__ import annotations

import collections
import copy
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from facula.utils.data._utils.collate import default_collate

from .._columns import applied, picked
from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "IterableWrapperIterDataPipe", "MapperIterDataPipe", "FilterIterDataPipe", "CollatorIterDataPipe",
    "BatcherIterDataPipe", "UnBatcherIterDataPipe", "GrouperIterDataPipe", "ConcaterIterDataPipe",
    "MultiplexerIterDataPipe", "ZipperIterDataPipe", "ForkerIterDataPipe", "DemultiplexerIterDataPipe",
    "ShardingFilterIterDataPipe",
]  # fmt: skip


class IterableWrapperIterDataPipe(IterDataPipe["Any"]):
    """A stream of what an iterable gives.

    Args:
        iterable: the samples.
        deepcopy: whether each iterator reads a copy of it.

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
    """What a function gives for each sample.

    Args:
        datapipe: the stream.
        fn: the function.
        input_col: columns that it gets, of samples that are tuples, lists or dicts. Default: the sample.
        output_col: where its result goes. Default: in the place of the (first) input.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([(1, 2), (3, 4)]).map(lambda x: x * 10, input_col=1))
    [(1, 20), (3, 40)]
    """

    datapipe: IterDataPipe[Any]
    input_col: Sequence[int] | int | str | None
    output_col: int | str | None

    def __init__(self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], input_col: Sequence[int] | int | str | None = None,
                 output_col: int | str | None = None) -> None:  # fmt: skip
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield applied(self.fn, sample, self.input_col, self.output_col)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe["Any"]):
    """The samples for which a function is True.

    Args:
        datapipe: the stream.
        filter_fn: the function.
        input_col: columns that it gets. Default: the sample.

    Errors: ValueError where the function gives something else than a bool.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper(range(5)).filter(lambda x: x % 2 == 0))
    [0, 2, 4]
    """

    datapipe: IterableWrapperIterDataPipe
    input_col: int | None

    def __init__(self, datapipe: IterDataPipe[Any], filter_fn: Callable[..., Any], input_col: int | None = None) -> None:
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[int | tuple[int, int]]:
        for sample in self.datapipe:
            kept = self.filter_fn(*picked(sample, self.input_col))
            if not isinstance(kept, bool):
                raise ValueError(f"Boolean output is required for `filter_fn` of {type(self).__name__}, got {type(kept)}")
            if kept:
                yield sample


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors.

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
    """Batches of samples, as lists.

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
            raise AssertionError(f"Batch size is required to be larger than 0, got {batch_size}")
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
    """Batches taken apart.

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
            raise ValueError(f"unbatch_level must be -1 or >= 0, got {unbatch_level}")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[int]:
        for item in self.datapipe:
            yield from self._parts(item, self.unbatch_level)

    def _parts(self, item, level):
        if level == 0 or level == -1 and not isinstance(item, list):
            yield item
            return
        if not isinstance(item, list):
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe, got {type(item).__name__}")
        for part in item:
            yield from self._parts(part, level if level == -1 else level - 1)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe["Any"]):
    """Batches of samples that have one key.

    Args:
        datapipe: the stream.
        group_key_fn: gives the key of a sample.
        keep_key: gives (key, batch) in the place of batches.
        buffer_size: samples that wait for others of their key; None: any number.
        group_size: samples of a full group. Default: no group is full before the end.
        guaranteed_group_size: the least number of samples that a group must have when the buffer is full.
        drop_remaining: whether groups that are too small then are left out.

    Errors: RuntimeError where the buffer is full and no group is large enough; AssertionError for sizes that do not fit it.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2, 3, 4]).groupby(lambda x: x % 2, keep_key=True))
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
        guaranteed = group_size if guaranteed_group_size is None else guaranteed_group_size
        sizes = [size for size in (group_size, guaranteed) if size is not None]
        if any(size <= 0 or buffer_size is not None and size > buffer_size for size in sizes):
            raise AssertionError(f"groups must be larger than 0 and fit the buffer of {buffer_size}, got {sizes}")
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
                    raise RuntimeError(f"Failed to group items, the buffer is full and the largest group is {samples}")
        for key, samples in waiting.items():
            yield self._group(key, samples)


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe["Any"]):
    """Several streams, one after another.

    Args:
        datapipes: the streams, at least one; TypeError for anything else.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2]).concat(pipes.IterableWrapper([3])))
    [1, 2, 3]
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not datapipes or not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError(f"Expected at least one DataPipe and nothing else, got {datapipes}")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[int]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(ConcaterIterDataPipe):
    """A sample of each stream in turn, until one is at its end.

    Args:
        datapipes: the streams, at least one; TypeError for anything else.

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
    """Tuples of a sample of each stream, until one is at its end.

    Args:
        datapipes: the streams, at least one; TypeError for anything else.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> list(pipes.IterableWrapper([1, 2, 3]).zip(pipes.IterableWrapper([10, 20])))
    [(1, 10), (2, 20)]
    """

    def __iter__(self) -> Any:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


class _Branch(IterDataPipe["Any"]):
    """One of several streams that read another together."""

    def __init__(self, reader, number):
        self.main_datapipe, self._reader, self._number = reader.datapipe, reader, number

    def __iter__(self):
        return self._reader.read(self._number)

    def __len__(self):
        return self._reader.length(self._number)


class _Reader:
    """A stream that several read, each at its own pace; samples wait in buffers."""

    def __init__(self, datapipe, count, buffer_size, goes_to):
        if count < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {count} is found")
        self.datapipe, self.buffer_size, self.goes_to = datapipe, buffer_size, goes_to
        self.buffers = [collections.deque() for _ in range(count)]
        self.source, self.begun = None, set()

    def length(self, number):
        """Samples of a branch, where each gets all."""
        if self.goes_to is not None:
            raise TypeError(f"branch {number} of a demultiplexed stream has no length")
        return len(self.datapipe)

    def read(self, number):
        """The samples of a branch, which begins again where it was begun before."""
        if self.source is None or number in self.begun:
            self.source, self.begun = iter(self.datapipe), set()
            for buffer in self.buffers:
                buffer.clear()
        self.begun.add(number)
        source, mine = self.source, self.buffers[number]
        while self.source is source:
            if mine:
                yield mine.popleft()
                continue
            try:
                sample = next(source)
            except StopIteration:
                return
            for place in range(len(self.buffers)) if self.goes_to is None else self.goes_to(sample):
                self.buffers[place].append(sample)
            if 0 <= self.buffer_size < max(map(len, self.buffers)):
                raise BufferError(f"buffer overflow: branches are more than {self.buffer_size} samples apart")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe["Any"]):
    """Several streams of the same samples; the class gives a list of them.

    Args:
        datapipe: the stream.
        num_instances: how many.
        buffer_size: samples by which they may be apart; -1: any number.

    Errors: BufferError where they are farther apart than the buffer allows.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> first, second = pipes.IterableWrapper([1, 2]).fork(2)
    >>> list(first), list(second)
    ([1, 2], [1, 2])
    """

    def __new__(cls, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000) -> list[Any]:
        reader = _Reader(datapipe, num_instances, buffer_size, None)
        return [_Branch(reader, number) for number in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe["Any"]):
    """Several streams, to one of which each sample goes; the class gives a list of them.

    Args:
        datapipe: the stream.
        num_instances: how many.
        classifier_fn: gives the number of a sample's stream, or None.
        drop_none: leaves out samples for which that is None.
        buffer_size: samples that may wait; -1: any number.

    Errors: BufferError where more samples wait than may; ValueError for a number of no stream.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> even, odd = pipes.IterableWrapper(range(5)).demux(2, lambda x: x % 2)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """

    def __new__(cls, datapipe: IterDataPipe[Any], num_instances: int, classifier_fn: Callable[..., Any],
                drop_none: bool = False, buffer_size: int = 1000) -> list[Any]:  # fmt: skip
        def goes_to(sample):
            place = classifier_fn(sample)
            if place is None and drop_none:
                return ()
            if place is None or not 0 <= place < num_instances:
                raise ValueError(f"demux: the function must give 0 to {num_instances - 1}, got {place}")
            return (place,)

        reader = _Reader(datapipe, num_instances, buffer_size, goes_to)
        return [_Branch(reader, number) for number in range(num_instances)]


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe["Any"]):
    """Every n-th sample, where `apply_sharding` has said which; else all. So workers share a stream.

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
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        """Lets the samples through whose number is `instance_id` modulo `num_of_instances`.

        `sharding_group` names the kind of sharding: a filter heeds its own only. ValueError for an instance_id outside.
        """
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        if self.sharding_group_filter is None or sharding_group == self.sharding_group_filter:
            self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[int]:
        for number, sample in enumerate(self.source_datapipe):
            if number % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self) -> int:
        count = len(self.source_datapipe)
        return count // self.num_of_instances + (self.instance_id < count % self.num_of_instances)
