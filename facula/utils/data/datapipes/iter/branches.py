"""Define streams that several branches read: forks, where each gets every sample, and demultiplexers, where each gets
its own.
"""

from __future__ import annotations

import collections
import copy as copying
import warnings
from typing import TYPE_CHECKING, Any

from .._columns import warn_of_unpicklable
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


class _ChildDataPipe(IterDataPipe["Any"]):
    """Read one branch of a stream that several branches share."""

    def __init__(self, main_datapipe: _Shared, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def _begin_epoch(self) -> int:
        """Begin again, together with the other branches: the first that begins twice resets all of them."""
        self._number_of_samples_yielded, self._restored = 0, None
        self._valid_iterator_id = self.main_datapipe.epoch_of(self._valid_iterator_id)
        return self._valid_iterator_id

    def _is_current(self, number: int) -> bool:
        return self._valid_iterator_id == number == self.main_datapipe._valid_iterator_id

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_valid_iterator_id", None)  # epochs are those of the reader, which starts anew
        return state

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.read(self.instance_id)

    def __len__(self) -> int:
        return len(self.main_datapipe)


class _Shared(IterDataPipe["Any"]):
    """Let several branches read a stream, each at its own pace; samples wait in buffers."""

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int) -> None:
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        if buffer_size < 0:
            text = "Unlimited buffer size is set: samples that wait for a branch may fill memory"
            warnings.warn(text, UserWarning, stacklevel=3)
        self._clear()

    def _clear(self) -> None:
        self._source: Any = None
        self._at_end = False
        self._buffers: list[Any] = [collections.deque() for _ in range(self.num_instances)]

    def reset(self) -> None:
        """Begin again: forget what waits."""
        self._clear()

    def places(self, sample: Any) -> Any:
        """Return the branches that get a sample, and what each gets."""
        raise NotImplementedError

    def epoch_of(self, epoch: int | None) -> int:
        """Return the number of the epoch that a branch begins whose last one was `epoch`."""
        if self._valid_iterator_id is None:
            self._valid_iterator_id = 0
            self._start_over()
        # A branch of the current epoch begins a new one; a branch that is behind joins the current one.
        elif self._valid_iterator_id == epoch:
            if not (self._at_end and not any(self._buffers)):
                warnings.warn(
                    "A new __iter__ empties the buffer though child DataPipes are not exhausted, and each child reads "
                    "from the start again.",
                    UserWarning,
                    stacklevel=2,
                )
            self._valid_iterator_id += 1
            self._start_over()
        return self._valid_iterator_id

    def read(self, number: int) -> Iterator[Any]:
        """Give the samples of a branch."""
        if self._source is None:
            self._source = iter(self.main_datapipe)
        mine = self._buffers[number]
        while True:
            if mine:
                yield mine.popleft()
                continue
            try:
                sample = next(self._source)
            except StopIteration:
                self._at_end = True
                return
            for place, value in self.places(sample):
                self._buffers[place].append(value)
            if 0 <= self.buffer_size < max((len(b) for i, b in enumerate(self._buffers) if i != number), default=0):
                raise BufferError(f"buffer overflow: branches are more than {self.buffer_size} samples apart")

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        for name in ("_source", "_at_end", "_buffers", "_valid_iterator_id"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._clear()


_COPIES = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}


class _ForkerIterDataPipe(_Shared):
    """Hand every sample of a stream to all branches."""

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, copy: str | None) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self.copy_fn = _COPIES[copy]

    def places(self, sample: Any) -> Any:
        for place in range(self.num_instances):
            yield place, sample if self.copy_fn is None else self.copy_fn(sample)

    def __len__(self) -> int:
        return len(self.main_datapipe)


class _DemultiplexerIterDataPipe(_Shared):
    """Hand every sample of a stream to one branch."""

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, classifier_fn: Callable[..., Any],
                 drop_none: bool) -> None:  # fmt: skip
        super().__init__(datapipe, num_instances, buffer_size)
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def places(self, sample: Any) -> Any:
        place = self.classifier_fn(sample)
        if place is None and self.drop_none:
            return
        if place is None or not 0 <= place < self.num_instances:
            raise ValueError(f"demux: the function must give 0 to {self.num_instances - 1}, got {place}")
        yield place, sample

    def __len__(self) -> int:
        raise TypeError("demux: a branch has no length")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe["Any"]):
    """Fork a stream into several streams of the same samples. The class returns a list of them, and for one instance
    the stream itself.

    Args:
        datapipe: the stream.
        num_instances: how many.
        buffer_size: samples by which they may be apart; -1: any number, with a UserWarning.
        copy: "shallow" or "deep" gives every stream copies of its own.

    Errors: BufferError where they are farther apart than the buffer allows; ValueError for less than one and other words.

    >>> pipes = torch.utils.data.datapipes.iter
    >>> first, second = pipes.IterableWrapper([1, 2]).fork(2)
    >>> list(first), list(second)
    ([1, 2], [1, 2])
    """

    def __new__(cls, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000, copy: str | None = None) -> Any:
        if num_instances < 1:
            raise ValueError(f"fork: num_instances must be positive, got {num_instances}")
        if copy not in _COPIES:
            raise ValueError(f"fork: copy must be None, 'shallow' or 'deep', got {copy!r}")
        if num_instances == 1:
            return datapipe
        shared = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(shared, number) for number in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe["Any"]):
    """Distribute the samples of a stream among several streams. The class returns a list of them.

    Args:
        datapipe: the stream.
        num_instances: how many.
        classifier_fn: gives the number of a sample's stream, or None.
        drop_none: leaves out samples for which that is None.
        buffer_size: samples that may wait; -1: any number, with a UserWarning.

    Errors: BufferError where more samples wait than may; ValueError for a number of no stream.

    >>> pipes, remainder = torch.utils.data.datapipes.iter, (2).__rmod__
    >>> even, odd = pipes.IterableWrapper(range(5)).demux(2, remainder)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """

    def __new__(cls, datapipe: IterDataPipe[Any], num_instances: int, classifier_fn: Callable[..., Any],
                drop_none: bool = False, buffer_size: int = 1000) -> Any:  # fmt: skip
        if num_instances < 1:
            raise ValueError(f"demux: num_instances must be positive, got {num_instances}")
        warn_of_unpicklable(classifier_fn)
        shared = _DemultiplexerIterDataPipe(datapipe, num_instances, buffer_size, classifier_fn, drop_none)
        return [_ChildDataPipe(shared, number) for number in range(num_instances)]
