"""Show the core's data on compiled functions, and the code that it makes of a recording.

- `CompiledFunction(function, settings)`: a callable with `function`, `state` ("look", "learn", "trial", "follow", "pass"),
  `calls`, `recordings`, `reset()`; methods by `__get__`; a dictionary of its own (`functools.update_wrapper`), weak
  references; copies and deep copies are itself; it takes part in garbage collection (a module holds the compiled form of
  its own method).
- Before the first look at tensors of some sizes and dtypes, and where a call that follows takes a way that no recording knows,
  it asks `settings.look_begins(compiled)`: False means that nothing is recorded; it may raise. When the call ends it calls
  `settings.look_ended(compiled, recording)`, with None where the function raised. Looks do not nest.
- At each demand in a look it calls `facula.compiler._looks.raised(what, source)` and raises what that returns, but for None.
  `what` is bool, item, int, float, index, repr, nonzero (a size that depends on values), or what `demand` was given.
- `demand(what)`: the same, asked for from Python; nothing outside of a look.
- `in_region()`: whether this thread is in a compiled call; `leave()` gives what `enter(state)` takes to go back.
- `force_eager(yes)`: compiled calls are calls of the function, and no regions; returns what was set before.
- `explain(function, args, kwargs)`: (result, Recording) of an eager call that is a region of its own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any


class Recording:
    """Hold the record of a call.

    Attributes:
        ops: (name, form, "file:line" or "", operands, results, group or -1) of each op; made when they are first read.
        count: of the ops.
        demands: (what, "file:line" or "", how many ops before) of each value that the program asked for.
        groups, put_off, never_made, bytes_saved: of the last call that followed: groups that ran, ops that waited, results
            that nobody wanted, and their bytes.
        followed: calls that it served to the end.
        bytes_let_go: of results that were made, and went back to their recipes as only a tape held them.
    """

    def __init__(self, shared: Any, count: int, demands: list[Any], groups: int = 0, put_off: int = 0, never_made: int = 0,
                 bytes_saved: int = 0, followed: int = 0, bytes_let_go: int = 0) -> None:  # fmt: skip
        self._shared, self.count, self.demands, self.groups, self.put_off = shared, count, demands, groups, put_off
        self.never_made, self.bytes_saved, self.followed = never_made, bytes_saved, followed
        self.bytes_let_go = bytes_let_go

    @functools.cached_property
    def ops(self) -> list[tuple[Any, ...]]:
        return _C._region_ops(self._shared)

    def __str__(self) -> str:
        asked: dict[int, list[str]] = {}
        for what, source, before in self.demands:
            asked.setdefault(before, []).append(f"-- {what}" + (f"  # {source}" if source else ""))
        lines = []
        for i, op in enumerate(self.ops):
            lines += [*asked.get(i, ()), op_in_words(op)]
        return "\n".join([*lines, *asked.get(len(self.ops), ())])


def op_in_words(op: tuple[Any, ...]) -> str:
    """Return a line about an op of a recording."""
    name, form, source, _, _, group = op
    name += {"function": "", "inplace": "_", "out": " (out)"}.get(form, "")
    return name + (f"  group {group}" if group >= 0 else "") + (f"  # {source}" if source else "")


CompiledFunction, demand, force_eager = _C._CompiledFunction, _C._region_demand, _C._region_force_eager
in_region, leave, enter, explain = _C._region_on, _C._region_leave, _C._region_enter, _C._region_explain
