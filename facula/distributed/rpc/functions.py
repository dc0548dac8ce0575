"""Marks of functions that others call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["async_execution"]


def async_execution(fn: Callable[..., Any]) -> Any:
    """Says that the function gives a Future: its value, when it comes, is the answer to the call, and no thread waits for it.

    It goes below `staticmethod` and `classmethod`.
    """

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    wrapper._rpc_gives_future = True
    return wrapper
