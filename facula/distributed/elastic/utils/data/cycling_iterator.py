"""Iterate over epochs one after another, in one iterator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

__all__ = ["CyclingIterator"]


class CyclingIterator:
    """Iterate over the results of `generator_fn(epoch)`, for each epoch.

    Args:
        n: the number of epochs.
        generator_fn: gives the iterator of an epoch.
        start_epoch: the first one.

    >>> from torch.distributed.elastic.utils.data import CyclingIterator
    >>> list(CyclingIterator(3, lambda epoch: [f"{epoch}a", f"{epoch}b"], start_epoch=1))
    ['1a', '1b', '2a', '2b']
    """

    def __init__(self, n: int, generator_fn: Callable[..., Any], start_epoch: int = 0) -> None:
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = iter(generator_fn(start_epoch))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch + 1 >= self._n:
                    raise
            self._epoch += 1
            self._iter = iter(self._generator_fn(self._epoch))
