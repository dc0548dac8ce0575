"""Extend the standard multiprocessing module, so that it sends tensors as shared memory.

Every name of `multiprocessing` is here. A tensor put into a Queue, sent over a Pipe or passed to a Process
moves to shared memory once and is then the same memory in both processes; only a descriptor travels.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from facula import _C

from . import reductions
from .spawn import ENV_VAR_PARALLEL_START as ENV_VAR_PARALLEL_START
from .spawn import ProcessContext as ProcessContext
from .spawn import ProcessExitedException as ProcessExitedException
from .spawn import ProcessRaisedException as ProcessRaisedException
from .spawn import SpawnContext as SpawnContext
from .spawn import spawn as spawn
from .spawn import start_processes as start_processes

__all__ = [
    "set_sharing_strategy",
    "get_sharing_strategy",
    "get_all_sharing_strategies",
    *multiprocessing.__all__,
]

# Memory is anonymous (memfd) under either name: no file in /dev/shm, no limit of its size, no leak when a
# process is killed. Both names exist because programs choose between them.
_ALL_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept "file_descriptor" or "file_system"; memory is shared by descriptor either way.

    `new_strategy` is what get_sharing_strategy says from then on. AssertionError for another one.

    >>> torch.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    global _strategy
    if new_strategy not in _ALL_STRATEGIES:
        raise AssertionError(
            f"set_sharing_strategy: new_strategy must be {_C._one_of(new_strategy, _ALL_STRATEGIES)}"
        )
    _strategy = new_strategy


def get_sharing_strategy() -> str:
    """Return the name last given to set_sharing_strategy; "file_descriptor" before.

    >>> torch.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return _strategy


def get_all_sharing_strategies() -> set[str]:
    """Return the names that set_sharing_strategy accepts, a set.

    >>> sorted(torch.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return set(_ALL_STRATEGIES)


reductions.init_reductions()
