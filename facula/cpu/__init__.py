"""Provide the CPU as a device, and the memory that its allocator holds.

Freed memory is kept for the next request. `memory_stats` counts in bytes; `empty_cache` gives what is kept back to the
system; `set_memory_limit` bounds the sum. `memory_budget` makes training keep within a bound.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula import _C

from . import amp
from .memory import memory_picture, memory_snapshot, record_memory_history

if TYPE_CHECKING:
    import os
    from typing import Any

    from facula.types import Device
    from facula.utils._memory_budget import MemoryBudget

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
    "memory_budget",
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
    """Return True: there is always a CPU.

    >>> torch.cpu.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Return True: there is nothing to initialize.

    >>> torch.cpu.is_initialized()
    True
    """
    return True


def device_count() -> int:
    """Return 1: all cores are one device.

    >>> torch.cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """Return "cpu", the only CPU device.

    >>> torch.cpu.current_device()
    'cpu'
    """
    return "cpu"


def set_device(device: Device) -> None:
    """Do nothing: there is one CPU device.

    Args:
        device: a CPU device.

    >>> torch.cpu.set_device("cpu")
    """


def synchronize(device: Device = None) -> None:
    """Wait for nothing: ops on the CPU are done when they return.

    Args:
        device: a CPU device.

    >>> torch.cpu.synchronize()
    """


class Stream:
    """Represent the order of work on the CPU, which is that of the program, so that a stream has nothing to do.

    Args:
        priority: kept, and without effect.

    >>> first, second = torch.cpu.Stream(), torch.cpu.Stream()
    >>> second.wait_stream(first)
    """

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Stream) -> None:
        """Wait for nothing: everything is done already.

        Args:
            stream: another stream.
        """


