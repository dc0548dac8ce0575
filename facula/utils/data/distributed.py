"""Define the sampler that gives each of several processes its own part of a dataset."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import facula

from .sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["DistributedSampler"]
_T_co = TypeVar("_T_co", covariant=True)


class DistributedSampler(Sampler[_T_co]):
    """Yield every `num_replicas`-th index, from the same shuffled order in all processes.

    Args:
        dataset: the dataset, of which only the length counts.
        num_replicas: the number of processes. Default: that of the process group.
        rank: the number of this process. Default: its rank in the process group.
        shuffle: if True, shuffle, by `seed` plus the epoch of `set_epoch`.
        seed: the seed of the order, the same in all processes.
        drop_last: if True, leave out the tail, so that all processes get equally many indices; otherwise repeat indices.

    Errors: RuntimeError without a process group where num_replicas or rank is not given, ValueError for a rank outside.

    >>> list(torch.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False) -> None:  # fmt: skip
        if num_replicas is None or rank is None:
            group = facula.distributed
            if not group.is_available():
                raise RuntimeError("DistributedSampler: no process group; give num_replicas and rank")
            num_replicas = group.get_world_size() if num_replicas is None else num_replicas
            rank = group.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"DistributedSampler: rank must be 0 to {num_replicas - 1}, got {rank}")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        if drop_last and len(dataset) % num_replicas:
            self.num_samples = math.ceil((len(dataset) - num_replicas) / num_replicas)
        else:
            self.num_samples: int = math.ceil(len(dataset) / num_replicas)
        self.total_size: Any = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = facula.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = facula.randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        if not self.drop_last:
            missing = self.total_size - count
            indices += (indices * math.ceil(missing / max(count, 1)))[:missing]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Call before each epoch, or every epoch has the same order.

        Args:
            epoch: its number, which is added to the seed.

        >>> sampler = torch.utils.data.DistributedSampler(range(8), num_replicas=1, rank=0)
        >>> first = list(sampler)
        >>> sampler.set_epoch(1)
        >>> first == list(sampler)
        False
        """
        self.epoch: int = epoch
