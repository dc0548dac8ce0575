"""Let launchers join and leave: between a least and a greatest number of them meet in a TCP store, round after round.

The launcher on the store's machine keeps the list (`_Registrar`); all others only write their names and read the result.
Keys of the store, under the job's name:

    round                the round that can be joined
    joined/R             how many have come to round R; each takes the number it got
    node/R/N             who came as N: JSON of uid and address
    result/R             JSON: the uids of the round's members, in the order of their ranks, or an error
    waiting              how many want the present members to begin another round
    beat/UID, left/UID   signs of life of a launcher; its farewell
    closed               the job has ended
"""

from __future__ import annotations

import datetime
import json
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING

from ..utils import address_of, is_this_machine
from .api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)
from .hosting import connect, host

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed._store import Store

__all__ = ["DynamicRendezvous", "create_handler"]

DEFAULT_PORT = 29400
_LOOK = 0.05  # seconds between looks into the store


class _Registrar:
    """Decide who is a member of a round. It runs in the process that has the store."""

    def __init__(self, store, settings: _Settings) -> None:
        self._store, self._settings = store, settings
        self._round, self._joined = 0, 0
        self._came: dict[str, dict[Any, Any]] = {}
        self._members: list[str] = []
        self._beats: dict[str, tuple[bytes, float]] = {}
        self._opened, self._enough_since, self._waiting = time.monotonic(), None, 0
        self._next_beats = 0.0
        store.set("waiting", "0")
        store.set("round", "0")

    def step(self) -> None:
        """Look who came and who went, and close the round if it is complete."""
        self._read_arrivals()
        now = time.monotonic()
        if now >= self._next_beats:
            self._next_beats = now + min(1.0, self._settings.interval / 2)
            self._forget_the_lost(now)
        if self._is_complete(now):
            self._close()
        elif self._came and not self._members and now - self._opened > self._settings.join_timeout:
            self._give_up()
        else:
            self._publish_waiting()

    def _read_arrivals(self) -> None:
        joined = self._store.add(f"joined/{self._round}", 0)
        # A launcher takes its number before it writes its entry, so that the entry may be missing for a moment.
        while self._joined < joined and self._store.check([f"node/{self._round}/{self._joined + 1}"]):
            self._joined += 1
            node = json.loads(self._store.get(f"node/{self._round}/{self._joined}"))
            self._came[node["uid"]] = node
            self._beats.setdefault(node["uid"], (b"", time.monotonic()))

    def _forget_the_lost(self, now: float) -> None:
        for uid, (last, since) in list(self._beats.items()):
            beat = self._store.get(f"beat/{uid}") if self._store.check([f"beat/{uid}"]) else b""
            if beat != last:
                self._beats[uid] = (beat, now)
            # Time is measured here, since the entry was seen to change: clocks of machines differ.
            elif now - since > self._settings.interval * self._settings.attempts:
                del self._beats[uid]
            if self._store.check([f"left/{uid}"]):
                self._beats.pop(uid, None)
        self._came = {uid: node for uid, node in self._came.items() if uid in self._beats}

    def _is_complete(self, now: float) -> bool:
        count = len(self._came)
        if count < self._settings.min_nodes:
            self._enough_since = None
            return False
        if self._enough_since is None:
            self._enough_since = now
        living = [uid for uid in self._members if uid in self._beats]
        everybody_back = bool(living) and all(uid in self._came for uid in living)
        nobody_back = bool(living) and not any(uid in self._came for uid in living)
        if nobody_back:
            return False  # newcomers wait for the members, whose processes run
        return (
            count >= self._settings.max_nodes or everybody_back or now - self._enough_since >= self._settings.last_call
        )

    def _close(self) -> None:
        before = {uid: rank for rank, uid in enumerate(self._members)}
        order = sorted(self._came, key=lambda uid: before.get(uid, len(before)))  # stable: newcomers as they came
        self._members = order[: self._settings.max_nodes]
        number, self._round = self._round, self._round + 1
        self._joined, self._came, self._enough_since, self._opened = 0, {}, None, time.monotonic()
        self._waiting = 0
        self._store.set("waiting", "0")
        self._store.set("round", str(self._round))
        # Last, because launchers that wait for it then read the number of the next round.
        self._store.set(f"result/{number}", json.dumps({"members": self._members}))

    def _give_up(self) -> None:
        names = ", ".join(node["address"] for node in self._came.values())
        error = (
            f"rendezvous: {len(self._came)} of at least {self._settings.min_nodes} launchers came in "
            f"{self._settings.join_timeout:g} s, got {names}"
        )
        self._store.set(f"result/{self._round}", json.dumps({"error": error}))
        self._opened = time.monotonic()

    def _publish_waiting(self) -> None:
        members = set(self._members)
        lost = sum(uid not in self._beats for uid in self._members)
        back = sum(uid in members for uid in self._came)
        room = self._settings.max_nodes - len(self._members) + lost
        waiting = lost + back + min(max(room, 0), len(self._came) - back)
        if waiting != self._waiting:
            self._waiting = waiting
            self._store.set("waiting", str(waiting))


