"""Queues of work on the accelerator, and places in them, whichever kind it is: what is made are CUDA's streams and events."""

from __future__ import annotations

import functools

import facula

__all__ = ["Event", "Stream"]


class Stream:
    """A queue of work on an accelerator: of `device` (default: the current one), with a priority. See cuda.Stream."""

    def __new__(cls, *args, **kwargs):
        from facula import cuda

        return super().__new__(cuda.Stream if cls is Stream else cls)


class Event:
    """A place in a queue of work on an accelerator. See cuda.Event.

    Args:
        device: an accelerator; by default it is that of the stream in which the event is recorded.
        enable_timing, blocking, interprocess: as those of cuda.Event.
    """

    def __new__(cls, *args, **kwargs):
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
