"""Define streams in another order."""

from __future__ import annotations

import random
from collections.abc import Sized
from typing import TYPE_CHECKING

import facula
from facula.utils.data.sampler import SequentialSampler

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe, _Shuffling

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from facula.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe["Any"]):
    """Yield the indices that a sampler yields for a pipe.

    Args:
        datapipe: samples by index.
        sampler: a class of samplers. Default: in order.
        sampler_args, sampler_kwargs: more arguments of the class.

    >>> list(torch.utils.data.datapipes.iter.Sampler([10, 20, 30]))
    [0, 1, 2]
    """

    def __init__(self, datapipe: MapDataPipe[Any], sampler: type = SequentialSampler, sampler_args: Any = None,
                 sampler_kwargs: dict[str, Any] | None = None) -> None:  # fmt: skip
        if not isinstance(datapipe, Sized):
            raise AssertionError(f"Sampler: expected samples that have a length, got {type(datapipe).__name__}")
        self.datapipe = datapipe
        self.sampler: Any = sampler(*(sampler_args or ()), data_source=datapipe, **(sampler_kwargs or {}))

    def __iter__(self) -> Iterator[int]:
        yield from self.sampler

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(_Shuffling, IterDataPipe):
    """Yield the samples of a stream from a buffer, at random.

    Args:
        datapipe: the stream.
        buffer_size: samples in the buffer.
        unbatch_level: how often batches are taken apart first; -1: wholly.

    The order is another one with every iterator; `set_seed` fixes that of the next, `set_shuffle(False)` keeps that of the
    stream.

    Errors: AssertionError for a buffer_size below 1.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> pipe = pipes.IterableWrapper(range(5)).shuffle()
    >>> sorted(pipe), list(pipe.set_seed(0)) == list(pipe.set_seed(0))
    ([0, 1, 2, 3, 4], True)
    >>> list(pipe.set_shuffle(False))
    [0, 1, 2, 3, 4]
    """

    def __init__(self, datapipe: IterDataPipe[Any], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError(f"Shuffler: buffer_size must be positive, got {buffer_size}")
        self.datapipe: Any = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[int]:
        if not self._enabled:
            yield from self.datapipe
            return
        seed = int(facula.empty((), dtype=facula.int64).random_()) if self._seed is None else self._seed
        self._seed = None
        draw, buffer = random.Random(seed), []
        for sample in self.datapipe:
            if len(buffer) == self.buffer_size:
                index = draw.randint(0, len(buffer) - 1)
                value, buffer[index] = buffer[index], sample
                yield value
            else:
                buffer.append(sample)
        while buffer:
            yield buffer.pop(draw.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return len(self.datapipe)
