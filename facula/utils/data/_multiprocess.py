"""Define the DataLoader iterator whose worker processes fetch ahead.

Each worker has a socket of its own: requests (batch number, indices) go one way, (batch number, batch) come
back. Nothing is shared between workers, so one that is killed leaves no lock held; its end closes and is seen
at once.
"""

import multiprocessing
import os
import queue
import select
import signal
import time

import facula

from . import _utils
from ._prefetch import GRACE, _PrefetchingDataLoaderIter
from ._utils.channel import Channel, describe_ran_out, ran_out
from ._utils.worker import _IterableDatasetStopIteration, _ResumeIteration, _worker_loop

#: why workers are often ended by a signal
_REASONS = {
    signal.SIGKILL: " (is memory short? fewer workers, or a smaller prefetch_factor, need less)",
    signal.SIGBUS: " (is shared memory full? `df -h /dev/shm` shows it; fewer workers need less)",
    signal.SIGSEGV: " (compiled code of the dataset failed; num_workers=0 runs it in this process)",
}


class _Worker:
    """Hold the parent's side of one worker process."""

    def __init__(self, number, process, channel):
        self.number, self.process, self.channel = number, process, channel
        self.active = True  # has a stream to give from; always so for datasets by index


class _MultiProcessingDataLoaderIter(_PrefetchingDataLoaderIter):
    def _start_workers(self, loader):
        # A forked child inherits this iterator; only the process that made it may end the workers.
        self._owner = os.getpid()
        self._poll = select.poll()
        self._by_descriptor = {}
        self._pinning = None
        context = loader.multiprocessing_context or multiprocessing.get_context()
        try:
            for number in range(self._num_workers):
                self._start(context, number, loader.worker_init_fn)
        except OSError as error:
            if ran_out(error):
                raise RuntimeError(describe_ran_out("this process")) from error
            raise
        if self._pin_memory:
            self._start_pinning()

    @property
    def _workers(self):
        """The worker processes."""
        return [worker.process for worker in self._workers_status]

    def _start(self, context, number, init_fn):
        here, there = Channel.pair()
        forked = context.get_start_method() == "fork"
        # A forked worker closes the descriptors of its siblings: as long as it held a copy, they would not see the
        # parent's end.
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
        try:
            process.start()
        except BaseException:  # what does not go through a pickle, where workers are not forked
            here.close()
            self._shutdown_workers()
            raise
        finally:
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

    # -- answers ----------------------------------------------------------------------------------

    def _answers(self, deadline=None):
        """Return what has come, at least one (worker, answer)."""
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
        if isinstance(answer, OSError):
            self._report_failure(worker, answer)
        return worker, answer

    def _receive(self, worker):
        try:
            return worker.channel.receive()
        except (EOFError, OSError) as error:
            self._report_failure(worker, error)

    def _report_failure(self, worker, error):
        """Raise for a connection that failed: this process has no descriptor for a batch, or the worker has died."""
        if isinstance(error, OSError) and ran_out(error):
            self._shutdown_workers()
            raise RuntimeError(describe_ran_out("this process")) from error
        self._report_death(worker)

    def _report_death(self, worker):
        # The connection may end a moment before the process does, and without the join there is no exit code.
        worker.process.join(GRACE)
        pid, code = worker.process.pid, worker.process.exitcode
        how = "closed its connection" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was ended by signal {signal.Signals(-code).name}"
            how += _REASONS.get(-code, "")
        self._shutdown_workers()
        raise RuntimeError(
            f"DataLoader worker (pid(s) {pid}) exited unexpectedly: worker {worker.number} {how}"
        ) from None

    # -- the end ----------------------------------------------------------------------------------

    def _shutdown_workers(self):
        """End the workers: closed connections tell them, those that do not heed it are ended."""
        if self._shutdown or os.getpid() != self._owner:  # a forked child holds a copy of this object
            return
        self._shutdown = True
        if self._pinning:
            self._pinning.stop()
        for worker in self._workers_status:
            # All connections are closed before any worker is waited for, so that the workers end at the same time.
            worker.channel.hang_up()
        deadline = time.monotonic() + GRACE
        for worker in self._workers_status:
            worker.process.join(max(0.0, deadline - time.monotonic()))
        for worker in self._workers_status:
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(1)
            if worker.process.is_alive():
                worker.process.kill()
