"""Control of NVIDIA's profilers (Nsight), which record between start() and stop() when told to. The profiler of the package
itself is `facula.profiler`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula.cuda._runtime import check_error, cudart

if TYPE_CHECKING:
    from typing import Any

__all__ = ["start", "stop", "profile"]


def start() -> None:
    """They record from here on. CudaError where the driver refuses."""
    check_error(cudart().cudaProfilerStart())


def stop() -> None:
    """They stop."""
    check_error(cudart().cudaProfilerStop())


@contextlib.contextmanager
def profile():
    """Context: they record inside."""
    start()
    try:
        yield
    finally:
        stop()


def __getattr__(name: str) -> Any:
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.profiler", name)
