"""Bound how deeply the values of one load are nested in each other without a dict, list or set between them.

The interpreter hashes, compares, prints and frees nested tuples by recursion in C, and NumPy frees nested arrays of
objects in the same way; neither looks at how much stack is left. The depth is therefore bounded where such values are
made, so that no later step can exhaust the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Far below the recursion of C code that an 8 MiB stack allows, and above what programs save.
_DEPTH = 200
#: Most parts of most tuples; dicts and lists hold tuples, but keep what recurses apart.
_HOLD_NO_TUPLE = frozenset({int, str, float, bool, type(None), bytes, dict, list})


class Nesting:
    """Record the depth of every tuple, and of every array of objects, that holds others."""

    def __init__(self):
        self._known = {}  # id -> (depth, the object: kept, so that the id stays its own)

    def around(self, value: Any, parts: Sequence[Any] | tuple[Any, ...]) -> tuple[Any, ...]:
        """Return `value`, which was just made of `parts`, if it is a tuple of any class; ValueError when too deep."""
        if isinstance(value, tuple):
            depth = self._depth(parts)
            if depth:
                self._known[id(value)] = depth + 1, value
        return value

    def enclose(self, value: Any, parts: Sequence[int | None]) -> Any:
        """Return what `around` gives, for an array of objects."""
        self._known[id(value)] = self._depth(parts) + 1, value
        return value

    def _depth(self, parts):
        depth, known = 0, self._known
        for part in parts:
            # By the exact type, because a subclass may hold a tuple.
            if type(part) in _HOLD_NO_TUPLE:
                continue
            inner = known.get(id(part))
            if inner is not None:
                depth = max(depth, inner[0])
            elif depth == 0 and isinstance(part, tuple):
                depth = 1
        if depth >= _DEPTH:
            raise ValueError(f"tuples or arrays are nested in each other more than {_DEPTH} deep")
        return depth