class StreamContext(contextlib.AbstractContextManager["None"]):
    """Select a stream for a block; `stream` returns it.

    Args:
        stream: the stream.

    >>> with torch.cpu.StreamContext(torch.cpu.Stream()):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __exit__(self, *exception: object) -> None:
        return None


class Event:
    """Represent a point in the order of a stream, which is reached as soon as it is recorded.

    >>> event = torch.cpu.Event()
    >>> event.record()
    >>> event.wait()
    >>> event.synchronize()
    >>> event.query()
    True
    """

    def query(self) -> Any:
        """Return whether everything before the event is done: True."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Mark now.

        Args:
            stream: in which stream, of which there is one.
        """

    def synchronize(self) -> None:
        """Wait for nothing."""

    def wait(self, stream: Stream | None = None) -> None:
        """Wait for nothing.

        Args:
            stream: whose work would wait.
        """


_default_stream = Stream()


def current_stream(device: Device = None) -> Stream:
    """Return the one stream.

    Args:
        device: a CPU device.

    >>> torch.cpu.current_stream() is torch.cpu.current_stream()
    True
    """
    return _default_stream


def stream(stream: Stream) -> StreamContext:
    """Return a block whose work goes to `stream`.

    Args:
        stream: a Stream.

    >>> with torch.cpu.stream(torch.cpu.Stream()):
    ...     torch.ones(1)
    tensor([1.])
    """
    return StreamContext(stream)


def get_capabilities() -> dict[str, str]:
    """Return what kind of processor this is: {"architecture": the name of its instruction set}.

    >>> list(torch.cpu.get_capabilities())
    ['architecture']
    """
    import platform

    return {"architecture": platform.machine()}


# Memory


def memory_stats(device: Device = None) -> dict[str, int]:
    """Return the counters of the allocator by name: "allocated_bytes.current", "reserved_bytes.peak", "hits", ...

    Args:
        device: a CPU device.

    >>> {"allocated_bytes.current", "hits", "limit"} <= torch.cpu.memory_stats().keys()
    True
    """
    return _C._cpu_memory_stats()


def memory_allocated(device: Device = None) -> int:
    """Return the bytes in blocks that tensors hold.

    Args:
        device: a CPU device.

    >>> before = torch.cpu.memory_allocated()
    >>> x = torch.zeros(2**20)
    >>> torch.cpu.memory_allocated() - before >= 2**22
    True
    """
    return memory_stats()["allocated_bytes.current"]


def max_memory_allocated(device: Device = None) -> int:
    """Return the highest memory_allocated since reset_peak_memory_stats, or since the start.

    Args:
        device: a CPU device.

    >>> torch.cpu.max_memory_allocated() >= torch.cpu.memory_allocated()
    True
    """
    return memory_stats()["allocated_bytes.peak"]


def memory_reserved(device: Device = None) -> Any:
    """Return the bytes held by tensors or kept for the next request.

    Args:
        device: a CPU device.

    >>> torch.cpu.memory_reserved() >= torch.cpu.memory_allocated()
    True
    """
    return memory_stats()["reserved_bytes.current"]


def max_memory_reserved(device: Device = None) -> Any:
    """Return the highest memory_reserved since reset_peak_memory_stats, or since the start.

    Args:
        device: a CPU device.

    >>> torch.cpu.max_memory_reserved() >= torch.cpu.memory_reserved()
    True
    """
    return memory_stats()["reserved_bytes.peak"]


def reset_peak_memory_stats(device: Device = None) -> None:
    """Restart the peaks at the current values.

    Args:
        device: a CPU device.

    >>> torch.cpu.reset_peak_memory_stats()
    >>> x = torch.zeros(2**20)
    >>> torch.cpu.max_memory_allocated() >= 2**22
    True
    """
    _C._cpu_reset_peak_memory_stats()


def empty_cache() -> None:
    """Give memory that is kept for the next request back to the system.

    >>> before = torch.cpu.memory_stats()["cached_bytes"]
    >>> torch.cpu.empty_cache()
    >>> torch.cpu.memory_stats()["cached_bytes"] <= before
    True
    """
    _C._cpu_empty_cache()


def set_memory_limit(bytes: Any) -> None:
    """Bound the memory held and kept; a request beyond it raises OutOfMemoryError.

    Args:
        bytes: the bound; None or 0: no bound, as at the start.

    >>> torch.cpu.set_memory_limit(2**40)
    >>> torch.cpu.memory_stats()["limit"] == 2**40
    True
    >>> torch.cpu.set_memory_limit(None)
    """
    _C._cpu_set_memory_limit(bytes or 0)


def memory_budget(limit: str | float | None, folder: str | os.PathLike[str] | None = None) -> MemoryBudget:
    """Make programs keep within a bound on the memory that tensors hold, from now on, on all threads.

    Where a request would pass it, values that only autograd holds for a backward pass are let go of, and are computed again
    when the pass comes to them. Results are the same to the last bit. Where nothing is left to let go, an OutOfMemoryError
    says what is held, and which budget would have done.

    Args:
        limit: bytes as an int; a text of a number and a unit (B; KB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB of
            1024); a share of the machine's memory as a float, above 0 and at most 1; None: no bound, as at the start.
        folder: of a fast disk, in which values lie that would take longer to compute again than to be written and read; None:
            the one that the environment variable FACULA_BUDGET_DIR names, or else all are computed again. The file in it has
            no name, and ends with the process.

    Returns: an object that tells what the budget does: its `summary()`, `events()` and `picture(path)`, the `limit`, and the
    `highest` bytes that were held. As a context manager it ends with its block, and the bound before is put back.

    Errors: ValueError for what is no size; RuntimeError for a folder in which no file can be made; TypeError for other types.

    >>> with torch.cpu.memory_budget("64GB") as budget:
    ...     w = torch.ones(3, requires_grad=True)
    ...     (w * 2).sum().backward()
    >>> w.grad
    tensor([2., 2., 2.])
    >>> "budget 59.6 GiB" in budget.summary()
    True
    """
    from facula.utils._memory_budget import MemoryBudget, parse_limit

    return MemoryBudget(_C.device("cpu"), parse_limit(limit, _C._cpu_total_memory), folder)


def packed_weights() -> Any:
    """Return what is kept of weights in the order in which products and convolutions read them.

    A dict: `bytes` and `copies` that are there, their `limit` in bytes, and `hits`, how often one was used.

    >>> sorted(torch.cpu.packed_weights())
    ['bytes', 'copies', 'hits', 'limit']
    """
    return _C._cpu_packed_weights()


def set_packed_weights(bytes: Any) -> Any:
    """Bound what is kept of weights in the order in which products and convolutions read them.

    Args:
        bytes: the bound; 0 keeps nothing.

    Returns: the bound before; at first it is an eighth of the memory. Values do not depend on it.

    >>> before = torch.cpu.set_packed_weights(0)
    >>> torch.cpu.set_packed_weights(before)
    0
    """
    return _C._cpu_set_packed_weights(bytes)


def set_private_layouts(wanted: Any) -> Any:
    """Say whether images stay channels-last inside the library (the default) while programs see plain strides.

    Args:
        wanted: True or False.

    Returns: what held before. Values do not depend on it but for rounding.

    >>> before = torch.cpu.set_private_layouts(False)
    >>> torch.cpu.set_private_layouts(before)
    False
    """
    return _C._cpu_set_private_layouts(bool(wanted))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Return memory_stats as a table.

    Args:
        device: a CPU device.
        abbreviated: whether only what is held and reserved is shown.

    >>> torch.cpu.memory_summary(abbreviated=True).splitlines()[0].split()
    ['CPU', 'memory', 'now', 'peak']
    """
    from facula._shared.text_table import table

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
