"""Implement the functions of CUDA's run-time library that programs call by `cuda.cudart()`, with the driver."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from facula import _C

from ._device import _need_device
from .memory import mem_get_info

if TYPE_CHECKING:
    from facula.types import Device

__all__ = ["CudaError", "check_error", "cudaError", "cudaStatus", "cudart"]


class cudaError(enum.IntEnum):
    """Name the results of CUDA calls: success, or an error."""

    success = 0
    invalidValue = 1
    memoryAllocation = 2
    initializationError = 3
    notReady = 600


class cudaStatus:
    """Name two of those results under a name of old programs.

    >>> torch.cuda.cudaStatus.SUCCESS, torch.cuda.cudaStatus.ERROR_NOT_READY
    (0, 34)
    """

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


class CudaError(RuntimeError):
    """Report a call of CUDA that failed.

    Args:
        code: the number that it gave.

    >>> str(torch.cuda.CudaError(2)).endswith("(2)")
    True
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"{_C._cuda_error_text(int(code))} ({int(code)})")


def check_error(res: int) -> None:
    """Raise CudaError unless a call of CUDA succeeded.

    Args:
        res: what the call gave: cudaError.success or another number.

    >>> torch.cuda.check_error(0)
    """
    if res != cudaError.success:
        raise CudaError(res)


class _Runtime:
    """Hold cudaError and functions that return one of its members; `cuda.cudart()` returns this class."""

    cudaError = cudaError

    @staticmethod
    def cudaGetErrorString(error: int) -> str:
        """Return what an error means."""
        return _C._cuda_error_text(int(error))

    @staticmethod
    def cudaMemGetInfo(device: Device) -> tuple[int, int]:
        """Return (free, total) bytes of a device."""
        return mem_get_info(device)

    @staticmethod
    def cudaProfilerStart() -> int:
        """Let NVIDIA's profilers record from here on, when they were told to wait for it."""
        return cudaError.success if _C._cuda_profiler_control(True) == 0 else cudaError.initializationError

    @staticmethod
    def cudaProfilerStop() -> int:
        """Let NVIDIA's profilers stop."""
        return cudaError.success if _C._cuda_profiler_control(False) == 0 else cudaError.initializationError


def cudart() -> type[_Runtime]:
    """Return the functions of CUDA's run-time library that there are: error texts, free memory, control of NVIDIA's profilers.

    Errors: NotImplementedError without a device.

    >>> if torch.cuda.is_available():
    ...     free, total = torch.cuda.cudart().cudaMemGetInfo(0)
    """
    _need_device("init")
    return _Runtime
