"""Implement the worker that this process is: its connections, the calls that it makes, and the calls that it answers.

Policy
  - Every two workers have one connection, opened when all meet: who dies is known to all at once, by the end of it.
  - A connection is read by one thread at a time. When what came takes long, or runs code of the program, another thread goes on
    reading and the one that read it does the work: no other thread has to wake up before a call runs. So a connection is
    always read, and whoever reads sends nothing, which is why sending never waits for ever.
  - At most `num_worker_threads` calls of others run; more wait in order.
  - What has no answer (forks and deletions of RRefs) is sent by a thread for each peer, its keeper, in the order in which it
    was requested: destructors may run anywhere.
  - Who calls a worker that does not read (it is stopped) waits until its call's deadline, and no other call waits for that.

Long because connections, calls and answers share one lock and one order of ending.
"""

from __future__ import annotations

import collections
import itertools
import os
import queue
import socket
import threading
import time

from facula import _C
from facula.futures import run_callbacks

from .._errors import DistNetworkError, DistStoreError
from . import _connection, _wire
from ._answers import Answers
from ._gatherings import Gatherings
from ._kinds import (
    ACCEPT,
    BYE,
    CALL,
    COUNTED,
    DELETE,
    ERROR,
    FETCH,
    FORK,
    FORKED,
    GATHER,
    GRADIENTS,
    INVOKE,
    RELEASE,
    REMOTE,
    RESULT,
)  # fmt: skip
from ._rref import References
from ._workers import FOR_EVER, Peer, Pending, RpcFuture, Threads, WorkerInfo, raised_there


