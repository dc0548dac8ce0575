"""Define a DistributedSampler that continues where other processes have stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.utils.data import DistributedSampler

if TYPE_CHECKING:
    from typing import Any

__all__ = ["ElasticDistributedSampler"]


class ElasticDistributedSampler(DistributedSampler["Any"]):
    """Yield indices from `start_index` on, shuffled by the epoch and divided among processes.

    Args:
        dataset: what is sampled. TypeError where it has no length.
        num_replicas, rank: how many processes, and which this is. Default: those of the group of all.
        start_index: where it begins; ValueError where the dataset ends before.

    >>> from torch.distributed.elastic.utils.data import ElasticDistributedSampler
    >>> sampler = ElasticDistributedSampler(range(10), num_replicas=2, rank=0, start_index=6)
    >>> len(sampler), min(sampler) >= 6
    (2, True)
    """

    def __init__(self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, start_index: int = 0) -> None:
        super().__init__(dataset=dataset, num_replicas=num_replicas, rank=rank)
        if not hasattr(dataset, "__len__"):
            raise TypeError(f"ElasticDistributedSampler: the dataset must have a length, got {type(dataset).__name__}")
        if start_index >= len(dataset):
            raise ValueError(f"ElasticDistributedSampler: start_index must be below {len(dataset)}, got {start_index}")
        self.start_index = start_index
        self.num_samples: Any = -(-(len(dataset) - start_index) // self.num_replicas)
        self.total_size: Any = self.num_samples * self.num_replicas

    def __iter__(self) -> Any:
        generator = facula.Generator().manual_seed(self.epoch)
        order = facula.randperm(len(self.dataset) - self.start_index, generator=generator).add(self.start_index).tolist()
        order += order[: self.total_size - len(order)]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
