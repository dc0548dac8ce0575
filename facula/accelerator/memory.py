"""Report the memory of the accelerator, as `facula.cuda.memory` counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._shared.on_demand import _on_demand

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
    """Give memory of devices that is kept for the next request back to the driver; nothing to do without an accelerator.

    >>> torch.accelerator.empty_cache()
    """
    facula.cuda.empty_cache()


def empty_host_cache() -> None:
    """Give pinned memory of the host that nobody uses back to the system.

    >>> torch.accelerator.empty_host_cache()
    """
    _C._host_emptyCache()


def memory_stats(device_index: int | None = None, /) -> Any:
    """Return the allocator's counters: a dict with keys such as "allocated_bytes.all.peak"; empty without an accelerator.

    Args:
        device_index: of which device; None: the current one.

    >>> bool(torch.accelerator.memory_stats()) == torch.accelerator.is_available()
    True
    """
    return facula.cuda.memory_stats(device_index)


def memory_allocated(device_index: int | None = None, /) -> Any:
    """Return the bytes of tensors on the device; 0 without an accelerator.

    Args:
        device_index: of which device; None: the current one.

    >>> torch.accelerator.memory_allocated() >= 0
    True
    """
    return facula.cuda.memory_allocated(device_index)


def memory_reserved(device_index: int | None = None, /) -> Any:
    """Return the bytes taken from the device; 0 without an accelerator.

    Args:
        device_index: of which device; None: the current one.

    >>> torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
    True
    """
    return facula.cuda.memory_reserved(device_index)


def max_memory_allocated(device_index: int | None = None, /) -> Any:
    """Return the largest `memory_allocated` so far, or since reset_peak_memory_stats(); 0 without an accelerator.

    Args:
        device_index: of which device; None: the current one.

    >>> torch.accelerator.max_memory_allocated() >= torch.accelerator.memory_allocated()
    True
    """
    return facula.cuda.max_memory_allocated(device_index)


def max_memory_reserved(device_index: int | None = None, /) -> Any:
    """Return the largest `memory_reserved` so far, or since reset_peak_memory_stats(); 0 without an accelerator.

    Args:
        device_index: of which device; None: the current one.

    >>> torch.accelerator.max_memory_reserved() >= torch.accelerator.memory_reserved()
    True
    """
    return facula.cuda.max_memory_reserved(device_index)


def get_memory_info(device_index: int | None = None, /) -> Any:
    """Return (free, total) bytes of the device, as the driver counts them.

    Args:
        device_index: of which device; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.accelerator.is_available():
    ...     free, total = torch.accelerator.get_memory_info()
    ...     assert free <= total
    """
    return facula.cuda.mem_get_info(device_index)


def reset_peak_memory_stats(device_index: int | None = None, /) -> None:
    """Let peaks begin at the current values; nothing to do without an accelerator.

    Args:
        device_index: of which device; None: the current one.

    >>> torch.accelerator.reset_peak_memory_stats()
    """
    facula.cuda.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: int | None = None, /) -> None:
    """Let sums over time begin at zero; nothing to do without an accelerator.

    Args:
        device_index: of which device; None: the current one.

    >>> torch.accelerator.reset_accumulated_memory_stats()
    """
    facula.cuda.reset_accumulated_memory_stats(device_index)

__getattr__ = _on_demand(__name__)
