"""The DataLoader iterator that has worker processes fetch ahead.

Each worker has a socket of its own: requests (batch number, indices) go one way, (batch number, batch) come
back. Nothing is shared between workers, so one that is killed leaves no lock held; its end closes and is seen
at once.
"""

import itertools
import multiprocessing
import os
import queue
import select
import signal
import time

import facula
from facula._utils import ExceptionWrapper

from . import _utils, dataloader
from ._utils.channel import Channel
from ._utils.worker import _IterableDatasetStopIteration, _ResumeIteration, _worker_loop

_GRACE = 5.0  # seconds that a worker gets to finish its sample when the iterator is closed


class _Worker:
    """The parent's side of one worker process."""

    def __init__(self, number, process, channel):
        self.number, self.process, self.channel = number, process, channel
        self.active = True  # has a stream to give from; always so for datasets by index


class _MultiProcessingDataLoaderIter(dataloader._BaseDataLoaderIter):
    def __init__(self, loader):
        self._shutdown = True  # nothing to end yet
        super().__init__(loader)
        if loader.prefetch_factor < 1:
            raise AssertionError(
                f"DataLoader: prefetch_factor must be greater than 0 with workers, got {loader.prefetch_factor}"
            )
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._shutdown = False
        self._owner = os.getpid()
        self._workers_status = []
        self._poll = select.poll()
        self._by_descriptor = {}
        self._pinning = None
        context = loader.multiprocessing_context or multiprocessing.get_context()
        try:
            for number in range(self._num_workers):
                self._start(context, number, loader.worker_init_fn)
            if self._pin_memory:
                self._start_pinning()
        except BaseException:
            self._shutdown_workers()
            raise
        self._reset(loader, first_iter=True)

    @property
    def _workers(self):
        """The worker processes."""
        return [worker.process for worker in self._workers_status]

    def _start(self, context, number, init_fn):
        here, there = Channel.pair()
        forked = context.get_start_method() == "fork"
        inherited = [w.channel.socket for w in self._workers_status] + [here.socket] if forked else []
        process = context.Process(
            target=_worker_loop,
            args=(
                self._dataset_kind,
                self._dataset,
                there.socket,
                inherited,
                self._auto_collation,
                self._collate_fn,
                self._drop_last,
                self._base_seed,
                init_fn,
                number,
                self._num_workers,
                self._persistent_workers,
            ),
            daemon=True,
        )
        process.start()
        there.close()
        worker = _Worker(number, process, here)
        self._workers_status.append(worker)
        self._poll.register(here.fileno(), select.POLLIN)
        self._by_descriptor[here.fileno()] = worker

    def _start_pinning(self):
        device = facula.cuda.current_device()
        keep = (_IterableDatasetStopIteration, _ResumeIteration)
        self._pinning = _utils.pin_memory.PinningThread(self._workers_status, device, keep)
        self._pinning.start()

    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
        self._send_number = 0
        self._next_number = 0
        self._outstanding = {}  # batch number -> worker
        self._arrived = {}  # batch number -> batch
        for worker in self._workers_status:
            worker.active = True
        self._turns = itertools.cycle(self._workers_status)
        if not first_iter:
            self._resume()
        for _ in range(self._prefetch_factor * self._num_workers):
            self._request_next()

    def _resume(self):
        """Tells persistent workers of the new epoch and drops what is left of the old one."""
        for worker in self._workers_status:
            worker.channel.send(_ResumeIteration())
        waiting = len(self._workers_status)
        while waiting:
            for _, (answer, _) in self._answers():
                waiting -= isinstance(answer, _ResumeIteration)

    # -- requests ---------------------------------------------------------------------------------

    def _request_next(self):
        """Gives the next indices to the worker whose turn it is."""
        worker = next(
            (w for w in itertools.islice(self._turns, self._num_workers) if self._can_take(w)), None
        )
        if worker is None:
            return
        try:
            index = self._next_index()
        except StopIteration:
            return
        self._outstanding[self._send_number] = worker
        try:
            worker.channel.send((self._send_number, index))
        except OSError:
            self._report_death(worker)
        self._send_number += 1

    def _can_take(self, worker):
        if not worker.active:
            return False
        if self._in_order:
            return True
        busy = sum(other is worker for other in self._outstanding.values())
        return busy < self._prefetch_factor

    # -- answers ----------------------------------------------------------------------------------

    def _next_data(self):
        while True:
            number = self._next_in_line()
            if number is None:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            if number not in self._arrived:
                self._wait()
                continue
            data = self._arrived.pop(number)
            if isinstance(data, _IterableDatasetStopIteration):
                continue
            self._request_next()
            if isinstance(data, ExceptionWrapper):
                data.reraise()
            return data

    def _next_in_line(self):
        """The number of the batch to give next, None when there are no more."""
        if not self._in_order and self._arrived:
            return next(iter(self._arrived))
        while self._next_number < self._send_number:
            number = self._next_number
            if number in self._arrived and self._in_order:
                self._next_number += 1
                return number
            if number in self._outstanding:
                return number
            self._next_number += 1  # given out of order, or its worker's stream had ended
        return None

    def _wait(self):
        """Takes in what has come, waiting for at least one answer."""
        deadline = time.monotonic() + self._timeout if self._timeout else None
        for worker, (number, data) in self._answers(deadline):
            self._outstanding.pop(number, None)
            if isinstance(data, _IterableDatasetStopIteration):
                self._end_stream(worker)
            else:
                self._arrived[number] = data

    def _end_stream(self, worker):
        """No more requests to a worker whose stream has ended; those it still has will not be answered."""
        worker.active = False
        for number in [n for n, other in self._outstanding.items() if other is worker]:
            del self._outstanding[number]
        self._request_next()

    def _answers(self, deadline=None):
        """What has come, at least one (worker, answer)."""
        seconds = None if deadline is None else max(0, deadline - time.monotonic())
        if self._pinning:
            return [self._pinned_answer(seconds)]
        ready = self._poll.poll(None if seconds is None else seconds * 1000)
        if not ready:
            self._report_timeout()
        workers = [self._by_descriptor[descriptor] for descriptor, _ in ready]
        return ((worker, self._receive(worker)) for worker in workers)

    def _pinned_answer(self, seconds):
        try:
            worker, answer = self._pinning.wait(seconds)
        except queue.Empty:
            self._report_timeout()
        if answer is None:
            self._report_death(worker)
        return worker, answer

    def _report_timeout(self):
        raise RuntimeError(
            f"DataLoader: no batch came within {self._timeout} seconds (timeout={self._timeout})"
        ) from None

    def _receive(self, worker):
        try:
            return worker.channel.receive()
        except (EOFError, OSError):
            self._report_death(worker)

    def _report_death(self, worker):
        worker.process.join(_GRACE)
        pid, code = worker.process.pid, worker.process.exitcode
        how = "closed its connection" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was ended by signal {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += " (is memory short?)"
        self._shutdown_workers()
        raise RuntimeError(
            f"DataLoader worker (pid(s) {pid}) exited unexpectedly: worker {worker.number} {how}"
        ) from None

    # -- the end ----------------------------------------------------------------------------------

    def _shutdown_workers(self):
        """Ends the workers: closed connections tell them, those that do not heed it are ended."""
        if self._shutdown or os.getpid() != self._owner:  # a forked child holds a copy of this object
            return
        self._shutdown = True
        if self._pinning:
            self._pinning.stop()
        for worker in self._workers_status:
            worker.channel.hang_up()
        deadline = time.monotonic() + _GRACE
        for worker in self._workers_status:
            worker.process.join(max(0.0, deadline - time.monotonic()))
        for worker in self._workers_status:
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(1)
            if worker.process.is_alive():
                worker.process.kill()

    def __del__(self):
        try:
            self._shutdown_workers()
        except (AttributeError, TypeError, ValueError):
            pass  # the interpreter is ending: nothing is left to end with
