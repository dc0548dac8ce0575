"""What the core's compiled functions tell of themselves, in Python's words (src/python/region.cpp)."""

from __future__ import annotations

from typing import Any

from facula import _C

CompiledFunction = _C.CompiledFunction
in_region = _C._region_on
leave = _C._region_leave
enter = _C._region_enter
demand = _C._region_demand
force_eager = _C._region_force_eager


class Recording:
    """What is remembered of a call.

    Args:
        ops: its ops, tuples (name, form, source, operands, results, group or -1); a source is "file:line", or empty.
        demands: where Python asked for a value, tuples (what, source, number of ops before).
        groups: how many groups of ops ran in the last call that followed.
        put_off: the ops in these.
        never_made: the results that nobody wanted.
        bytes_saved: the bytes of these.
        followed: how many calls followed it.
    """

    def __init__(self, ops: list[Any], demands: list[Any], groups: int, put_off: int, never_made: int, bytes_saved: int, followed: int) -> None:
        self.ops, self.demands = ops, demands
        self.groups, self.put_off, self.never_made, self.bytes_saved, self.followed = groups, put_off, never_made, bytes_saved, followed

    def __str__(self) -> str:
        return "\n".join(f"{name}  # {source}" if source else name for name, _, source, *_ in self.ops)


def explain(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Recording]:
    """Call a function eagerly, and record the call.

    Args:
        function, args, kwargs: the call.

    Returns: its result and the recording.
    """
    return _C._region_explain(function, args, kwargs)
