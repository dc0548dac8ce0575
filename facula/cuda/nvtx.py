"""Mark events and ranges for NVIDIA's profilers (Nsight Systems) by NVTX's protocol. The profiler names its library in
the environment; without one, nothing happens. `facula.profiler.record_function` names ranges of the package's own
profiler.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]


def range_push(msg: str) -> Any:
    """Begin a range of this thread; return how many ranges are open around it, -2 where no profiler listens.

    Args:
        msg: its name.

    >>> depth = torch.cuda.nvtx.range_push("step")
    >>> depth == torch.cuda.nvtx.range_pop()
    True
    """
    return _C._nvtx_push(msg)


def range_pop() -> Any:
    """End the thread's innermost range; return its depth, -2 where no profiler listens.

    >>> depth = torch.cuda.nvtx.range_push("step")
    >>> torch.cuda.nvtx.range_pop() == depth
    True
    """
    return _C._nvtx_pop()


def range_start(msg: str) -> Any:
    """Begin a range that may end on another thread; return its handle for range_end.

    Args:
        msg: its name.

    >>> handle = torch.cuda.nvtx.range_start("copy")
    >>> torch.cuda.nvtx.range_end(handle)
    """
    return _C._nvtx_start(msg)


def range_end(range_id: Any) -> None:
    """End a range that range_start began.

    Args:
        range_id: its handle.

    >>> torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("copy"))
    """
    _C._nvtx_end(range_id)


def mark(msg: str) -> None:
    """Mark a moment.

    Args:
        msg: its name.

    >>> torch.cuda.nvtx.mark("epoch begins")
    """
    _C._nvtx_mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any):
    """Open a range of this thread for the block.

    Args:
        msg: its name, in which `{}` stand for the arguments.
        args, kwargs: what is put into it: `msg.format(*args, **kwargs)`.

    >>> with torch.cuda.nvtx.range("step {}", 3):
    ...     y = torch.ones(2) + 1
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
