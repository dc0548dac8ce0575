"""Control NVIDIA's profilers (Nsight), which can be set to record between start() and stop(). The profiler of the
package itself is `facula.profiler`.
"""

from __future__ import annotations

import contextlib

from facula._shared.on_demand import _on_demand
from facula.cuda._runtime import check_error, cudart

__all__ = ["start", "stop", "profile"]


def start() -> None:
    """Let NVIDIA's profilers record from here on.

    Errors: CudaError where the driver refuses; NotImplementedError without a device.

    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated():
    ...     torch.cuda.profiler.start()
    ...     torch.cuda.profiler.stop()
    """
    check_error(cudart().cudaProfilerStart())


def stop() -> None:
    """Let NVIDIA's profilers stop to record.

    Errors: CudaError where the driver refuses; NotImplementedError without a device.

    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated():
    ...     torch.cuda.profiler.stop()
    """
    check_error(cudart().cudaProfilerStop())


@contextlib.contextmanager
def profile():
    """Let NVIDIA's profilers record inside.

    Errors: CudaError where the driver refuses; NotImplementedError without a device.

    >>> if torch.cuda.is_available() and not torch.cuda.is_emulated():
    ...     with torch.cuda.profiler.profile():
    ...         y = torch.ones(2, device="cuda") + 1
    """
    start()
    try:
        yield
    finally:
        stop()

__getattr__ = _on_demand(__name__)
