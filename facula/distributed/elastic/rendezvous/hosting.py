"""Make the store of a job's launchers: one of them hosts it, and the others connect to it."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from .api import RendezvousConnectionError

if TYPE_CHECKING:
    from typing import Any

__all__ = ["connect", "host"]


def host(address: str, port: int, timeout: datetime.timedelta) -> Any:
    """Return a store on this machine, a TCPStore.

    Args:
        address: the address that it listens on.
        port: the port; 0 for a free one.
        timeout: how long `get` and `wait` wait, a timedelta.

    Errors: RendezvousConnectionError, which names who has the port, if it cannot be had.

    >>> from datetime import timedelta
    >>> from torch.distributed.elastic.rendezvous.hosting import connect, host
    >>> store = host("localhost", 0, timedelta(seconds=10))
    >>> store.set("key", "value")
    >>> connect("localhost", store.port, timedelta(seconds=10)).get("key")
    b'value'
    """
    from facula.distributed import DistError, TCPStore

    try:
        return TCPStore(address, port, is_master=True, timeout=timeout, wait_for_workers=False)
    except (DistError, OSError) as error:
        raise RendezvousConnectionError(f"rendezvous: the store cannot be opened at {address}:{port}: {error}") from error


def connect(address: str, port: int, timeout: datetime.timedelta) -> Any:
    """Return the store that another launcher hosts, a TCPStore.

    Args:
        address: the machine.
        port: the port.
        timeout: how long to look for it, and `get` and `wait` wait, a timedelta.

    Errors: RendezvousConnectionError if there is none in time.

    >>> from datetime import timedelta
    >>> from torch.distributed.elastic.rendezvous.hosting import connect, host
    >>> store = host("localhost", 0, timedelta(seconds=10))
    >>> connect("localhost", store.port, timedelta(seconds=10)).port == store.port
    True
    """
    from facula.distributed import DistError, TCPStore

    try:
        return TCPStore(address, port, is_master=False, timeout=timeout, wait_for_workers=False)
    except (DistError, OSError) as error:
        raise RendezvousConnectionError(f"rendezvous: no store answers at {address}:{port}: {error}") from error
