"""Use the accelerator of this machine, whichever kind it is: CUDA or none."""

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
    from collections.abc import Callable
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
    """Return whether there is an accelerator: a CUDA device.

    >>> torch.accelerator.is_available() == torch.cuda.is_available()
    True
    """
    return facula.cuda.is_available()


def device_count() -> Any:
    """Return how many devices of the accelerator's kind there are; 0 without one.

    >>> torch.accelerator.device_count() == torch.cuda.device_count()
    True
    """
    return facula.cuda.device_count()


def current_accelerator(check_available: bool = False) -> Any:
    """Return the accelerator's device type as a device without a number, None where there is none.

    Args:
        check_available: accepted; what is not there is None in any case.

    >>> device = torch.accelerator.current_accelerator() or torch.device("cpu")
    >>> torch.ones(2, device=device).sum().item()
    2.0
    """
    return facula.device("cuda") if is_available() else None


def get_device_capability(device: Device = None, /) -> Any:
    """Return what the device can do: {"supported_dtypes": the dtypes that its tensors can have}.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.accelerator.is_available():
    ...     assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
    """
    facula.cuda._index(device, "get_device_capability")
    dtypes = {value for value in vars(facula._C).values() if isinstance(value, facula.dtype)}
    return {"supported_dtypes": dtypes}


def current_device_index() -> Any:
    """Return the number of the current device.

    Errors: NotImplementedError without a device.

    >>> if torch.accelerator.is_available():
    ...     assert torch.accelerator.current_device_index() == torch.cuda.current_device()
    """
    return facula.cuda.current_device()


def set_device_index(device: Device, /) -> None:
    """Make another device the current one.

    Args:
        device: its number or name.

    Errors: NotImplementedError without a device.

    >>> if torch.accelerator.is_available():
    ...     torch.accelerator.set_device_index(0)
    """
    facula.cuda.set_device(device)


def current_stream(device: Device = None, /) -> Any:
    """Return the stream that this thread's work goes to.

    Args:
        device: of which device; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.accelerator.is_available():
    ...     torch.accelerator.set_stream(torch.accelerator.current_stream())
    """
    return facula.cuda.current_stream(device)


def set_stream(stream: Stream) -> None:
    """Make another stream, and its device, the current one.

    Args:
        stream: the stream; None changes nothing.

    >>> if torch.accelerator.is_available():
    ...     torch.accelerator.set_stream(torch.cuda.Stream())
    ...     torch.accelerator.set_stream(torch.cuda.default_stream())
    """
    facula.cuda.set_stream(stream)


def synchronize(device: Device = None, /) -> None:
    """Wait for all work of a device.

    Args:
        device: which; None: the current one.

    Errors: NotImplementedError without a device.

    >>> if torch.accelerator.is_available():
    ...     torch.accelerator.synchronize()
    """
    facula.cuda.synchronize(device)


class device_index:
    """Make another device the current one in a block.

    Args:
        device: its number; None changes nothing.

    >>> with torch.accelerator.device_index(None):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, device: Device, /) -> None:
        self._device = device

    def __enter__(self) -> None:
        if self._device is not None and is_available():
            self._before = current_device_index()
            set_device_index(self._device)

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_before"):
            set_device_index(self._before)


current_device_idx: Callable[[], Any] = current_device_index
set_device_idx: Callable[[Device], None] = set_device_index
