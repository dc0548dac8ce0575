"""Implement the worker process of a DataLoader, and the functions that code inside one can call."""

from __future__ import annotations

import os
import queue
import random
import select
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import facula
from facula._serialization.rebuild import ExceptionWrapper

from . import channel as _channel
from .fetch import _DatasetKind

if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True)
class WorkerInfo:
    """Hold the result of `get_worker_info`.

    Attributes:
        id: the number of this worker, from 0.
        num_workers: the number of workers.
        seed: the seed of `random` and Facula; in a thread, `rng`.
        dataset: this process's copy of the dataset; of threads, the one that all share.
        rng: None in a process; in a thread its own generators, as `random` and Facula's are those of the whole process.
        worker_method: "multiprocessing" or "thread".
    """

    id: int
    num_workers: int
    seed: int
    dataset: object
    rng: object = None
    worker_method: str = "multiprocessing"


@dataclass(frozen=True)
class _RNG:
    """Hold the random generators of one worker thread, which has a seed of its own.

    Attributes:
        random_generator: a random.Random.
        torch_generator: a facula.Generator.
        numpy_generator: a NumPy Generator; None without NumPy.
    """

    random_generator: random.Random
    torch_generator: facula.Generator
    numpy_generator: object = None


_worker_info = None  # of a process
_of_thread = threading.local()


def get_worker_info() -> Any:
    """Return what a dataset can know of the worker that reads it: its number ``id``, ``num_workers``, ``seed``, ``dataset``.

    Returns: a WorkerInfo; None outside of workers of a DataLoader.

    >>> torch.utils.data.get_worker_info() is None
    True
    """
    return getattr(_of_thread, "info", _worker_info)


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """Report, in the place of a batch, that the stream of this worker has ended."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """Announce a new epoch to a persistent worker, which sends the object back when it is ready."""

    seed: int | None = None


def _generate_state(base_seed, worker_id):
    """Return four 32-bit words that seed numpy's global generator in a worker, unlike those of any other worker."""
    import numpy

    mask = 0xFFFFFFFF
    sequence = numpy.random.SeedSequence([worker_id, base_seed & mask, base_seed >> 32 & mask, 0])
    return [int(word) for word in sequence.generate_state(4)]


def _seed_everything(base_seed, worker_id):
    seed = base_seed + worker_id
    random.seed(seed)
    facula.manual_seed(seed)
    try:
        import numpy
    except ImportError:
        return seed
    numpy.random.seed(_generate_state(base_seed, worker_id))
    return seed


def _generators(base_seed, worker_id):
    """Return what a thread has in the place of seeded global generators."""
    seed = base_seed + worker_id
    drawn = facula.Generator()
    drawn.manual_seed(seed)
    try:
        import numpy
    except ImportError:
        return _RNG(random.Random(seed), drawn)
    return _RNG(random.Random(seed), drawn, numpy.random.default_rng(_generate_state(base_seed, worker_id)))


class _Sender:
    """Send batches from a thread of its own, so that the worker fetches the next one meanwhile.

    This also lets the worker read its requests all the time, so that the worker and its parent never both wait to
    write.
    """

    def __init__(self, channel):
        self._channel = channel
        self._waiting = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, obj, where):
        """Pack `obj` here, where a failure can still be reported, and send it."""
        try:
            packed = _channel.pack(obj)
        except Exception:
            # An object that cannot be pickled is reported in the place of its batch.
            packed = _channel.pack((obj[0], ExceptionWrapper(where=where)))
        self._waiting.put((obj[0], where, packed))

    def _run(self):
        while True:
            number, where, packed = self._waiting.get()
            try:
                self._send(number, where, packed)
            except OSError:
                return  # the parent has closed its end: it wants nothing more

    def _send(self, number, where, packed):
        """Send a batch; where there is no file for it, since descriptors or memory have run out, send the failure."""
        try:
            self._channel.send_packed(packed)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except OSError as error:
            if _channel.ran_out(error):
                error = RuntimeError(_channel.describe_ran_out("the worker"))
            self._channel.send((number, ExceptionWrapper((type(error), error, error.__traceback__), where)))