class Agent(Answers, Gatherings):
    """Make and answer the calls of one worker. `meet` connects the workers."""

    def __init__(self, name, rank, size, options, autograd):
        self.info, self.size, self.options = WorkerInfo(name, rank), size, options
        self.rank, self.timeout = rank, options.rpc_timeout
        self._autograd = autograd
        self.peers: dict[int, Peer] = {}
        self.by_name: dict[str, WorkerInfo] = {}
        self._numbers = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()
        # It shares the lock with the counters that it is about, so that a change and its notification cannot be
        # separated.
        self._calm = threading.Condition(self._lock)
        self._sent = self._received = self._active = 0  # calls
        self._next_deadline = FOR_EVER
        self._threads = Threads()
        self._free = options.num_worker_threads
        self._waiting = collections.deque()
        self._gathers: dict[tuple, dict] = {}
        self._gathered = collections.Counter()
        # One thread for each worker sends messages without an answer. SimpleQueue.put may be called from a destructor,
        # which must not block on a connection.
        self._keepers: dict[int, queue.SimpleQueue] = {}
        self._clock = queue.SimpleQueue()
        self._closed = False
        self._listener = None
        self._places: dict[str, dict[str, str]] = {}  # by worker, the devices that tensors of devices of this one go to
        self.references = References(self)
        self._handlers = {
            CALL: self._on_call, REMOTE: self._on_remote, INVOKE: self._on_invoke, FETCH: self._on_fetch,
            GRADIENTS: self._on_gradients, GATHER: self._on_gather, RESULT: self._on_result, ERROR: self._on_result,
            FORK: self.references.on_fork, FORKED: self.references.on_forked, ACCEPT: self.references.on_accept,
            DELETE: self.references.on_delete, RELEASE: self._on_release, BYE: self._on_bye,
        }  # fmt: skip
        self._add_keeper(rank)
        threading.Thread(target=self._watch_deadlines, name="rpc clock", daemon=True).start()

    # ---- meeting

    def meet(self, store, host, timeout):
        """Wait for all workers and connect to them. `host` is where the store is, if that is known."""
        name = socket.gethostname()
        store.set(f"host{self.rank}", name)
        if host is None:
            names = self._of_all(store, "host")
            host = "127.0.0.1" if len(set(names)) == 1 else socket.gethostbyname(name)
        key = _connection.key_of(store, self.rank)
        came, arrivals = threading.Condition(), {}

        def arrived(rank, connection):
            with came:
                # Lower ranks are connected to from here, and higher ones connect, so that every pair has exactly one
                # connection.
                if rank in arrivals or not self.rank < rank < self.size:
                    connection.close()
                    return
                arrivals[rank] = connection
                came.notify_all()

        self._listener = _connection.Listener(_connection.address_towards(host), key, self.rank, arrived)
        place = f"{self.info.name}\n{name}\n{os.getpid()}\n{self._listener.address}\n{self._listener.port}"
        store.set(f"worker{self.rank}", place)
        # All names are known before the first connection, because a peer may call as soon as it is connected.
        self._learn_names(places := [p.decode().split("\n") for p in self._of_all(store, "worker")])
        for rank in range(self.rank):
            _, _, _, address, port = places[rank]
            self._connect(rank, _connection.open_to(address, int(port), key, self.rank, rank, timeout))
        with came:
            if not came.wait_for(lambda: len(arrivals) == self.size - 1 - self.rank, timeout):
                missing = [r for r in range(self.rank + 1, self.size) if r not in arrivals]
                raise DistNetworkError(f"init_rpc: ranks {missing} did not connect within {timeout:g} s")
            for rank, connection in arrivals.items():
                self._connect(rank, connection)
        for peer in self.peers.values():
            self._threads.start(self._serve, peer)
        maps = {to: {str(a): str(b) for a, b in places.items()} for to, places in self.options.device_maps.items()}
        maps = self.gather("meet", maps, timeout)  # nobody returns before everybody can be called
        self._learn_device_maps(maps)

    def _of_all(self, store, what):
        keys = [f"{what}{r}" for r in range(self.size)]
        try:
            return store.multi_get(keys)
        except DistStoreError:
            missing = [r for r, key in enumerate(keys) if not store.check([key])]
            came = f"{self.size - len(missing)} of {self.size} workers came within {store.timeout.total_seconds():g} s"
            raise DistStoreError(f"init_rpc: {came}, missing: ranks {', '.join(map(str, missing))}") from None

    def alone(self):
        """Know the names of one worker that is alone."""
        self.by_name[self.info.name] = self.info

    def _learn_names(self, places):
        for rank, (name, host, pid, *_) in enumerate(places):
            if name in self.by_name:
                other = self.by_name[name].id
                raise RuntimeError(f"init_rpc: every worker has a name of its own, ranks {other} and {rank} are both {name!r}")
            info = self.info if rank == self.rank else WorkerInfo(name, rank)
            self.by_name[name] = info
            if rank != self.rank:
                self.peers[rank] = Peer(info, host, pid)
                self._add_keeper(rank)

    def _learn_device_maps(self, maps):
        """Let answers go back the way that tensors came, where this worker's own options do not say where they go."""
        unknown = sorted({to for places in maps.values() for to in places} - set(maps))
        if unknown:
            raise ValueError(f"init_rpc: device maps are for workers {', '.join(maps)}, got one for {unknown[0]!r}")
        self._places = {name: {here: there for there, here in m.get(self.info.name, {}).items()} for name, m in maps.items()}
        for to, places in maps[self.info.name].items():
            self._places[to].update(places)

    def _connect(self, rank, connected):
        self.peers[rank].connection = _connection.Connection(connected, rank)

    # ---- making calls

    def worker(self, to, what="get_worker_info"):
        """Return the WorkerInfo of a name, a rank or a WorkerInfo."""
        if isinstance(to, WorkerInfo):
            to = to.id
        if isinstance(to, str):
            found = self.by_name.get(to)
            if found is None:
                raise RuntimeError(f"{what}: a worker's name must be {_C._one_of(to, self.by_name)}")
            return found
        if isinstance(to, int) and not isinstance(to, bool):
            if to != self.rank and to not in self.peers:
                raise RuntimeError(f"{what}: a worker's rank is below {self.size}, got {to}")
            return self.info if to == self.rank else self.peers[to].info
        raise ValueError(f"{what}: a worker is given by its name, rank or WorkerInfo, got {to!r}")

    def call(self, to, kind, value, what, timeout=-1.0, about=None):
        """Return a future of what the worker of rank `to` answers."""
        if self._closed:
            raise RuntimeError(f"{what}: the workers have been shut down, call init_rpc again")
        future = RpcFuture()
        seconds = self.timeout if timeout is None or timeout < 0 else timeout
        # next() of an itertools.count is atomic, so that no lock is needed here.
        number = next(self._numbers)
        frame = _wire.encode(kind, number, about or {}, value, to, self, to == self.rank)
        pending = Pending(future, to, what, seconds, value)
        with self._lock:
            # The call is registered before it is sent: its answer may come before send() returns.
            self._pending[number] = pending
            self._sent += kind in COUNTED
            sooner = pending.deadline < self._next_deadline
            if sooner:
                self._next_deadline = pending.deadline
        if sooner:
            # Wake the clock only for an earlier deadline; it computes the next one itself.
            self._clock.put(None)
        self._send(to, frame, future.done)
        return future

    def _send(self, to, frame, abandoned=None):
        if to == self.rank:
            work = self._accept(self.rank, frame)
            if work is not None:
                self._threads.start(self._start, *work)
            return
        peer = self.peers[to]
        if peer.lost is None:
            try:
                if not peer.connection.send(frame, abandoned) and frame.kind in COUNTED:
                    with self._lock:
                        # The frame was never sent, and finish_together() compares the numbers of sent and received
                        # calls.
                        self._sent -= 1
                return
            except OSError as error:
                self._lose(peer, f"sending failed: {error}")
        self._fail_calls_to(peer)

    def tell(self, to, kind, about):
        """Send what has no answer, soon; may be called anywhere."""
        self._keepers[to].put(_wire.Frame(kind, 0, about))

    def _add_keeper(self, rank):
        todo = self._keepers[rank] = queue.SimpleQueue()
        threading.Thread(target=self._keep, args=(rank, todo), name="rpc keeper", daemon=True).start()

    def _keep(self, rank, todo):
        while (item := todo.get()) is not None:
            if callable(item):
                item()
            else:
                self._send(rank, item)

    def _watch_deadlines(self):
        while True:
            left = self._next_deadline - time.monotonic()
            try:
                if self._clock.get(timeout=None if left == FOR_EVER else max(0.0, left)) is False:
                    return
            except queue.Empty:
                self._look_at_deadlines()

    def _look_at_deadlines(self):
        now = time.monotonic()
        with self._lock:
            late = [n for n, p in self._pending.items() if p.deadline <= now]
            # Whoever removes a call from the table finishes it, so that an answer and a timeout cannot both do it.
            late = [self._pending.pop(n) for n in late]
            self._next_deadline = min((p.deadline for p in self._pending.values()), default=FOR_EVER)
        for pending in late:
            where = self.peers[pending.to] if pending.to != self.rank else "this worker"
            text = f"RPCErr:1: {pending.what} to {where} has no answer within its timeout of {pending.seconds:g} s"
            self._threads.start(self._finish, pending, None, RuntimeError(text))

    def _finish(self, pending, value, error):
        callbacks = pending.future._settle(value, error)
        self._calmer()
        run_callbacks(pending.future, callbacks)

    def _calmer(self):
        with self._calm:
            self._calm.notify_all()

    def get_worker_infos(self):
        """Return all workers, by rank."""
        return sorted(self.by_name.values(), key=lambda info: info.id)

    def get_debug_info(self):
        """Return numbers about this worker, as PyTorch calls them."""
        with self._lock:
            return {
                "agent.client_active_calls": str(len(self._pending)),
                "agent.server_active_calls": str(self._active),
                "agent.num_idle_threads": str(self._free),
                "agent.thread_pool_size": str(self.options.num_worker_threads),
            }

    # ---- answering

    def _serve(self, peer):
        """Read a connection until something came that takes long."""
        while True:
            try:
                frame = peer.connection.read()
                work = self._accept(peer.info.id, frame)
            except (OSError, EOFError) as error:
                self._lose(peer, "its connection ended" if isinstance(error, EOFError) else str(error))
                return
            except Exception as error:
                self._lose(peer, f"it sent what cannot be read ({type(error).__name__}: {error})")
                return
            if work is None:
                continue
            limited, call = work
            # Another thread goes on reading while this one runs the call, so that answers are read even if all calls
            # block.
            if limited and not self._take_slot(call):
                continue
            self._threads.start(self._serve, peer)
            self._work(limited, call)
            return

    def _start(self, limited, call):
        if not limited or self._take_slot(call):
            self._work(limited, call)

    def _take_slot(self, call):
        """Return whether the call may run now; it waits its turn where not."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            self._waiting.append(call)
            return False

    def _work(self, limited, call):
        while call is not None:
            call()
            call = None
            with self._lock:
                if limited and self._waiting:
                    call = self._waiting.popleft()
                else:
                    self._free += limited

    def _accept(self, source, frame):
        """Do what is quick; return what is left to do as (whether it counts as a call that runs, function), or None."""
        if frame.kind in COUNTED:
            with self._lock:
                self._received += 1
                self._active += 1
        return self._handlers[frame.kind](source, frame)

    def _on_result(self, source, frame):
        with self._lock:
            pending = self._pending.pop(frame.call, None)
        # The call has timed out or was abandoned.
        if pending is None:  # it came too late
            return None
        value = error = None
        try:
            value = _wire.decode(frame, source, self)
            if frame.kind == ERROR:
                value, error = None, raised_there(*value)
        except Exception as failure:
            error = RuntimeError(f"{pending.what}: the answer cannot be read: {type(failure).__name__}: {failure}")
        callbacks = pending.future._settle(value, error)
        self._calmer()
        if not callbacks:
            return None
        return False, lambda: run_callbacks(pending.future, callbacks)

    def _on_release(self, source, frame):
        self._autograd.released(self, frame.about["context"])

    def _on_bye(self, source, frame):
        self.peers[source].said_bye.set()

    # ---- what messages carry for autograd and devices

    def record_sent(self, tensors, to, about):
        return self._autograd.record_sent(self, tensors, to, about)

    def record_received(self, tensors, source, about):
        return self._autograd.record_received(self, tensors, source, about)

    def device_there(self, to, device):
        """Return the device of the worker `to` for tensors of `device`."""
        name = self.info.name if to == self.rank else self.peers[to].info.name
        places = self._places.get(name, {})
        if str(device) not in places:
            text = "tensors of the CPU are sent; for those of a GPU the options need a device map"
            raise RuntimeError(f"rpc: {text} from {device} for worker {name!r}, got {places or 'none'}")
        return places[str(device)]

    # ---- when workers go

    def _lose(self, peer, reason):
        with self._lock:
            if peer.lost is not None:
                return
            peer.lost = "it was shut down" if peer.said_bye.is_set() else reason
        peer.said_bye.set()  # nobody waits for it any longer
        peer.connection.close()
        self._fail_calls_to(peer)
        self.references.lost(peer.info.id)
        self._look_at_gathers()

    def _fail_calls_to(self, peer):
        with self._lock:
            calls = [n for n, p in self._pending.items() if p.to == peer.info.id]
            calls = [self._pending.pop(n) for n in calls]
        for pending in calls:
            error = DistNetworkError(f"{pending.what} to {peer}: the worker is gone: {peer.lost}")
            self._threads.start(self._finish, pending, None, error)

    def wait_until_calm(self, deadline):
        """Wait until this worker has neither calls without an answer nor calls to answer."""
        with self._calm:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._calm.wait_for(lambda: not self._active and not self._pending, left):
                calls = sorted({p.what for p in self._pending.values()})
                raise RuntimeError(f"shutdown: calls did not end in time: {self._active} of others, {calls} of this worker")
            return self._sent, self._received

    def finish_together(self, timeout):
        """Wait until no worker has anything to do: twice the same numbers of calls everywhere, all of them answered."""
        deadline = time.monotonic() + timeout if timeout else None
        before = None
        while True:
            mine = self.wait_until_calm(deadline)
            counts = self.gather("shutdown", mine, timeout).values()
            total = tuple(map(sum, zip(*counts)))
            # Equal sums in one round are not enough: a call may start another one after its worker was counted.
            if total[0] == total[1] and total == before:
                return
            before = total

    def close(self, graceful):
        """Say goodbye and close everything. What is called later fails."""
        self._closed = True
        self.references.close()
        connected = {rank: peer for rank, peer in self.peers.items() if peer.connection is not None}
        said = {rank: threading.Event() for rank in connected}
        for rank in connected:
            self.tell(rank, BYE, None)
            self._keepers[rank].put(said[rank].set)
        # A peer that hangs must not keep this worker from closing.
        until = time.monotonic() + 5
        for rank, peer in connected.items():
            said[rank].wait(max(0, until - time.monotonic()))
            if graceful:
                peer.said_bye.wait(max(0, until - time.monotonic()))
        self.drop()
        self._threads.end()

    def drop(self):
        """Close the connections, without a word."""
        self._closed = True
        self._clock.put(False)
        for todo in self._keepers.values():
            todo.put(None)
        if self._listener is not None:
            self._listener.close()
        for peer in self.peers.values():
            if peer.connection is not None:
                peer.lost = peer.lost or "this worker was shut down"
                peer.connection.close()

    def leave_to_parent(self):
        """Leave the connections to the parent, in a forked child: one that stays open there would hide the parent's death."""
        self._closed = True
        sockets = [peer.connection.socket for peer in self.peers.values() if peer.connection is not None]
        for one in [*sockets, *([self._listener.socket] if self._listener is not None else [])]:
            one.close()
