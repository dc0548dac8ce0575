"""Define DataLoader, which makes batches of a dataset in this process or ahead of time in worker processes."""

from __future__ import annotations

import collections.abc
import itertools
import math
import multiprocessing.context
import os
import warnings
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import facula
from facula import _C

from ._iterators import _BaseDataLoaderIter, _SingleProcessDataLoaderIter  # noqa: F401  (programs find the base here)
from ._multiprocess import _MultiProcessingDataLoaderIter
from ._threads import _ThreadingDataLoaderIter
from ._utils.collate import default_collate, default_convert
from ._utils.fetch import _DatasetKind
from ._utils.worker import get_worker_info  # noqa: F401  (public here too)
from .dataset import (  # noqa: F401  (programs import Dataset and IterableDataset from here)
    Dataset,
    IterableDataset,
)
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from facula import Generator

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_T = TypeVar("_T")
_collate_fn_t = collections.abc.Callable[[list[_T]], Any]


class _InfiniteConstantSampler(Sampler["None"]):
    """Yield None forever, in the place of indices, where the dataset is a stream."""

    def __iter__(self) -> Any:
        return itertools.repeat(None)


class DataLoader(Generic[_T_co]):
    """Iterate over batches of `dataset`, which workers can fetch ahead.

    Args:
        dataset: a Dataset, an IterableDataset, or anything with `__getitem__` and `__len__`.
        batch_size: the number of samples in a batch; None yields single samples, not collated.
        shuffle: if True, draw samples in a new random order in each epoch.
        sampler: an iterable of indices, instead of `shuffle`.
        batch_sampler: an iterable of lists of indices, instead of batch_size, shuffle, sampler and drop_last.
        num_workers: the number of processes (or threads) that fetch ahead; 0 fetches in this one.
        collate_fn: a function from a list of samples to a batch. Default: `default_collate`.
        pin_memory: if True, copy batches to page-locked memory; without a GPU this warns and does nothing.
        drop_last: if True, leave out a last batch that is not full.
        timeout: the seconds to wait for a batch from workers; 0 waits forever.
        worker_init_fn: a function that is called with the worker's number in each worker, after seeding.
        multiprocessing_context: a context or start method for the workers; "threads" for threads of this process. These
            share the dataset, which must serve several at once, and help where it works without the interpreter lock: in NumPy,
            zlib, files, Facula. Nothing is pickled or copied.
        generator: the generator of the order and of the workers' seeds. Default: the global one.
        prefetch_factor: the number of batches that each worker has under way. Default: 2.
        persistent_workers: if True, do not end workers between epochs.
        pin_memory_device: deprecated; it has no effect.
        in_order: if True, yield batches in the sampler's order, otherwise as they come.

    Shapes: a batch is what collate_fn returns: with `default_collate`, a tensor (batch_size, ...) for each tensor (...) of a
    sample.

    Errors: ValueError for arguments that exclude each other (shuffle and sampler, batch_sampler and batch_size, an order for a
    stream, settings of workers without workers) and negative numbers; an error of a worker is raised here, of the same class.

    >>> data = torch.utils.data.TensorDataset(torch.arange(5), torch.arange(5) * 10)
    >>> loader = torch.utils.data.DataLoader(data, batch_size=2)
    >>> len(loader)
    3
    >>> for x, y in loader:
    ...     print(x, y)
    tensor([0, 1]) tensor([ 0, 10])
    tensor([2, 3]) tensor([20, 30])
    tensor([4]) tensor([40])
    """

    _iterator = None
    _initialized = False
    dataset: Any

    def __init__(
        self,
        dataset: Dataset[_T_co] | Sequence[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor: int | None = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable and hasattr(type(dataset), "register_datapipe_as_function"):  # a stream that may shuffle by itself
            from .graph_settings import apply_shuffle_settings

            self.dataset, shuffle = apply_shuffle_settings(dataset, shuffle=shuffle), None
        _check_sampling(iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None:
            sampler = self._default_sampler(iterable, dataset, shuffle, generator)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.collate_fn: Any = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called = None  # what len() said, to warn when a stream gives more
        # From here on `__setattr__` refuses to change what the samplers were made from.
        self._initialized = True
        self.check_worker_number_rationality()

    @staticmethod
    def _default_sampler(iterable, dataset, shuffle, generator):
        if iterable:
            return _InfiniteConstantSampler()
        return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
        if self._initialized and name in fixed:
            raise ValueError(
                f"{type(self).__name__}: {name} cannot be changed after construction; make another loader"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts the workers; may be set to a context, the name of a start method, or "threads"."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and not self.num_workers:
            raise ValueError(f"DataLoader: multiprocessing_context={context!r} needs num_workers > 0")
        if isinstance(context, str):
            methods = [*facula.multiprocessing.get_all_start_methods(), "threads"]
            if context not in methods:
                raise ValueError(
                    f"DataLoader: multiprocessing_context must be {_C._one_of(context, methods)}"
                )
            context = context if context == "threads" else facula.multiprocessing.get_context(context)
        elif context is not None and not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                f"DataLoader: multiprocessing_context must be a context or its name, got {context!r}"
            )
        self._context = context

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        if self.multiprocessing_context == "threads":
            return _ThreadingDataLoaderIter(self)
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None or self._iterator._shutdown:  # a worker's death ends them all
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self) -> int:
        """Return the number of batches; for a stream what its own `__len__` says, divided by the batch size."""
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)
        return length

    def check_worker_number_rationality(self) -> None:
        """Warn (UserWarning) when there are more workers than processors to run them; called when the loader is made.

        >>> torch.utils.data.DataLoader([1, 2]).check_worker_number_rationality()
        """
        # The processors that this process may use can be fewer than those of the machine.
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.num_workers and available and self.num_workers > available:
            warnings.warn(
                f"DataLoader: {self.num_workers} workers on {available} processors may be slower than fewer",
                stacklevel=3,
            )


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers):
    if num_workers < 0:
        raise ValueError(f"DataLoader: num_workers must be at least 0, got {num_workers}")
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout must be at least 0, got {timeout}")
    if prefetch_factor is not None and not num_workers:
        raise ValueError(f"DataLoader: prefetch_factor={prefetch_factor} needs num_workers > 0")
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError(f"DataLoader: prefetch_factor must be at least 0, got {prefetch_factor}")
    if persistent_workers and not num_workers:
        raise ValueError("DataLoader: persistent_workers needs num_workers > 0, got 0")


def _check_sampling(iterable, batch_size, shuffle, sampler, batch_sampler, drop_last):
    if iterable:
        given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"DataLoader: an IterableDataset decides its own order; got {name}={value!r}"
                )
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: give sampler or shuffle, not both")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "DataLoader: batch_sampler takes the place of batch_size, shuffle, sampler and drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("DataLoader: drop_last needs a batch_size, got None")


