"""The memory of the accelerator, as `facula.cuda.memory` counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "empty_cache",
    "empty_host_cache",
    "get_memory_info",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]


def empty_cache() -> None:
    """Gives cached device memory back."""
    facula.cuda.empty_cache()


def empty_host_cache() -> None:
    """Gives pinned memory of the host that nobody uses back."""
    _C._host_emptyCache()


def memory_stats(device_index: int | None = None, /) -> Any:
    """The allocator's counters; empty without an accelerator. See cuda.memory_stats."""
    return facula.cuda.memory_stats(device_index)


def memory_allocated(device_index: int | None = None, /) -> Any:
    """Bytes in use on the device."""
    return facula.cuda.memory_allocated(device_index)


def memory_reserved(device_index: int | None = None, /) -> Any:
    """Bytes taken from the device."""
    return facula.cuda.memory_reserved(device_index)


def max_memory_allocated(device_index: int | None = None, /) -> Any:
    """The largest `memory_allocated` so far, or since reset_peak_memory_stats()."""
    return facula.cuda.max_memory_allocated(device_index)


def max_memory_reserved(device_index: int | None = None, /) -> Any:
    """The largest `memory_reserved` so far, or since reset_peak_memory_stats()."""
    return facula.cuda.max_memory_reserved(device_index)


def get_memory_info(device_index: int | None = None, /) -> Any:
    """(free, total) bytes of the device."""
    return facula.cuda.mem_get_info(device_index)


def reset_peak_memory_stats(device_index: int | None = None, /) -> None:
    """Peaks begin at the current values."""
    facula.cuda.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: int | None = None, /) -> None:
    """Sums over time begin at zero."""
    facula.cuda.reset_accumulated_memory_stats(device_index)


def __getattr__(name: str) -> Any:
    from facula.compat import placeholders

    return placeholders.member("torch.accelerator.memory", name)
