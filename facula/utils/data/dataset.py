"""Define datasets by index (`Dataset`) or as a stream (`IterableDataset`), and combinations of them."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

import facula

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Sized
    from typing import Any

    from facula import Generator, Tensor

__all__ = [
    "Dataset",
    "IterableDataset",
    "TensorDataset",
    "StackDataset",
    "ConcatDataset",
    "ChainDataset",
    "Subset",
    "random_split",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Provide samples by index. A subclass defines `__getitem__(index)`, and `__len__` for most samplers.

    It may also define `__getitems__(indices)`, which fetches a whole batch at once as a list of samples. ``+`` joins two
    datasets.

    Errors: NotImplementedError where a subclass without `__getitem__` is indexed.

    >>> class Squares(torch.utils.data.Dataset):
    ...     def __getitem__(self, index):
    ...         return index * index
    ...     def __len__(self):
    ...         return 4
    >>> data = Squares() + Squares()
    >>> len(data), data[3], data[5]
    (8, 9, 1)
    """

    def __getitem__(self, index: int) -> _T_co:
        raise NotImplementedError(f"{type(self).__name__}: a Dataset subclass defines __getitem__")

    if TYPE_CHECKING:  # Python's, by __getitem__

        def __iter__(self) -> Iterator[_T_co]: ...

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Provide samples as a stream: a subclass defines `__iter__`.

    With several workers each iterates its own copy; `get_worker_info()` says which part to yield.

    >>> class Countdown(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> [batch.tolist() for batch in torch.utils.data.DataLoader(Countdown(), batch_size=2)]
    [[3, 2], [1]]
    """

    def __add__(self, other: Dataset[Any]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset["tuple[Tensor, ...]"]):
    """Combine tensors: sample i is the tuple of ``tensor[i]`` for each tensor.

    Args:
        tensors: tensors (N, ...) with the same N.

    Shapes: for tensors (N, ...), a sample has tensors (...).

    Errors: AssertionError for first dimensions that differ.

    >>> data = torch.utils.data.TensorDataset(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([0, 1]))
    >>> len(data), data[1]
    (2, (tensor([3., 4.]), tensor(1)))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError(
                f"TensorDataset: tensors differ in their first dimension: {[tuple(t.shape) for t in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset["Any"]):
    """Combine datasets: sample i is the tuple, or for keyword arguments the dict, of sample i of each dataset.

    Args:
        args: datasets of one length, for tuples.
        kwargs: datasets of one length, for dicts. Give one kind.

    Errors: ValueError for datasets of different lengths, for both kinds of arguments and for none.

    >>> data = torch.utils.data.StackDataset(image=[10, 20], label=["a", "b"])
    >>> data[1]
    {'image': 20, 'label': 'b'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("StackDataset: give datasets either by position or by keyword, got both")
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed, got none")
        self.datasets: Any = args or kwargs
        lengths = [len(dataset) for dataset in self._each()]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset: Size mismatch between datasets, got lengths {lengths}")
        self._length = lengths[0]

    def _each(self):
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def __getitem__(self, index: int) -> dict[str, int | str]:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[int, str]]:
        columns = [_fetch_many(dataset, indices) for dataset in self._each()]
        if isinstance(self.datasets, dict):
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*columns))

    def __len__(self) -> int:
        return self._length


def _fetch_many(dataset, indices):
    """Return the samples at `indices`, fetched at once where the dataset can."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    samples = dataset.__getitems__(indices)
    if len(samples) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__: gave {len(samples)} samples for {len(indices)} indices"
        )
    return samples


class ConcatDataset(Dataset[_T_co]):
    """Join datasets, one after another.

    Args:
        datasets: an iterable of datasets with lengths; at least one, and none that is an IterableDataset.

    Errors: AssertionError for no dataset, and for a stream; ValueError or IndexError for an index outside.

    >>> data = torch.utils.data.ConcatDataset([[1, 2], [3]])
    >>> len(data), data[2], data[-3]
    (3, 3, 1)
    """

    @staticmethod
    def cumsum(sequence: Iterable[Sized]) -> list[int]:
        """Return the lengths of the datasets, added up.

        Args:
            sequence: the datasets.

        >>> torch.utils.data.ConcatDataset.cumsum([[1, 2], [3]])
        [2, 3]
        """
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __init__(self, datasets: Iterable[Dataset[Any] | Sequence[Any]]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: needs at least one dataset, got none")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset: does not support IterableDataset (use ChainDataset)")
        self.cumulative_sizes: list[int] = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> int:
        if idx < 0:
            if -idx > len(self):
                raise ValueError(f"ConcatDataset: index {idx} is out of range for length {len(self)}")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """Older spelling of cumulative_sizes."""
        warnings.warn(
            "ConcatDataset: cummulative_sizes is spelt cumulative_sizes", DeprecationWarning, stacklevel=2
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset["Any"]):
    """Join streams, one after another.

    Args:
        datasets: an iterable of IterableDatasets.

    Errors: AssertionError, once it is iterated, for a dataset that is no stream.

    >>> class Letters(torch.utils.data.IterableDataset):
    ...     def __init__(self, text):
    ...         self.text = text
    ...     def __iter__(self):
    ...         return iter(self.text)
    >>> list(torch.utils.data.ChainDataset([Letters("ab"), Letters("c")]))
    ['a', 'b', 'c']
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def _checked(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ChainDataset: only supports IterableDataset, got {type(dataset).__name__}"
                )
            yield dataset

    def __iter__(self) -> Iterator[int]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[_T_co]):
    """Select the samples of `dataset` at `indices`.

    Args:
        dataset: the dataset, which is not copied.
        indices: a sequence of indices of the dataset.

    Errors: those of the dataset; IndexError for an index outside of indices.

    >>> data = torch.utils.data.Subset(["a", "b", "c"], [2, 0])
    >>> len(data), data[0]
    (2, 'c')
    """

    def __init__(self, dataset: Dataset[_T_co] | Sequence[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return _fetch_many(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[_T] | Sequence[_T], lengths: Sequence[float],
                 generator: Generator | None = None) -> list[Subset[_T]]:  # fmt: skip
    """Split `dataset` at random into Subsets of the given lengths, or of fractions that sum to 1.

    With fractions, floor(len * fraction) samples go to each and what is left over goes round one by one.

    Args:
        dataset: a dataset with a length.
        lengths: the lengths, which sum to that of the dataset, or the fractions.
        generator: the generator of the order. Default: the default generator.

    Returns: a list of Subsets.

    Errors: ValueError for lengths that do not sum to the dataset's, and for fractions outside 0 to 1.

    >>> generator = torch.Generator().manual_seed(0)
    >>> train, test = torch.utils.data.random_split(range(10), [0.7, 0.3], generator=generator)
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (7, 3, True)
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError(
            f"random_split: lengths {list(lengths)} do not sum to the dataset's length {len(dataset)}"
        )
    options = {} if generator is None else {"generator": generator}
    indices = facula.randperm(sum(lengths), **options).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[end - length : end]) for end, length in zip(ends, lengths)]


def _lengths_of_fractions(total, fractions):
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"random_split: fraction {fraction} at index {i} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(f"random_split: split {i} is empty", stacklevel=3)
    return lengths
