"""Control of NVIDIA's profilers (Nsight), which record between start() and stop() when told to. The profiler of the package
itself is `facula.profiler`."""

import contextlib

from facula.cuda._runtime import check_error, cudart

__all__ = ["start", "stop", "profile"]


def start():
    """They record from here on. CudaError where the driver refuses."""
    check_error(cudart().cudaProfilerStart())


def stop():
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


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch.cuda.profiler", name)