class _Settings:
    def __init__(self, params: RendezvousParameters) -> None:
        self.min_nodes, self.max_nodes = params.min_nodes, params.max_nodes
        self.join_timeout = float(params.get("join_timeout", params.get("timeout", 600)))
        self.last_call = float(params.get("last_call_timeout", 30))
        self.interval = float(params.get("keep_alive_interval", 5))
        self.attempts = int(params.get("keep_alive_max_attempt", 3))
        for name in ("join_timeout", "last_call", "interval", "attempts"):
            if getattr(self, name) < 0 or (name == "interval" and self.interval == 0):
                raise ValueError(f"DynamicRendezvous: {name} must be positive, got {getattr(self, name)}")


class DynamicRendezvous(RendezvousHandler):
    """Handle rendezvous under the name c10d: launchers can join and leave. `create_handler` makes one.

    Args:
        store: the store of the job, hosted here or connected to.
        hosted: whether it is hosted here.
        master_addr: where processes of all machines find it.
        params: the launcher's parameters.

    >>> from torch.distributed.elastic.rendezvous import RendezvousParameters
    >>> from torch.distributed.elastic.rendezvous.dynamic import DynamicRendezvous, create_handler
    >>> handler = create_handler(RendezvousParameters("c10d", "localhost:0", "job", 1, 1))
    >>> isinstance(handler, DynamicRendezvous), handler.use_agent_store
    (True, True)
    >>> handler.shutdown()
    True
    """

    def __init__(self, store: Store, hosted: bool, master_addr: str, params: RendezvousParameters) -> None:
        from facula.distributed import PrefixStore

        self._run_id, self._settings, self._hosts_store = params.run_id, _Settings(params), hosted
        self._tcp_store, self._address = store, params.local_addr or socket.gethostname()
        self._info = RendezvousStoreInfo(master_addr, store.port)
        self._uid = uuid.uuid4().hex
        self._prefix = f"facula.rendezvous/{params.run_id}"
        self._store = PrefixStore(self._prefix, store)
        self._keeper_store = PrefixStore(self._prefix, store.clone())  # a wait in one thread must not hold up the other
        self._registrar = _Registrar(self._keeper_store, self._settings) if hosted else None
        self._kick, self._ended = threading.Event(), False
        self._lost: Exception | None = None
        self._keeper = threading.Thread(target=self._keep, name="facula rendezvous", daemon=True)
        self._keeper.start()

    # ---- the thread that gives signs of life, and keeps the list

    def _keep(self) -> None:
        beats, next_beat = 0, 0.0
        try:
            while not self._ended:
                if time.monotonic() >= next_beat:
                    beats, next_beat = beats + 1, time.monotonic() + self._settings.interval
                    self._keeper_store.set(f"beat/{self._uid}", str(beats))
                if self._registrar:
                    self._registrar.step()
                self._kick.wait(_LOOK if self._registrar else self._settings.interval)
                self._kick.clear()
        except Exception as error:  # the store is gone: who uses the handler next is told
            self._lost = error

    # ---- the interface

    def get_backend(self) -> str:
        return "c10d"

    @property
    def use_agent_store(self) -> bool:
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        from facula.distributed import PrefixStore

        while True:
            self._check_open()
            number = int(self._store.get("round"))
            place = self._store.add(f"joined/{number}", 1)
            self._store.set(f"node/{number}/{place}", json.dumps({"uid": self._uid, "address": self._address}))
            self._kick.set()
            result = self._wait_for(f"result/{number}")
            if "error" in result:
                raise RendezvousTimeoutError(result["error"])
            if self._uid in result["members"]:
                break
        store = PrefixStore(f"{self._prefix}/members/{number}", self._tcp_store)
        return RendezvousInfo(store, result["members"].index(self._uid), len(result["members"]), self._info)

    def _wait_for(self, key: str) -> dict:
        """Wait in slices, in which Ctrl-C and the end of the job are noticed."""
        from facula.distributed import DistError

        while True:
            try:
                self._store.wait([key], datetime.timedelta(milliseconds=250))
                return json.loads(self._store.get(key))
            except DistError:
                self._check_open()

    def _check_open(self) -> None:
        from facula.distributed import DistError

        try:
            closed = self._store.check(["closed"])
        except DistError as error:
            self._lost = self._lost or error
        if self._lost is not None:
            raise RendezvousConnectionError(f"rendezvous: the job's store is gone: {self._lost}")
        if closed:
            raise RendezvousClosedError(f"rendezvous: the job has ended, got run id {self._run_id!r}")

    def is_closed(self) -> bool:
        return self._store.check(["closed"])

    def set_closed(self) -> None:
        self._store.set("closed", "1")

    def num_nodes_waiting(self) -> int:
        if self._lost is not None:
            raise RendezvousConnectionError(f"rendezvous: the job's store is gone: {self._lost}")
        return int(self._store.get("waiting"))

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        if self._ended:
            return True
        self._ended = True
        self._kick.set()
        self._keeper.join(5)
        try:
            self._store.set(f"left/{self._uid}", "1")
        except Exception:  # the machine of the store has left before
            return False
        return True


