"""Define the base class of the iterators of a DataLoader, and the iterator that fetches in this process."""

from __future__ import annotations

import warnings

import facula
from facula._C import _watching
from facula.autograd.profiler import record_function

from . import _utils
from ._utils.fetch import _DatasetKind
from .sampler import _draw_seed


class _BaseDataLoaderIter:
    """Make one pass over a DataLoader."""

    def __init__(self, loader):
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = _can_pin(loader)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        # The order of these two is PyTorch's: a sampler that draws at once does so before the seed is drawn.
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = _draw_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0

    def __iter__(self):
        return self

    def _reset(self, loader, first_iter=False):
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self):
        return next(self._sampler_iter)

    def _next_data(self):
        raise NotImplementedError

    def __next__(self):
        if not _watching():
            return self._next()
        with record_function(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
            return self._next()

    def _next(self):
        data = self._next_data()
        self._num_yielded += 1
        promised = self._IterableDataset_len_called
        if (
            promised is not None
            and self._dataset_kind == _DatasetKind.Iterable
            and self._num_yielded > promised
        ):
            warnings.warn(
                f"DataLoader: len() of the {type(self._dataset).__name__} was {promised}, but "
                f"{self._num_yielded} "
                "batches have come"
                + (
                    "; with several workers, each must give only its part of the stream"
                    if self._num_workers
                    else ""
                ),
                stacklevel=2,
            )
        return data

    def __len__(self):
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError(
            f"{type(self).__name__}: a running iterator cannot be pickled; pickle its DataLoader"
        )


def _can_pin(loader):
    if not loader.pin_memory:
        return False
    if loader.pin_memory_device:
        warnings.warn("DataLoader: pin_memory_device is deprecated and ignored", stacklevel=4)
    if not facula.cuda.is_available():
        warnings.warn("DataLoader: pin_memory=True does nothing without a GPU", stacklevel=4)
        return False
    return True


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetch batches in this process."""

    def __init__(self, loader):
        super().__init__(loader)
        if self._timeout or self._num_workers:
            raise AssertionError("DataLoader: timeout needs num_workers > 0, got 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _next_data(self):
        data = self._dataset_fetcher.fetch(self._next_index())
        return _utils.pin_memory.pin_memory(data) if self._pin_memory else data
