"""Find the device that an argument names, and raise an error where there is none."""

from __future__ import annotations

import facula
from facula import _C

_is_in_bad_fork = _C._cuda_is_in_bad_fork  # whether this process was forked by one that had begun to use CUDA


def _need_device(name, given="no device"):
    """Raise unless there is a CUDA device that this process may use."""
    if _is_in_bad_fork():
        raise RuntimeError(
            f"cuda.{name}: CUDA cannot be used in a forked process whose parent has begun to use it; processes that "
            "use it are to be started with multiprocessing's method 'spawn' (multiprocessing.set_start_method(\"spawn\")), "
            f"got {given} in one that was forked"
        )
    if not _C._cuda_device_count():
        from facula.compat import placeholders

        why = f"there is no CUDA device to use: {_C._cuda_why_unavailable()}"
        raise placeholders.NoDeviceError(f"cuda.{name}: {why}, got {given}")


def _index(device, name, optional=True):
    """Return the number of a device given as a number, "cuda:1", a `device`, or None for the current one."""
    _need_device(name, device)
    if device is None and optional:
        return _C._cuda_current_device()
    if not isinstance(device, int):
        given = facula.device(device)
        if given.type != "cuda":
            raise ValueError(f"{name}: a CUDA device, got {device}")
        device = -1 if given.index is None else given.index
    if device < 0:
        return _C._cuda_current_device()
    if device >= _C._cuda_device_count():
        raise AssertionError(f"{name}: a CUDA device of the {_C._cuda_device_count()} that there are, got {device}")
    return device
