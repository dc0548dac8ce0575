"""Hold the level of checks that programs set."""

from __future__ import annotations

import datetime
import enum
import os
import pdb
import sys
from typing import TYPE_CHECKING

from ._collectives import barrier
from ._group import get_rank, member

if TYPE_CHECKING:
    from typing import Any


# ---- A debugger in one of several processes


class _Debugger(pdb.Pdb):
    """Read commands from the terminal directly, because children of a launcher have no standard input."""

    def interaction(self, *args, **kwargs):
        stdin = sys.stdin
        try:
            with open("/dev/stdin") as sys.stdin:
                super().interaction(*args, **kwargs)
        finally:
            sys.stdin = stdin


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Stop one rank in the debugger, while the others wait for it; every command that runs the program runs it on. All
    processes call it.

    Args:
        rank: which one.
        skip: the number of calls, from this line, that are not stopped at.
        timeout_s: how long the others wait.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> for step in range(3):
    ...     dist.breakpoint(rank=0, skip=100)  # stops at the 101st step
    >>> dist.destroy_process_group()
    """
    # The caller's frame: the debugger must stop in the program, not in this function.
    frame = sys._getframe(1)
    place = (frame.f_code.co_filename, frame.f_lineno)
    _calls[place] = _calls.get(place, 0) + 1
    if _calls[place] <= skip:
        return
    if get_rank() == rank:
        print(f"rank {rank} is in the debugger", file=sys.stderr)
        debugger = _Debugger()
        debugger.reset()
        debugger.interaction(frame, None)
    group = member("breakpoint")
    # The other ranks wait as long as somebody types, which is longer than a collective may usually take.
    before, group._timeout = group._timeout, datetime.timedelta(seconds=timeout_s)
    try:
        barrier()
    finally:
        group._timeout = before


_calls: dict[Any, Any] = {}


_VARIABLE = "TORCH_DISTRIBUTED_DEBUG"


class DebugLevel(enum.Enum):
    """Name how much PyTorch checks: OFF, INFO or DETAIL. In Facula, processes always compare what they call, whatever
    the level is.

    >>> torch.distributed.DebugLevel["INFO"].value
    1
    """

    OFF, INFO, DETAIL = range(3)


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Return the level that was set, at first that of TORCH_DISTRIBUTED_DEBUG, OFF without it.

    >>> import torch.distributed as dist
    >>> dist.set_debug_level(dist.DebugLevel.INFO)
    >>> dist.get_debug_level()
    <DebugLevel.INFO: 1>
    >>> dist.set_debug_level_from_env()
    """
    if _level is None:
        set_debug_level_from_env()
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Set the level that `get_debug_level` tells; it changes nothing else.

    Args:
        level: a DebugLevel; TypeError for anything else.

    >>> import torch.distributed as dist
    >>> dist.set_debug_level(dist.DebugLevel.OFF)
    >>> dist.get_debug_level()
    <DebugLevel.OFF: 0>
    """
    global _level
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level: level must be a DebugLevel, got {type(level).__name__}")
    _level = level


def set_debug_level_from_env() -> None:
    """Take the level from TORCH_DISTRIBUTED_DEBUG: OFF, INFO or DETAIL, OFF where it is not set. RuntimeError for another
    value.

    >>> torch.distributed.set_debug_level_from_env()
    """
    text = os.environ.get(_VARIABLE, "OFF")
    if text.upper() not in DebugLevel.__members__:
        raise RuntimeError(f"set_debug_level_from_env: {_VARIABLE} must be OFF, INFO or DETAIL, got {text!r}")
    set_debug_level(DebugLevel[text.upper()])
