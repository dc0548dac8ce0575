"""The accelerator of this machine, whichever kind it is: CUDA or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.accelerator.graphs import Graph
from facula.accelerator.memory import (
    empty_cache,
    empty_host_cache,
    get_memory_info,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)

if TYPE_CHECKING:
    from typing import Any

    from facula import Stream
    from facula.types import Device

__all__ = [
    "Graph",
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is an accelerator."""
    return facula.cuda.is_available()


def device_count() -> Any:
    """How many there are."""
    return facula.cuda.device_count()


def current_accelerator(check_available: bool = False) -> Any:
    """Its device type as a device, None where there is none."""
    return facula.device("cuda") if is_available() else None


def get_device_capability(device: Device = None, /) -> Any:
    """What the device can do: {"supported_dtypes": the dtypes that its tensors can have}."""
    facula.cuda._index(device, "get_device_capability")
    dtypes = {value for value in vars(facula._C).values() if isinstance(value, facula.dtype)}
    return {"supported_dtypes": dtypes}


def current_device_index() -> Any:
    """The index of the device in use."""
    return facula.cuda.current_device()


def set_device_index(device: Device, /) -> None:
    """Makes another device the one in use."""
    facula.cuda.set_device(device)


def current_stream(device: Device = None, /) -> Any:
    """The stream in use."""
    return facula.cuda.current_stream(device)


def set_stream(stream: Stream) -> None:
    """Makes another stream, and its device, the one in use."""
    facula.cuda.set_stream(stream)


def synchronize(device: Device = None, /) -> None:
    """Waits for the device's work."""
    facula.cuda.synchronize(device)


class device_index:
    """Context: another device is in use inside; None changes nothing."""

    def __init__(self, device: Device, /) -> None:
        self._device = device

    def __enter__(self) -> None:
        if self._device is not None and is_available():
            self._before = current_device_index()
            set_device_index(self._device)

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_before"):
            set_device_index(self._before)


current_device_idx, set_device_idx = current_device_index, set_device_index
