"""Connect launchers whose number and ranks are given on their command lines; the first one hosts the store."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING

from ..utils import address_of
from .api import RendezvousHandler, RendezvousInfo, RendezvousParameters, RendezvousStoreInfo, RendezvousTimeoutError
from .hosting import connect, host

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

__all__ = ["StaticRendezvous", "create_rdzv_handler"]

DEFAULT_PORT = 29500


class StaticRendezvous(RendezvousHandler):
    """Handle the rendezvous of launchers that know each other.

    Args:
        master_addr, master_port: where the store is, on the machine of rank 0.
        rank: this launcher's.
        world_size: how many launchers there are.
        run_id: the job's name.
        timeout: seconds to wait for the store.

    >>> from torch.distributed.elastic.rendezvous.static import StaticRendezvous
    >>> handler = StaticRendezvous("localhost", 0, rank=0, world_size=1, run_id="job", timeout=10)
    >>> handler.next_rendezvous().rank, handler.num_nodes_waiting()
    (0, 0)
    >>> handler.shutdown()
    True
    """

    master_addr: str
    rank: int
    world_size: int
    run_id: str

    def __init__(self, master_addr: str, master_port: int, rank: int, world_size: int, run_id: str, timeout: int) -> None:
        self.master_addr, self.master_port = master_addr, master_port
        self.rank, self.world_size, self.run_id = rank, world_size, run_id
        self.timeout: timedelta = datetime.timedelta(seconds=timeout)
        self._store, self._arrivals, self._round = None, None, -1

    def get_backend(self) -> str:
        return "static"

    @property
    def use_agent_store(self) -> bool:
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        from facula.distributed import PrefixStore

        if self._store is None:
            make = host if self.rank == 0 else connect
            self._store = make(self.master_addr, self.master_port, self.timeout)
            self.master_port: Any = self._store.port
            self._arrivals = PrefixStore(f"facula.rendezvous/{self.run_id}", self._store)
        self._round = (self._arrivals.add("arrivals", 1) - 1) // self.world_size
        self._wait_for_others()
        info = RendezvousStoreInfo(self.master_addr, self.master_port)
        store = PrefixStore(f"facula.rendezvous/{self.run_id}/{self._round}", self._store)
        return RendezvousInfo(store, self.rank, self.world_size, info)

    def _wait_for_others(self) -> None:
        deadline = time.monotonic() + self.timeout.total_seconds()
        while (came := self._arrivals.add("arrivals", 0)) < self.world_size * (self._round + 1):
            if time.monotonic() > deadline:
                raise RendezvousTimeoutError(
                    f"rendezvous: {self.world_size} launchers were expected at {self.master_addr}:{self.master_port} within "
                    f"{self.timeout.total_seconds():g} s, got {came - self.world_size * self._round}"
                )
            time.sleep(0.02)

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        """Do nothing: nobody else can come."""

    def num_nodes_waiting(self) -> int:
        """Return how many launchers have begun the next round, after a failure there."""
        if self.world_size == 1:
            return 0
        return max(0, self._arrivals.add("arrivals", 0) - self.world_size * (self._round + 1))

    def get_run_id(self) -> str:
        return self.run_id

    def shutdown(self) -> bool:
        self._store = self._arrivals = None
        return True


def create_rdzv_handler(params: RendezvousParameters) -> StaticRendezvous:
    """Return the handler for the parameters.

    Args:
        params: RendezvousParameters, with the settings rank and timeout. ValueError without an endpoint or a rank.

    >>> from torch.distributed.elastic.rendezvous import RendezvousParameters
    >>> from torch.distributed.elastic.rendezvous.static import create_rdzv_handler
    >>> create_rdzv_handler(RendezvousParameters("static", "node0", "job", 2, 2, rank=1)).master_port
    29500
    """
    if "rank" not in params.config:
        raise ValueError("StaticRendezvous: the launcher's rank must be given (--node-rank), got none")
    address, port = address_of(params.endpoint, DEFAULT_PORT)
    if not address:
        raise ValueError(f"StaticRendezvous: the endpoint must be host:port, got {params.endpoint!r}")
    return StaticRendezvous(
        address, port, int(params.config["rank"]), params.max_nodes, params.run_id, params.get_as_int("timeout", 900) or 900
    )
