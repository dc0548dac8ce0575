"""Marks and ranges for NVIDIA's profilers (Nsight Systems), by NVTX's protocol: the profiler names its library in the
environment, and where there is none, nothing happens. `facula.profiler.record_function` names ranges of the package's own
profiler."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]


def range_push(msg: str) -> Any:
    """Begins a range of this thread. How many ranges are open around it; -2 where no profiler listens."""
    return _C._nvtx_push(msg)


def range_pop() -> Any:
    """Ends the thread's innermost range. Its depth; -2 where no profiler listens."""
    return _C._nvtx_pop()


def range_start(msg: str) -> Any:
    """Begins a range that may end on another thread; its handle for range_end."""
    return _C._nvtx_start(msg)


def range_end(range_id: Any) -> None:
    """Ends it."""
    _C._nvtx_end(range_id)


def mark(msg: str) -> None:
    """Marks a moment."""
    _C._nvtx_mark(msg)


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """Context: a range, named `msg.format(*args, **kwargs)`."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
