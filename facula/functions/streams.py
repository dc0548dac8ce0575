"""Define streams and events of the accelerator, whichever kind it is. The objects that are made are CUDA's streams and
events.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

    from facula import cuda

__all__ = ["Event", "Stream"]


class Stream:
    """Represent a queue of work on an accelerator. The work in one queue runs in order; several queues run
    concurrently.

    Args:
        args, kwargs: ``device``, the accelerator (default: the current one), and ``priority``: smaller numbers run first, where
            the device has priorities.

    With a CUDA device, what is made is a `cuda.Stream`. Without one, or for the CPU, it is the one queue of the CPU, in which
    everything is done already.

    Errors: RuntimeError for CUDA without a device.

    >>> torch.Stream(device="cpu")
    torch.Stream device_type=cpu, device_index=-1, stream_id=0
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not Stream:
            return super().__new__(cls)
        kind = _asked_kind(*args, **kwargs)
        if kind is None:
            kind = "cuda" if facula.cuda.is_available() else "cpu"
        return super().__new__(facula.cuda.Stream if kind == "cuda" else _OfCpu)


def _asked_kind(device=None, *_, device_type=None, **__):
    """Return "cpu", "cuda", or None where the call does not say."""
    if isinstance(device, (str, facula.device)):
        return facula.device(device).type
    return {0: "cpu", 1: "cuda"}.get(device_type, device_type)


class _OfCpu(Stream):
    """Represent the queue of the CPU."""

    stream_id, device_index, device_type = 0, -1, 0

    def __init__(self, device=None, priority=0, **_):
        self.device: Any = facula.device("cpu" if device is None else device)

    def query(self):
        """Return whether everything is done: True."""
        return True

    def synchronize(self):
        """Wait for nothing."""

    def is_capturing(self):
        """Return whether work is recorded in place of being done: False."""
        return False

    def record_event(self, event=None):
        """Raise RuntimeError: the CPU has no events."""
        raise RuntimeError("Stream.record_event: cpu backend doesn't support events, got a stream of the CPU")

    def wait_stream(self, other):
        """Raise RuntimeError: the CPU has no events to wait for."""
        raise RuntimeError("Stream.wait_stream: cpu backend doesn't support events, got a stream of the CPU")

    def wait_event(self, event):
        """Wait for nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def __eq__(self, other):
        return isinstance(other, _OfCpu) and other.device == self.device

    def __hash__(self):
        return hash(self.device)

    def __repr__(self):
        return f"torch.Stream device_type={self.device.type}, device_index=-1, stream_id=0"


class Event:
    """Represent a point in a queue of work on an accelerator. Other queues can wait for it, and the time between two
    events can be measured.

    Args:
        args, kwargs: ``device``, an accelerator, by default that of the stream in which the event is recorded;
            ``enable_timing``, whether `elapsed_time` can be called; ``blocking``, whether a thread that waits sleeps;
            ``interprocess``, whether other processes can wait for it.

    What is made is a `cuda.Event`, the only kind there is.

    Errors: RuntimeError without a CUDA device.

    >>> torch.Event.__name__
    'Event'
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> cuda.Event:
        return super().__new__(_of_any_device() if cls is Event else cls)


@functools.cache
def _of_any_device():
    class Event(facula.cuda.Event):
        def __init__(self, device=None, **options):
            index = facula.cuda._index(device, "Event")
            super().__init__(**options)
            self.device = facula.device("cuda", index)

    return Event
