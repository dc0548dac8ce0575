"""Define the base class of DataLoader iterators with workers: it assigns indices to workers and determines the order of
batches.
"""

import itertools
import sys
import time

from facula._serialization.rebuild import ExceptionWrapper

from ._iterators import _BaseDataLoaderIter
from ._utils.worker import _IterableDatasetStopIteration, _ResumeIteration

GRACE = 5.0  # seconds that a worker gets to finish its sample when the iterator is closed


class _PrefetchingDataLoaderIter(_BaseDataLoaderIter):
    """Fetch batches ahead in workers. A subclass starts the workers, waits for their results, and ends them.

    A worker has a `channel`, which sends it requests. It is `active` as long as it has a stream to read.
    """

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
        self._workers_status = []
        try:
            self._start_workers(loader)
        except BaseException:
            self._shutdown_workers()
            raise
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
        self._send_number = 0
        self._next_number = 0
        self._outstanding = {}  # batch number -> worker
        self._arrived = {}  # batch number -> batch
        for worker in self._workers_status:
            worker.active = True
        # Workers take turns, also across epochs, so that equal seeds give equal batches whatever the speed of a worker
        # is.
        self._turns = itertools.cycle(self._workers_status)
        if not first_iter:
            self._resume()
        for _ in range(self._prefetch_factor * self._num_workers):
            self._request_next()

    def _resume(self):
        """Tell persistent workers of the new epoch and drop what is left of the old one."""
        for worker in self._workers_status:
            try:
                worker.channel.send(_ResumeIteration())
            except OSError:  # it ended between two epochs
                self._report_death(worker)
        waiting = len(self._workers_status)
        while waiting:
            for _, (answer, _) in self._answers():
                # Other answers are batches of the old epoch, which are dropped.
                waiting -= isinstance(answer, _ResumeIteration)

    # -- requests ---------------------------------------------------------------------------------

    def _request_next(self):
        """Give the next indices to the worker whose turn it is."""
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
        # Every batch that is given in order causes one request, so no worker can have too many.
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
        """Return the number of the batch to give next, None when there are no more."""
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
        """Take in what has come, waiting for at least one answer."""
        deadline = time.monotonic() + self._timeout if self._timeout else None
        for worker, (number, data) in self._answers(deadline):
            self._outstanding.pop(number, None)
            if isinstance(data, _IterableDatasetStopIteration):
                self._end_stream(worker)
            else:
                self._arrived[number] = data

    def _end_stream(self, worker):
        """Send no more requests to a worker whose stream has ended; those it still has will not be answered."""
        worker.active = False
        for number in [n for n, other in self._outstanding.items() if other is worker]:
            del self._outstanding[number]
        self._request_next()

    def _report_timeout(self):
        raise RuntimeError(
            f"DataLoader: no batch came within {self._timeout} seconds (timeout={self._timeout}): a worker is slow or waits "
            "for "
            "something; num_workers=0 shows where"
        ) from None

    def __del__(self, _is_ending=sys.is_finalizing):
        if not _is_ending():  # there multiprocessing has ended the workers, and modules may be half gone
            self._shutdown_workers()
