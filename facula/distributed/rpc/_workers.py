"""Hold what a worker knows about the others and about the calls that it has made, and the threads that run calls."""

from __future__ import annotations

import queue
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from facula.futures import Future

if TYPE_CHECKING:
    from typing import Any

FOR_EVER = float("inf")


class WorkerInfo:
    """Identify a worker by its name and its rank, which is called id. Equal objects are the same worker.

    Args:
        name: its name.
        id: its rank.

    >>> torch.distributed.rpc.WorkerInfo("me", 0)
    WorkerInfo(id=0, name=me)
    """

    name: str
    id: int

    def __init__(self, name: str, id: int) -> None:
        self.name, self.id = name, id

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkerInfo) and (self.name, self.id) == (other.name, other.id)

    def __hash__(self) -> int:
        return hash((self.name, self.id))

    def __reduce__(self) -> Any:
        return WorkerInfo, (self.name, self.id)


class RpcFuture(Future):
    """Hold the result of a call once it has come."""


class Threads:
    """Run work in threads, of which there are as many as are needed at a time."""

    def __init__(self):
        self._lock, self._queue, self._idle, self._ended = threading.Lock(), queue.SimpleQueue(), 0, False

    def start(self, call, *arguments):
        with self._lock:
            # A thread is reserved under the lock, so that two calls never count on the same idle one.
            waits = self._idle > 0
            self._idle -= waits
        if waits:
            self._queue.put((call, arguments))
        else:
            threading.Thread(target=self._run, args=(call, arguments), name="rpc", daemon=True).start()

    def _run(self, call, arguments):
        while call is not None:
            try:
                call(*arguments)
            except Exception:  # a callback of the program
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            # Do not keep the arguments alive while the thread waits for work.
            call = arguments = None
            with self._lock:
                if self._ended:
                    return
                self._idle += 1
            call, arguments = self._queue.get()

    def end(self):
        with self._lock:
            self._ended = True
            for _ in range(self._idle):
                self._queue.put((None, ()))


class Pending:
    """Represent a call that has no answer yet."""

    __slots__ = ("deadline", "future", "held", "seconds", "to", "what")

    def __init__(self, future, to, what, seconds, held):
        self.future, self.to, self.what, self.seconds, self.held = future, to, what, seconds, held
        self.deadline = time.monotonic() + seconds if seconds else FOR_EVER


class Peer:
    """Hold what is known about another worker."""

    def __init__(self, info, host, pid):
        self.info, self.host, self.pid = info, host, pid
        self.connection = None
        self.lost = None  # why, once it is
        self.said_bye = threading.Event()

    def __str__(self):
        return f"worker {self.info.name!r} (rank {self.info.id}, {self.host} pid {self.pid})"


def failure_text(info, error):
    """Return what the caller is told of an exception here."""
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return f"On {info}:\n{error!r}\n{lines}"


def raised_there(kind, text):
    """Return the exception of another worker: of its class, with its text and traceback."""
    if kind is not None:
        try:
            made = kind(text)
        except Exception as error:
            text = f"{kind.__name__} cannot be made of a text ({error}); the other worker said:\n{text}"
        else:
            if isinstance(made, Exception):
                return made
    return RuntimeError(text)
