"""Define futures, results that do not exist yet: those of calls between processes (`distributed.rpc`) and those of
programs.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.distributed.rpc._agent import RpcFuture

__all__ = ["Future", "collect_all", "wait_all"]
T = TypeVar("T")


class Future(Generic[T]):
    """Hold a value that any thread sets once, and for which others wait.

    Args:
        devices: the CUDA devices on which the value may lie, with their numbers. The current streams of who waits for the value
            wait for the work that makes it, which the current streams of who sets it have.

    Errors: ValueError for devices that are no numbered accelerators, and for a value that lies on another one; RuntimeError for
    devices that this machine does not have.

    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda f: 2 * f.value())
    >>> future.add_done_callback(lambda f: print("done:", f.done()))
    >>> future.set_result(21)
    done: True
    >>> doubled.wait()
    42
    >>> failed = torch.futures.Future()
    >>> failed.set_exception(ValueError("no value"))
    >>> failed.wait()
    Traceback (most recent call last):
        ...
    ValueError: no value
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._devices = _checked_devices(devices or ())
        self._events = []
        self._changed = threading.Condition()
        self._done = False
        self._value = self._error = None
        self._callbacks = []

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("Future: a future is not pickled, since others wait for this one, got a pickle of one")

    def done(self) -> bool:
        """Return whether there is a value or an exception."""
        return self._done

    def wait(self) -> Any:
        """Return the value, once it is there; raise the exception that was set in its place."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> Any:
        """Return what wait gives, of a future that is done.

        Raises:
            RuntimeError: it is not.
        """
        if not self._done:
            raise RuntimeError("Future.value: expected a future that is done, got one that is not")
        if self._error is not None:
            raise self._error
        for event in self._events:
            event.wait()
        return self._value

    def then(self, callback: Callable[..., Any]) -> Future[Any]:
        """Return a future of callback(self), which is called when this one is done; its exception is passed on.

        Args:
            callback: takes this future.
        """
        follower = Future(devices=self._devices)

        def run(done):
            try:
                result = callback(done)
            except Exception as error:
                failure = RuntimeError(f"Future.then: the callback raised {type(error).__name__}: {error}")
                failure.__cause__ = error
                follower.set_exception(failure)
            else:
                follower.set_result(result)

        self.add_done_callback(run)
        return follower

    def add_done_callback(self, callback: Callable[..., Any]) -> None:
        """Call callback(self) when it is done, at once if it is, in the order in which callbacks are added.

        What a callback raises is logged and otherwise ignored: nobody who could handle it has called it.

        Args:
            callback: takes this future.
        """
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        run_callbacks(self, [callback])

    def set_result(self, result: Any) -> None:
        """Give the value `result`, and call the callbacks.

        Raises:
            RuntimeError: there is a value or an exception already.

        Args:
            result: the value.
        """
        events = _record_work(self._devices, result) if self._devices else []
        self._finish(result, None, events)

    def set_exception(self, result: Any) -> None:
        """Give an exception, `result`, in the place of a value: `wait` and `value` raise it.

        Raises:
            AssertionError: `result` is not an exception.
            RuntimeError: there is a value or an exception already.

        Args:
            result: the exception.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"Future.set_exception: expected an exception, got {type(result).__name__}")
        self._finish(None, result)

    def _finish(self, value, error, events=()):
        run_callbacks(self, self._settle(value, error, events))

    def _settle(self, value, error, events=()):
        """Give the value or exception; return the callbacks, which the caller calls."""
        with self._changed:
            if self._done:
                given = value if error is None else error
                raise RuntimeError(f"Future.set_result: a future takes its result once, got {given!r}")
            self._value, self._error, self._events, self._done = value, error, events, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        return callbacks


def run_callbacks(future, callbacks):
    """Call the callbacks of a future; log what they raise."""
    for callback in callbacks:
        try:
            callback(future)
        except Exception:
            logging.getLogger(__name__).exception("Future.add_done_callback: a callback raised an exception")


def _checked_devices(devices):
    import facula

    found = []
    for given in devices:
        device = facula.device("cuda", given) if isinstance(given, int) else facula.device(given)
        if device.type in ("cpu", "meta"):
            raise ValueError(f"Future: devices must be numbered accelerators, such as 'cuda:0', got {device}")
        count = facula.get_device_module(device.type).device_count()
        if (device.index or 0) >= count:
            raise RuntimeError(f"Future: expected devices of this machine, which has {count} of {device.type}, got {device}")
        if device.index is None:
            raise ValueError(f"Future: devices must have a number, such as '{device.type}:0', got {device}")
        found.append(device)
    return found


def _record_work(devices, value):
    """Return events of the work that the current streams of the value's devices have now."""
    import facula
    from facula.utils._pytree import tree_leaves

    used = {leaf.device for leaf in tree_leaves(value) if isinstance(leaf, facula.Tensor) and leaf.device.type != "cpu"}
    if not used <= set(devices):
        others = ", ".join(sorted(str(device) for device in used - set(devices)))
        raise ValueError(f"Future.set_result: expected a value on {', '.join(map(str, devices))}, got one on {others}")
    return [facula.cuda.current_stream(device).record_event() for device in used]


def collect_all(futures: Sequence[Future[Any] | RpcFuture]) -> Future[Any]:
    """Return a future of the list of futures, done when all of them are; an exception of the first that failed is passed on.

    >>> a, b = torch.futures.Future(), torch.futures.Future()
    >>> together = torch.futures.collect_all([a, b])
    >>> a.set_result(1)
    >>> together.done()
    False
    >>> b.set_result(2)
    >>> [future.value() for future in together.wait()]
    [1, 2]
    """
    futures = list(futures)
    for future in futures:
        if not hasattr(future, "add_done_callback"):
            raise RuntimeError(f"collect_all: expected futures, got {type(future).__name__}")
    together = Future()
    lock, left = threading.Lock(), [len(futures)]

    def one_done(_):
        with lock:
            left[0] -= 1
            # The result is set outside the lock, because it runs callbacks of the program.
            last = left[0] == 0
        if last:
            error = next((f._error for f in futures if f._error is not None), None)
            together.set_result(futures) if error is None else together.set_exception(error)

    for future in futures:
        future.add_done_callback(one_done)
    if not futures:
        together.set_result(futures)
    return together


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all futures and return the list of their values; raise the exception of the first that failed.

    Args:
        futures: a list of Future.

    >>> future = torch.futures.Future()
    >>> future.set_result(1)
    >>> torch.futures.wait_all([future])
    [1]
    """
    return [future.wait() for future in collect_all(futures).wait()]
