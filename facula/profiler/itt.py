"""Provide ranges and marks for Intel's VTune, which do nothing here because its library does not collect."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return whether ranges reach VTune: False, since its library is not linked.

    >>> torch.profiler.itt.is_available()
    False
    """
    return False


def _refuse(name, given) -> NoReturn:
    raise RuntimeError(f"profiler.itt.{name}: ITT functions not installed: ask is_available() first, got {given}")


def range_push(msg: str) -> None:
    """Begin a range. Raises RuntimeError, since VTune's library is not linked.

    Args:
        msg: its name.

    >>> if torch.profiler.itt.is_available():
    ...     torch.profiler.itt.range_push("forward")
    """
    _refuse("range_push", repr(msg))


def range_pop() -> None:
    """End the innermost range. Raises RuntimeError, since VTune's library is not linked.

    >>> if torch.profiler.itt.is_available():
    ...     torch.profiler.itt.range_pop()
    """
    _refuse("range_pop", "a call")


def mark(msg: str) -> None:
    """Mark a moment. Raises RuntimeError, since VTune's library is not linked.

    Args:
        msg: its name.

    >>> if torch.profiler.itt.is_available():
    ...     torch.profiler.itt.mark("step")
    """
    _refuse("mark", repr(msg))


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Name what runs within the block. Raises RuntimeError, since VTune's library is not linked.

    Args:
        msg: a name, formatted with the other arguments.
        args, kwargs: what it is formatted with.

    >>> with torch.profiler.itt.range("step {}", 3):
    ...     pass
    Traceback (most recent call last):
    RuntimeError: profiler.itt.range_push: ITT functions not installed: ask is_available() first, got 'step 3'
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
