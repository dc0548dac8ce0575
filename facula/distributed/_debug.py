"""The level of checks that programs ask for."""

from __future__ import annotations

import enum
import os

_VARIABLE = "TORCH_DISTRIBUTED_DEBUG"


class DebugLevel(enum.Enum):
    """How much PyTorch checks: OFF, INFO or DETAIL. Here processes always compare what they call, whatever the level.

    >>> torch.distributed.DebugLevel["INFO"].value
    1
    """

    OFF, INFO, DETAIL = range(3)


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """The level that was set, at first that of TORCH_DISTRIBUTED_DEBUG, OFF without it.

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
    """Sets the level that `get_debug_level` tells; it changes nothing else.

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
    """Takes the level from TORCH_DISTRIBUTED_DEBUG: OFF, INFO or DETAIL, OFF where it is not set. RuntimeError for another
    value.

    >>> torch.distributed.set_debug_level_from_env()
    """
    text = os.environ.get(_VARIABLE, "OFF")
    if text.upper() not in DebugLevel.__members__:
        raise RuntimeError(f"set_debug_level_from_env: {_VARIABLE} must be OFF, INFO or DETAIL, got {text!r}")
    set_debug_level(DebugLevel[text.upper()])