def create_handler(params: RendezvousParameters) -> DynamicRendezvous:
    """Return the handler for the parameters: it hosts the store if the endpoint is on this machine and nobody else has it.

    Args:
        params: RendezvousParameters, with the settings join_timeout, last_call_timeout, keep_alive_interval,
            keep_alive_max_attempt, read_timeout and is_host. RendezvousConnectionError where the store cannot be reached.

    >>> from torch.distributed.elastic.rendezvous import RendezvousParameters
    >>> from torch.distributed.elastic.rendezvous.dynamic import create_handler
    >>> handler = create_handler(RendezvousParameters("c10d", "localhost:0", "job", 1, 4, last_call_timeout=0))
    >>> handler.next_rendezvous().world_size
    1
    >>> handler.shutdown()
    True
    """
    address, port = address_of(params.endpoint or "localhost", DEFAULT_PORT)
    timeout = datetime.timedelta(seconds=float(params.get("read_timeout", 60)))
    here = params.get_as_bool("is_host")
    if here is None:
        here = is_this_machine(address, params.local_addr)
    if here:
        try:
            return DynamicRendezvous(host(address, port, timeout), True, _seen_by_others(address, params), params)
        except RendezvousConnectionError:
            if params.get_as_bool("is_host") or port == 0:
                raise  # else another launcher of this machine hosts it
    return DynamicRendezvous(connect(address, port, timeout), False, address, params)


def _seen_by_others(address: str, params: RendezvousParameters) -> str:
    """Return the address of the store for processes: that of the endpoint, by which launchers find it, too."""
    return params.local_addr or address
