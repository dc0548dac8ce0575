"""Define the kinds of sharding, and which of them divides the parts of another."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["SHARDING_PRIORITIES"]


class SHARDING_PRIORITIES(IntEnum):
    """Name the groups of `apply_sharding`: a pipe is divided among machines first, then among workers.

    >>> torch.utils.data.datapipes.iter.sharding.SHARDING_PRIORITIES.DEFAULT.name
    'DEFAULT'
    """

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3
