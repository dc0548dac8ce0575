"""Mark functions that other workers call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["async_execution"]


def async_execution(fn: Callable[..., Any]) -> Any:
    """Say that the function gives a Future: its value, when it comes, is the answer to the call, and no thread waits for it.

    It goes below `staticmethod` and `classmethod`.

    Args:
        fn: the function.

    >>> from torch.distributed import rpc
    >>> @rpc.functions.async_execution
    ... def twice(to, x):
    ...     return rpc.rpc_async(to, torch.mul, (x, 2))  # e.g. of a third worker
    >>> rpc.init_rpc("me", rank=0, world_size=1)
    >>> twice("me", torch.ones(2)).wait()
    tensor([2., 2.])
    >>> rpc.shutdown()
    """

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    wrapper._rpc_gives_future = True
    return wrapper
