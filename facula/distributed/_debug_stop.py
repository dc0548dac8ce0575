"""A debugger in one of several processes."""

from __future__ import annotations

import datetime
import pdb
import sys
from typing import TYPE_CHECKING

from ._collectives import barrier
from ._group import get_rank, member

if TYPE_CHECKING:
    from typing import Any


class _Debugger(pdb.Pdb):
    """Reads the terminal, which children of a launcher are not given."""

    def interaction(self, *args, **kwargs):
        stdin = sys.stdin
        try:
            with open("/dev/stdin") as sys.stdin:
                super().interaction(*args, **kwargs)
        finally:
            sys.stdin = stdin


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Stops one rank in the debugger, while the others wait for it; every command that runs the program runs it on. All
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
    before, group._timeout = group._timeout, datetime.timedelta(seconds=timeout_s)
    try:
        barrier()
    finally:
        group._timeout = before


_calls: dict[Any, Any] = {}
