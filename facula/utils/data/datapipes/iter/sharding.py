"""The kinds of sharding: which parts are parts of others."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["SHARDING_PRIORITIES"]


class SHARDING_PRIORITIES(IntEnum):
    """Groups of `apply_sharding`: a pipe is shared out between machines first, between workers then.

    >>> torch.utils.data.datapipes.iter.sharding.SHARDING_PRIORITIES.DEFAULT.name
    'DEFAULT'
    """

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3