class _Requests:
    """Yield the indices that the parent sends, until the parent closes its end or dies."""

    def __init__(self, channel, check_interval):
        self._channel = channel
        # poll() takes milliseconds.
        self._interval = check_interval * 1000
        self._parent = os.getppid()
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)

    def __iter__(self):
        while True:
            # a copy of the socket in some other process would hide that the parent is gone: look now and then
            while not self._poll.poll(self._interval):
                if os.getppid() != self._parent:
                    return
            try:
                request = self._channel.receive()
            except (EOFError, OSError):
                return
            if request is None:
                return
            yield request


def _worker_loop(
    dataset_kind,
    dataset,
    connection,
    inherited,
    auto_collation,
    collate_fn,
    drop_last,
    base_seed,
    init_fn,
    worker_id,
    num_workers,
    persistent_workers,
):
    """Run worker `worker_id`: its main function.

    Args:
        connection: the socket to the parent.
        inherited: sockets of the parent that a forked child must close.
    """
    for other in inherited:
        other.close()
    try:
        # Workers run side by side, so more threads in each would only compete for the processors.
        facula.set_num_threads(1)
        seed = _seed_everything(base_seed, worker_id)
        global _worker_info
        _worker_info = WorkerInfo(worker_id, num_workers, seed, dataset)
        where = f"in DataLoader worker process {worker_id}"
        channel = _channel.Channel(connection)
        _serve(
            _Fetching(
                dataset_kind, dataset, auto_collation, collate_fn, drop_last, init_fn, worker_id, where
            ),
            channel,
        )
    except KeyboardInterrupt:
        sys.exit(0)  # the parent was interrupted too, and tells the user


def _serve(fetching, channel):
    sender = _Sender(channel)
    for request in _Requests(channel, facula.utils.data._utils.MP_STATUS_CHECK_INTERVAL):
        if isinstance(request, _ResumeIteration):
            fetching.restart()
            sender.send((request, None), fetching.where)
        elif not fetching.ended:
            number, index = request
            sender.send((number, fetching.fetch(index)), fetching.where)


class _Fetching:
    """Fetch batches; a failure becomes an ExceptionWrapper, and the end of a stream becomes its marker."""

    def __init__(
        self, dataset_kind, dataset, auto_collation, collate_fn, drop_last, init_fn, worker_id, where
    ):
        self._parts = dataset_kind, dataset, auto_collation, collate_fn, drop_last
        self._worker_id = worker_id
        self.where = where
        self.ended = False
        self._failure = self._drawn = None
        try:
            if init_fn is not None:
                init_fn(worker_id)
        except Exception:
            self._failure = ExceptionWrapper(where=where)
        else:
            self._drawn = self._part_of_pipes(dataset)
            self.restart()

    @staticmethod
    def _part_of_pipes(dataset):
        """Tell data pipes which part of the stream is this worker's; return the generator of their seeds, None for other
        datasets."""
        if not hasattr(type(dataset), "register_datapipe_as_function"):
            return None
        from ..datapipes.iter.sharding import SHARDING_PRIORITIES
        from ..graph_settings import apply_sharding

        info = get_worker_info()
        apply_sharding(dataset, info.num_workers, info.id, SHARDING_PRIORITIES.MULTIPROCESSING)
        return facula.Generator().manual_seed(info.seed - info.id)  # all workers draw one order

    def restart(self):
        """Begin the dataset anew."""
        self.ended = False
        try:
            if self._drawn is not None:
                from ..graph_settings import apply_random_seed

                apply_random_seed(self._parts[1], self._drawn)
            self._fetcher = _DatasetKind.create_fetcher(*self._parts)
        except Exception:
            self._failure = ExceptionWrapper(where=self.where)

    def fetch(self, index):
        """Return the batch for `index`."""
        if self._failure is not None:
            # The failure is reported once; the parent raises it and sends no more requests.
            failure, self._failure = self._failure, None
            return failure
        try:
            return self._fetcher.fetch(index)
        except StopIteration:
            if self._parts[0] != _DatasetKind.Iterable:
                return ExceptionWrapper(where=self.where)
            self.ended = True
            return _IterableDatasetStopIteration(self._worker_id)
        except Exception:
            return ExceptionWrapper(where=self.where)
