"""Synchronize processes by a store."""

from __future__ import annotations

import contextlib
import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from facula.distributed._store import Store

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]


@contextlib.contextmanager
def store_timeout(store: Store, timeout: float):
    """Return a context in which a store waits so long at most.

    Args:
        store: a Store.
        timeout: seconds.

    >>> from torch.distributed import HashStore
    >>> from torch.distributed.elastic.utils.store import store_timeout
    >>> store = HashStore()
    >>> with store_timeout(store, 2.0):
    ...     store.timeout.total_seconds()
    2.0
    """
    before = store.timeout
    store.set_timeout(datetime.timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def _arrive(store, key: str, world_size: int) -> None:
    if store.add(f"{key}/number", 1) == world_size:
        store.set(f"{key}/all", "1")


def get_all(store: Store, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """Return the values of the keys `prefix` + rank, of all ranks; rank 0 leaves last, for it may hold the store.

    Args:
        store: a Store.
        rank: this process's.
        prefix: the beginning of the keys.
        world_size: how many ranks there are.

    >>> from torch.distributed import HashStore
    >>> from torch.distributed.elastic.utils.store import get_all
    >>> store = HashStore()
    >>> store.set("host0", "node0")
    >>> get_all(store, rank=0, prefix="host", world_size=1)
    [b'node0']
    """
    found = [store.get(f"{prefix}{r}") for r in range(world_size)]
    _arrive(store, f"{prefix}finished", world_size)
    if rank == 0:
        store.wait([f"{prefix}finished/all"])
    return found


def synchronize(store: Store, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300) -> list[bytes]:
    """Return what all ranks give, by rank. DistStoreError where one does not in time.

    Args:
        store: a Store.
        data: bytes of this process.
        rank: this process's.
        world_size: how many ranks there are.
        key_prefix: the beginning of the keys, which serves once.
        timeout: seconds.

    >>> from torch.distributed import HashStore
    >>> from torch.distributed.elastic.utils.store import synchronize
    >>> synchronize(HashStore(), b"node0", rank=0, world_size=1, key_prefix="host")
    [b'node0']
    """
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(store: Store, world_size: int, key_prefix: str, barrier_timeout: float = 300) -> None:
    """Wait until that many have called it.

    Args:
        store: a Store.
        world_size: how many.
        key_prefix: the beginning of the keys, which serves once.
        barrier_timeout: seconds. DistStoreError when not all come in time.

    >>> from torch.distributed import HashStore
    >>> from torch.distributed.elastic.utils.store import barrier
    >>> barrier(HashStore(), world_size=1, key_prefix="all/")
    """
    with store_timeout(store, barrier_timeout):
        _arrive(store, f"{key_prefix}barrier", world_size)
        store.wait([f"{key_prefix}barrier/all"])
