"""The memory of the accelerator, as `facula.cuda.memory` counts it."""

import facula
from facula import _C

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


def empty_cache():
    """Gives cached device memory back."""
    facula.cuda.empty_cache()


def empty_host_cache():
    """Gives pinned memory of the host that nobody uses back."""
    _C._host_emptyCache()


def memory_stats(device_index=None, /):
    """The allocator's counters; empty without an accelerator. See cuda.memory_stats."""
    return facula.cuda.memory_stats(device_index)


def memory_allocated(device_index=None, /):
    """Bytes in use on the device."""
    return facula.cuda.memory_allocated(device_index)


def memory_reserved(device_index=None, /):
    """Bytes taken from the device."""
    return facula.cuda.memory_reserved(device_index)


def max_memory_allocated(device_index=None, /):
    """The largest `memory_allocated` so far, or since reset_peak_memory_stats()."""
    return facula.cuda.max_memory_allocated(device_index)


def max_memory_reserved(device_index=None, /):
    """The largest `memory_reserved` so far, or since reset_peak_memory_stats()."""
    return facula.cuda.max_memory_reserved(device_index)


def get_memory_info(device_index=None, /):
    """(free, total) bytes of the device."""
    return facula.cuda.mem_get_info(device_index)


def reset_peak_memory_stats(device_index=None, /):
    """Peaks begin at the current values."""
    facula.cuda.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index=None, /):
    """Sums over time begin at zero."""
    facula.cuda.reset_accumulated_memory_stats(device_index)


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.accelerator.memory", name)
