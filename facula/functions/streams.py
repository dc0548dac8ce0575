"""Queues of work on the accelerator, and places in them, whichever kind it is: what is made are CUDA's streams and events."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

    from facula import cuda

__all__ = ["Event", "Stream"]


class Stream:
    """A queue of work on an accelerator: what is put into one queue runs in order, several queues run side by side.

    Args:
        args, kwargs: ``device``, the accelerator (default: the current one), and ``priority``: smaller numbers run first, where
            the device has priorities.

    What is made is a `cuda.Stream`, the only kind there is. Errors: RuntimeError without a CUDA device.

    >>> torch.Stream.__name__
    'Stream'
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> cuda.Stream:
        from facula import cuda

        return super().__new__(cuda.Stream if cls is Stream else cls)


class Event:
    """A place in a queue of work on an accelerator, which others can wait for, and between two of which time can be measured.

    Args:
        args, kwargs: ``device``, an accelerator, by default that of the stream in which the event is recorded;
            ``enable_timing``, whether `elapsed_time` can be asked; ``blocking``, whether a thread that waits sleeps;
            ``interprocess``, whether other processes can wait for it.

    What is made is a `cuda.Event`, the only kind there is. Errors: RuntimeError without a CUDA device.

    >>> torch.Event.__name__
    'Event'
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> cuda.Event:
        return super().__new__(_of_any_device() if cls is Event else cls)


@functools.cache
def _of_any_device():
    from facula import cuda

    class Event(cuda.Event):
        def __init__(self, device=None, **options):
            index = cuda._index(device, "Event")
            super().__init__(**options)
            self.device = facula.device("cuda", index)

    return Event
