"""The CPU as a device, and the memory that its allocator holds.

Freed memory is kept for the next request. `memory_stats` counts in bytes; `empty_cache` gives what is kept back to the
system; `set_memory_limit` bounds the sum.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula import _C

from . import amp
from .memory import memory_picture, memory_snapshot, record_memory_history

if TYPE_CHECKING:
    from typing import Any

    from facula.types import Device

__all__ = [
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_picture",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "packed_weights",
    "record_memory_history",
    "reset_peak_memory_stats",
    "set_device",
    "set_memory_limit",
    "set_packed_weights",
    "set_private_layouts",
    "stream",
    "synchronize",
    "Event",
    "Stream",
    "StreamContext",
]


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Device) -> None:
    """There is one CPU device: changes nothing."""


def synchronize(device: Device = None) -> None:
    """Ops on the CPU are done when they return: waits for nothing."""


class Stream:
    """Work on the CPU runs in the order of the program: a stream of it has nothing to order."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Stream) -> None:
        """Everything is done already."""


class StreamContext(contextlib.AbstractContextManager):
    """Selects a stream for a block."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __exit__(self, *exception: object) -> None:
        return None


class Event:
    """A point in the order of a stream: passed as soon as it is recorded."""

    def query(self) -> Any:
        """True."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Marks now."""

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait(self, stream: Stream | None = None) -> None:
        """Waits for nothing."""


_default_stream = Stream()


def current_stream(device: Device = None) -> Stream:
    """The one stream."""
    return _default_stream


def stream(stream: Stream) -> StreamContext:
    """A block whose work goes to `stream`."""
    return StreamContext(stream)


def get_capabilities() -> dict[str, str]:
    """What kind of processor this is."""
    import platform

    return {"architecture": platform.machine()}


# Memory


def memory_stats(device: Device = None) -> dict[str, int]:
    """Counters of the allocator by name: "allocated_bytes.current", "reserved_bytes.peak", "hits", ..."""
    return _C._cpu_memory_stats()


def memory_allocated(device: Device = None) -> int:
    """Bytes in blocks that tensors hold."""
    return memory_stats()["allocated_bytes.current"]


def max_memory_allocated(device: Device = None) -> int:
    """The highest memory_allocated since reset_peak_memory_stats."""
    return memory_stats()["allocated_bytes.peak"]


def memory_reserved(device: Device = None) -> Any:
    """Bytes held by tensors or kept for the next request."""
    return memory_stats()["reserved_bytes.current"]


def max_memory_reserved(device: Device = None) -> Any:
    """The highest memory_reserved since reset_peak_memory_stats."""
    return memory_stats()["reserved_bytes.peak"]


def reset_peak_memory_stats(device: Device = None) -> None:
    """Restarts the peaks at the current values."""
    _C._cpu_reset_peak_memory_stats()


def empty_cache() -> None:
    """Gives memory that is kept for the next request back to the system."""
    _C._cpu_empty_cache()


def set_memory_limit(bytes: Any) -> None:
    """Bounds the memory held and kept; a request beyond it raises OutOfMemoryError. None or 0: no bound."""
    _C._cpu_set_memory_limit(bytes or 0)


def packed_weights() -> Any:
    """What is kept of weights in the order in which products and convolutions read them.

    A dict: `bytes` and `copies` that are there, their `limit` in bytes, and `hits`, how often one was used.
    """
    return _C._cpu_packed_weights()


def set_packed_weights(bytes: Any) -> Any:
    """Bounds what is kept of weights in the order in which products and convolutions read them; 0 keeps nothing.

    Returns the bound before; at first it is an eighth of the memory. Values do not depend on it.
    """
    return _C._cpu_set_packed_weights(bytes)


def set_private_layouts(wanted: Any) -> Any:
    """Whether images stay channels-last inside the library (the default) while programs see plain strides.

    Returns what held before. Values do not depend on it but for rounding.
    """
    return _C._cpu_set_private_layouts(bool(wanted))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """memory_stats as a table."""
    from facula._text_table import table

    stats = memory_stats()
    rows = [
        ("held by tensors", _megabytes(stats["allocated_bytes.current"]), _megabytes(stats["allocated_bytes.peak"])),
        ("held and kept", _megabytes(stats["reserved_bytes.current"]), _megabytes(stats["reserved_bytes.peak"])),
    ]
    if not abbreviated:
        rows.append(("kept", _megabytes(stats["cached_bytes"]), ""))
        rows.append(("limit", _megabytes(stats["limit"]) if stats["limit"] else "none", ""))
    lines = table(("CPU memory", "now", "peak"), rows)
    if not abbreviated:
        asked = stats["hits"] + stats["misses"]
        lines.append(f"large requests: {asked}, of which {stats['hits']} served from what was kept")
    return "\n".join(lines) + "\n"


def _megabytes(count):
    return f"{count / 2**20:.2f} MiB"
