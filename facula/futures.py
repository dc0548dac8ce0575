"""Results that arrive later. Facula has no thread of its own that sets them: whoever makes a Future does."""

from __future__ import annotations

import threading

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value, or an exception, that is set once.

    Args:
        devices: device kinds of the value; kept for PyTorch's programs, without effect on the CPU.
    """

    def __init__(self, *, devices=None):
        self._set = threading.Condition()
        self._callbacks = []
        self._done, self._value, self._error = False, None, None

    def __class_getitem__(cls, _):
        return cls

    def done(self):
        """Whether the value or an exception is there."""
        return self._done

    def wait(self):
        """Blocks until the value is there and gives it; raises the exception that was set instead."""
        with self._set:
            self._set.wait_for(self.done)
        if self._error is not None:
            raise self._error
        return self._value

    def value(self):
        """The value, which must be there already."""
        if not self._done:
            raise RuntimeError("Future.value: the future is not complete")
        return self.wait()

    def _complete(self, value, error):
        with self._set:
            if self._done:
                raise RuntimeError(f"Future.set_result: a future is completed once, got {value if error is None else error!r}")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._set.notify_all()
        for callback in callbacks:
            callback(self)

    def set_result(self, result):
        """Completes the future; runs what waits for it on this thread."""
        self._complete(result, None)

    def set_exception(self, result):
        """Completes the future with an exception, which `wait` raises."""
        if not isinstance(result, Exception):
            raise TypeError(f"Future.set_exception: expected an exception, got {result!r}")
        self._complete(None, result)

    def add_done_callback(self, callback):
        """Calls `callback(self)` on completion, or now when that has happened."""
        with self._set:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback):
        """A Future of `callback(self)`, which runs on completion."""
        result = Future()

        def run(done):
            try:
                value = callback(done)
            except Exception as error:
                result.set_exception(error)
            else:
                result.set_result(value)

        self.add_done_callback(run)
        return result


def collect_all(futures):
    """A Future of the list of `futures`, complete when all of them are."""
    futures, result = list(futures), Future()
    left, lock = [len(futures)], threading.Lock()

    def count_down(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            result.set_result(futures)

    if not futures:
        result.set_result(futures)
    for future in futures:
        future.add_done_callback(count_down)
    return result


def wait_all(futures):
    """The values of all `futures`, in order; raises the first exception among them."""
    return [future.wait() for future in collect_all(futures).wait()]
