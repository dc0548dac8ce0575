"""The store of a job's launchers: hosted by one of them, found by the others."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from .api import RendezvousConnectionError

if TYPE_CHECKING:
    from typing import Any

__all__ = ["connect", "host"]


def host(address: str, port: int, timeout: datetime.timedelta) -> Any:
    """A store on this machine. RendezvousConnectionError, which names who has the port, if it cannot be had."""
    from facula.distributed import DistError, TCPStore

    try:
        return TCPStore(address, port, is_master=True, timeout=timeout, wait_for_workers=False)
    except (DistError, OSError) as error:
        raise RendezvousConnectionError(f"rendezvous: the store cannot be opened at {address}:{port}: {error}") from error


def connect(address: str, port: int, timeout: datetime.timedelta) -> Any:
    """The store that another launcher hosts. RendezvousConnectionError if there is none in time."""
    from facula.distributed import DistError, TCPStore

    try:
        return TCPStore(address, port, is_master=False, timeout=timeout, wait_for_workers=False)
    except (DistError, OSError) as error:
        raise RendezvousConnectionError(f"rendezvous: no store answers at {address}:{port}: {error}") from error
