"""Processes that meet in a store."""

from __future__ import annotations

import contextlib
import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from facula.distributed._store import Store

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]


@contextlib.contextmanager
def store_timeout(store, timeout: float):
    """A context in which a store waits that many seconds at most."""
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
    """The values of the keys `prefix` + rank, of all ranks; rank 0 leaves last, for it may hold the store."""
    found = [store.get(f"{prefix}{r}") for r in range(world_size)]
    _arrive(store, f"{prefix}finished", world_size)
    if rank == 0:
        store.wait([f"{prefix}finished/all"])
    return found


def synchronize(store: Store, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300) -> list[bytes]:
    """What all ranks give, by rank."""
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(store: Store, world_size: int, key_prefix: str, barrier_timeout: float = 300) -> None:
    """Waits until that many have called it; a prefix serves once."""
    with store_timeout(store, barrier_timeout):
        _arrive(store, f"{key_prefix}barrier", world_size)
        store.wait([f"{key_prefix}barrier/all"])
