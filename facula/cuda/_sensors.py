"""Read the sensors of a device from NVIDIA's management library: use, temperature, power, clocks, processes.

The library is used through the package `nvidia-ml-py` (module pynvml), which is imported at the first call.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from facula import _C

from ._device import _index

if TYPE_CHECKING:
    from facula.types import Device

__all__ = ["clock_rate", "device_memory_used", "list_gpu_processes", "memory_usage", "power_draw", "temperature", "utilization"]


def _library():
    try:
        import pynvml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "nvml: the package nvidia-ml-py (module pynvml) is needed here and is not installed"
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_DriverNotLoaded as error:
        raise RuntimeError("nvml: NVIDIA's driver is not loaded, so that its management library cannot be asked") from error
    return pynvml


def _number(index):
    """Return the number of a device in the management library, which does not know CUDA_VISIBLE_DEVICES."""
    visible = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    if not visible:
        return index
    return int(visible[index]) if visible[index].isdigit() else visible[index].encode()


def _asked(device, name):
    index = _index(device, name)
    if _C._cuda_is_emulated():
        raise RuntimeError(f"cuda.{name}: expected a device of NVIDIA, got the emulated one")
    library, number = _library(), _number(index)
    by_number = isinstance(number, int)
    return library, (library.nvmlDeviceGetHandleByIndex if by_number else library.nvmlDeviceGetHandleByUUID)(number)


def device_memory_used(device: Device = None) -> int:
    """Return the bytes in use on the device, by all processes.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device; ModuleNotFoundError without the package nvidia-ml-py.

    >>> import importlib.util
    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated() and importlib.util.find_spec("pynvml"):
    ...     used = torch.cuda.device_memory_used()
    """
    library, handle = _asked(device, "device_memory_used")
    return library.nvmlDeviceGetMemoryInfo(handle).used


def memory_usage(device: Device = None) -> int:
    """Return the percent of the last moments in which the device's memory was read or written.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device; ModuleNotFoundError without the package nvidia-ml-py.

    >>> import importlib.util
    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated() and importlib.util.find_spec("pynvml"):
    ...     assert 0 <= torch.cuda.memory_usage() <= 100
    """
    library, handle = _asked(device, "memory_usage")
    return library.nvmlDeviceGetUtilizationRates(handle).memory


def utilization(device: Device = None) -> int:
    """Return the percent of the last moments in which a kernel ran.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device; ModuleNotFoundError without the package nvidia-ml-py.

    >>> import importlib.util
    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated() and importlib.util.find_spec("pynvml"):
    ...     assert 0 <= torch.cuda.utilization() <= 100
    """
    library, handle = _asked(device, "utilization")
    return library.nvmlDeviceGetUtilizationRates(handle).gpu


def temperature(device: Device = None) -> int:
    """Return the temperature of the chip, in degrees Celsius.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device; ModuleNotFoundError without the package nvidia-ml-py.

    >>> import importlib.util
    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated() and importlib.util.find_spec("pynvml"):
    ...     assert torch.cuda.temperature() > 0
    """
    library, handle = _asked(device, "temperature")
    return library.nvmlDeviceGetTemperature(handle, 0)


def power_draw(device: Device = None) -> int:
    """Return the power that the device draws, in milliwatts.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device; ModuleNotFoundError without the package nvidia-ml-py.

    >>> import importlib.util
    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated() and importlib.util.find_spec("pynvml"):
    ...     assert torch.cuda.power_draw() > 0
    """
    library, handle = _asked(device, "power_draw")
    return library.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device: Device = None) -> int:
    """Return the clock of the multiprocessors, in MHz.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device; ModuleNotFoundError without the package nvidia-ml-py.

    >>> import importlib.util
    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated() and importlib.util.find_spec("pynvml"):
    ...     assert torch.cuda.clock_rate() > 0
    """
    library, handle = _asked(device, "clock_rate")
    return library.nvmlDeviceGetClockInfo(handle, 1)


def list_gpu_processes(device: Device = None) -> str:
    """Return the processes that use the device, with their memory, as a text.

    Args:
        device: its number or name; None: the current one.

    Errors: NotImplementedError without a device; ModuleNotFoundError without the package nvidia-ml-py.

    >>> import importlib.util
    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated() and importlib.util.find_spec("pynvml"):
    ...     assert torch.cuda.list_gpu_processes().startswith("GPU:")
    """
    library, handle = _asked(device, "list_gpu_processes")
    lines = [
        f"process {process.pid:>10d} uses {process.usedGpuMemory / 2**20:>12.3f} MB GPU memory"
        for process in library.nvmlDeviceGetComputeRunningProcesses(handle)
    ]
    return "\n".join([f"GPU:{_index(device, 'list_gpu_processes')}", *(lines or ["no processes are running"])])
