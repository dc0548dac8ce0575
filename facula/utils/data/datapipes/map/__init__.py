"""Define data pipes with samples by index."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING

import facula

from .._columns import warn_of_unpicklable
from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe, MapDataPipe, _Shuffling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapperMapDataPipe(MapDataPipe["Any"]):
    """Hold the elements of a sequence or mapping.

    Args:
        sequence: what has them.
        deepcopy: if True, copy it.

    >>> pipes = torch.utils.data.datapipes.map
    >>> pipe = pipes.SequenceWrapper([10, 20])
    >>> len(pipe), pipe[1]
    (2, 20)
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence: Any = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: int | str) -> int:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


def default_fn(data: Any) -> Any:
    """Return a sample, `data`, as it is.

    Args:
        data: the sample.

    >>> torch.utils.data.datapipes.map.default_fn(3)
    3
    """
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe["Any"]):
    """Apply a function to each sample.

    Args:
        datapipe: the samples.
        fn: the function, called each time a sample is read. Default: the sample itself.

    >>> pipes = torch.utils.data.datapipes.map
    >>> pipes.SequenceWrapper([1, 2]).map((10).__mul__)[1]
    20
    """

    datapipe: SequenceWrapperMapDataPipe

    def __init__(self, datapipe: MapDataPipe[Any], fn: Callable[..., Any] = default_fn) -> None:
        warn_of_unpicklable(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: int) -> int | str:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe["Any"]):
    """Group samples that follow each other into batches.

    Args:
        datapipe: the samples.
        batch_size: samples in a batch; AssertionError below 1.
        drop_last: leaves out a last batch that is not full.
        wrapper_class: what a batch is.

    >>> pipe = torch.utils.data.datapipes.map.SequenceWrapper(range(5)).batch(2)
    >>> len(pipe), pipe[0], pipe[2]
    (3, [0, 1], [4])
    """

    datapipe: SequenceWrapperMapDataPipe
    batch_size: int
    drop_last: bool
    wrapper_class: type

    def __init__(self, datapipe: MapDataPipe[Any], batch_size: int, drop_last: bool = False,
                 wrapper_class: type = DataChunk) -> None:  # fmt: skip
        if batch_size <= 0:
            raise AssertionError(f"batch: batch_size must be 1 or more, got {batch_size}")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

    def __getitem__(self, index: int) -> DataChunk:
        if not 0 <= index < len(self):
            raise IndexError(f"Batcher: index {index} is out of range")
        end = min((index + 1) * self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(index * self.batch_size, end)])

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe["Any"]):
    """Join several pipes, one after another.

    Args:
        datapipes: the pipes, at least one; TypeError for anything else.

    >>> pipes = torch.utils.data.datapipes.map
    >>> pipes.SequenceWrapper([1, 2]).concat(pipes.SequenceWrapper([3]))[2]
    3
    """

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError(f"{type(self).__name__}: at least one DataPipe is expected, got none")
        if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
            raise TypeError(f"{type(self).__name__}: expected MapDataPipes and nothing else, got {datapipes}")
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> int:
        place = index
        for pipe in self.datapipes:
            if 0 <= place < len(pipe):
                return pipe[place]
            place -= len(pipe)
        raise IndexError(f"Concater: index {index} is out of range")

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(ConcaterMapDataPipe):
    """Combine a sample of each pipe in a tuple.

    Args:
        datapipes: the pipes, at least one; TypeError for anything else. The shortest says how many samples there are.

    >>> pipes = torch.utils.data.datapipes.map
    >>> pipes.SequenceWrapper([1, 2]).zip(pipes.SequenceWrapper([10, 20, 30]))[1]
    (2, 20)
    """

    def __getitem__(self, index: int) -> tuple[int, int]:
        if index >= len(self):
            raise IndexError(f"Zipper: index {index} is out of range for {len(self)} samples")
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


class ShufflerIterDataPipe(_Shuffling, IterDataPipe):
    """Yield the samples of a pipe in another order, as a stream.

    Args:
        datapipe: the pipe.
        indices: its indices. Default: 0, 1, ...

    The order is another one with every iterator; `set_seed` fixes that of the next, `set_shuffle(False)` keeps that of the
    indices.

    >>> pipes = torch.utils.data.datapipes.map
    >>> sorted(pipes.SequenceWrapper([10, 20, 30]).shuffle())
    [10, 20, 30]
    """

    def __init__(self, datapipe: MapDataPipe[Any], *,
                 indices: Sequence[int] | None = None) -> None:  # fmt: skip
        self.datapipe = datapipe
        self.indices: list[int] | Sequence[int] = list(range(len(datapipe))) if indices is None else indices

    def __iter__(self) -> Iterator[int | str]:
        order = self.indices
        if self._enabled:
            seed = int(facula.empty((), dtype=facula.int64).random_()) if self._seed is None else self._seed
            self._seed = None
            order = reversed(random.Random(seed).sample(order, len(order)))
        for index in order:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
Batcher = BatcherMapDataPipe
Concater = ConcaterMapDataPipe
Mapper = MapperMapDataPipe
SequenceWrapper = SequenceWrapperMapDataPipe
Shuffler = ShufflerIterDataPipe
Zipper = ZipperMapDataPipe
