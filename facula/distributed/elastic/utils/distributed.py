"""Find free ports, and make the stores of launchers."""

from __future__ import annotations

import datetime
import socket
from typing import TYPE_CHECKING

from .store import barrier

if TYPE_CHECKING:
    from facula.distributed._store import TCPStore

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def get_socket_with_port() -> socket.socket:
    """Return a socket that listens on a free port of this machine, which nobody else gets until it is closed.

    >>> from torch.distributed.elastic.utils.api import get_socket_with_port
    >>> with get_socket_with_port() as held:
    ...     held.getsockname()[1] > 0
    True
    """
    return socket.create_server(("localhost", 0))


def get_free_port() -> int:
    """Return a port of this machine that is free now.

    >>> from torch.distributed.elastic.utils.distributed import get_free_port
    >>> 0 < get_free_port() < 65536
    True
    """
    with get_socket_with_port() as held:
        return held.getsockname()[1]


def create_c10d_store(
    is_server: bool, server_addr: str, server_port: int = -1, world_size: int = 1, timeout: float = 600,
    wait_for_workers: bool = True, retries: int = 3,
) -> TCPStore:  # fmt: skip
    """Return a TCPStore, which the server holds, on a free port if none is given.

    Args:
        is_server: whether this process holds it.
        server_addr, server_port: where; ValueError for -1 and several processes.
        world_size: how many use it.
        timeout: seconds.
        wait_for_workers: whether to wait until all of them are there.
        retries: how often a server looks for a free port.

    >>> from torch.distributed.elastic.utils.distributed import create_c10d_store
    >>> create_c10d_store(is_server=True, server_addr="localhost", timeout=10).host
    'localhost'
    """
    from facula.distributed import DistNetworkError, TCPStore

    if server_port == -1 and world_size > 1:
        raise ValueError(f"create_c10d_store: a port must be given for {world_size} processes, got -1")
    while True:
        port = get_free_port() if server_port == -1 else server_port
        try:
            store = TCPStore(server_addr, port, None, is_server, datetime.timedelta(seconds=timeout))
            break
        except DistNetworkError:
            retries -= 1
            if server_port != -1 or retries <= 0:
                raise
    if wait_for_workers:
        barrier(store, world_size, "_tcp_store/", timeout)
    return store
