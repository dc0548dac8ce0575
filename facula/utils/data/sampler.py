"""Define samplers, which determine the order in which a DataLoader reads the samples of a dataset.

The random draws follow PyTorch's one for one, so that equal seeds give equal orders.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING, Generic, TypeVar

import facula

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from facula import Generator, Tensor

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)
_DRAWN_AT_ONCE = 32  # with replacement, indices are drawn in blocks of this many: it decides the stream


class Sampler(Generic[_T_co]):
    """Iterate over indices. A subclass defines `__iter__`, and `__len__` for ``len(loader)``.

    Args:
        data_source: accepted without effect.

    >>> class Backwards(torch.utils.data.Sampler):
    ...     def __init__(self, data):
    ...         self.data = data
    ...     def __iter__(self):
    ...         return iter(range(len(self.data) - 1, -1, -1))
    >>> [batch.tolist() for batch in torch.utils.data.DataLoader([5, 6, 7], sampler=Backwards([5, 6, 7]))]
    [[7], [6], [5]]
    """

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__}: a Sampler subclass defines __iter__")


class SequentialSampler(Sampler[int]):
    """Yield 0, 1, ..., len(data_source) - 1.

    Args:
        data_source: the dataset, of which only the length counts.

    >>> list(torch.utils.data.SequentialSampler(["a", "b", "c"]))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Yield indices in random order.

    Args:
        data_source: the dataset, of which only the length counts.
        replacement: if True, draw each index anew instead of shuffling.
        num_samples: the number of indices. Default: the length of the dataset; larger numbers start again.
        generator: the generator of the order. Default: one that is seeded from the global one.

    Errors: TypeError for a replacement that is no bool, ValueError for a num_samples that is no positive int.

    >>> sampler = torch.utils.data.RandomSampler(range(5))
    >>> len(sampler), sorted(sampler)
    (5, [0, 1, 2, 3, 4])
    """

    def __init__(self, data_source: Any, replacement: bool = False, num_samples: int | None = None,
                 generator: Generator | None = None) -> None:  # fmt: skip
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement must be a bool, got {replacement!r}")
        if not isinstance(self.num_samples, int) or self.num_samples < 0:
            raise ValueError(
                f"RandomSampler: num_samples must be an int of at least 0, got {self.num_samples!r}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives."""
        # asked anew each time: a dataset may grow
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, generator = len(self.data_source), self.generator
        if generator is None:
            generator = facula.Generator()
            generator.manual_seed(_draw_seed())
        if self.replacement:
            for _ in range(self.num_samples // _DRAWN_AT_ONCE):
                yield from _draw(n, _DRAWN_AT_ONCE, generator)
            yield from _draw(n, self.num_samples % _DRAWN_AT_ONCE, generator)
            return
        rounds = self.num_samples // n if n else 0
        for _ in range(rounds):
            yield from facula.randperm(n, generator=generator).tolist()
        # drawn even when nothing of it is used: PyTorch does, and the stream goes on from there
        yield from facula.randperm(n, generator=generator).tolist()[: self.num_samples - rounds * n]

    def __len__(self) -> int:
        return self.num_samples


def _draw_seed(generator=None):
    """Return one int64 from `generator`, or from the global one."""
    return int(facula.empty((), dtype=facula.int64).random_(generator=generator).item())


def _draw(high, count, generator):
    return facula.randint(high=high, size=(count,), dtype=facula.int64, generator=generator).tolist()


class SubsetRandomSampler(Sampler[int]):
    """Yield the given indices in random order.

    Args:
        indices: a sequence of indices.
        generator: the generator of the order. Default: the default generator.

    >>> sorted(torch.utils.data.SubsetRandomSampler([4, 2, 7]))
    [2, 4, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in facula.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Yield `num_samples` indices from 0 to len(weights) - 1, drawn by these weights.

    Args:
        weights: a sequence of numbers that are not negative, of any sum.
        num_samples: the number of indices.
        replacement: if True, an index can be drawn again; otherwise num_samples weights must be above 0.
        generator: the generator of the draws. Default: the default generator.

    Errors: ValueError for a num_samples that is no positive int, a replacement that is no bool, and weights of two dimensions.

    >>> list(torch.utils.data.WeightedRandomSampler([0.0, 1.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(self, weights: Sequence[float] | Tensor, num_samples: int, replacement: bool = True,
                 generator: Generator | None = None) -> None:  # fmt: skip
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"WeightedRandomSampler: num_samples must be a positive int, got {num_samples!r}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(f"WeightedRandomSampler: replacement must be a bool, got {replacement!r}")
        weights = facula.as_tensor(weights, dtype=facula.double)
        if weights.dim() != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights must be a sequence, got shape {tuple(weights.shape)}"
            )
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = facula.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list]):
    """Yield lists of `batch_size` indices from another sampler.

    Args:
        sampler: an iterable of indices.
        batch_size: the number of indices in a list.
        drop_last: if True, leave out a last list that is shorter.

    Errors: ValueError for a batch_size that is no positive int, and a drop_last that is no bool.

    >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"BatchSampler: batch_size must be a positive int, got {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last must be a bool, got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int | None]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
