"""Define the DataLoader iterator whose worker threads fetch ahead.

Threads share the dataset and pass batches on as they are: nothing is pickled or copied. Each thread has a queue of
requests, and all results arrive in one queue. Threads refer to these queues and not to the iterator, which ends them when
it is freed.
"""

import atexit
import contextlib
import queue
import threading
import time
import weakref

import facula
from facula._serialization.rebuild import ExceptionWrapper

from . import _utils
from ._prefetch import GRACE, _PrefetchingDataLoaderIter
from ._utils.worker import WorkerInfo, _Fetching, _generators, _IterableDatasetStopIteration, _of_thread, _ResumeIteration

# Weakly, so that an iterator that the program drops ends its threads at once.
_running = weakref.WeakSet()  # iterators


class _Requests:
    """Queue the requests that the program sends to a thread."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._closed = threading.Event()

    def send(self, request):
        self._queue.put(request)

    def close(self):
        """Take no more requests: those that are waiting are forgotten."""
        self._closed.set()
        # This wakes a thread that waits in get(); the event alone would not.
        self._queue.put(None)

    def __iter__(self):
        while (request := self._queue.get()) is not None and not self._closed.is_set():
            yield request


class _Worker(threading.Thread):
    """Run a worker thread; the iterator uses its `number`, `channel` and `active`."""

    def __init__(self, info, parts, init_fn, answers, device):
        super().__init__(name=f"facula_data_{info.id}", daemon=True)
        self.number, self.channel, self.active = info.id, _Requests(), True
        self._info, self._parts, self._init_fn, self._answers, self._device = info, parts, init_fn, answers, device

    def run(self):
        _of_thread.info = self._info
        where = f"in DataLoader worker thread {self.number}"
        if self._device is not None:
            facula.cuda.set_device(self._device)
        fetching = _Fetching(*self._parts, self._init_fn, self.number, where)
        for request in self.channel:
            if isinstance(request, _ResumeIteration):
                fetching.restart()
                self._answers.put((self, (request, None)))
            elif not fetching.ended:
                number, index = request
                self._answers.put((self, (number, self._fetch(fetching, index, where))))

    def _fetch(self, fetching, index, where):
        try:
            data = fetching.fetch(index)
            if self._device is None or isinstance(data, (ExceptionWrapper, _IterableDatasetStopIteration)):
                return data
            return _utils.pin_memory.pin_memory(data)
        except BaseException:  # SystemExit, too: a thread that ends silently would be waited for
            return ExceptionWrapper(where=where)


class _ThreadingDataLoaderIter(_PrefetchingDataLoaderIter):
    def _start_workers(self, loader):
        self._all_answers = queue.SimpleQueue()
        parts = self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        device = facula.cuda.current_device() if self._pin_memory else None
        for number in range(self._num_workers):
            rng = _generators(self._base_seed, number)
            info = WorkerInfo(number, self._num_workers, self._base_seed + number, self._dataset, rng, "thread")
            worker = _Worker(info, parts, loader.worker_init_fn, self._all_answers, device)
            self._workers_status.append(worker)
            worker.start()
        _running.add(self)

    @property
    def _workers(self):
        """The worker threads."""
        return self._workers_status

    def _answers(self, deadline=None):
        """Return what has come, at least one (worker, answer)."""
        try:
            answers = [self._all_answers.get(timeout=None if deadline is None else max(0, deadline - time.monotonic()))]
        except queue.Empty:
            self._report_timeout()
        with contextlib.suppress(queue.Empty):
            while True:
                answers.append(self._all_answers.get_nowait())
        return answers

    def _shutdown_workers(self):
        """End the threads, each after the batch that it is at; they are waited for a while, as nothing can end a thread."""
        if self._shutdown:
            return
        self._shutdown = True
        for worker in self._workers_status:
            worker.channel.close()
        deadline = time.monotonic() + GRACE
        for worker in self._workers_status:
            if worker is not threading.current_thread() and worker.ident is not None:
                worker.join(max(0.0, deadline - time.monotonic()))


@atexit.register
def _end_all():
    """End all before the interpreter is taken apart under threads that compute."""
    for iterator in list(_running):
        iterator._shutdown_workers()
