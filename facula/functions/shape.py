"""Functions of shapes."""

from __future__ import annotations

from facula import _C


def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes (sequences or ints) broadcast to."""
    tuples = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    result = [1] * max(map(len, tuples), default=0)
    for given, shape in zip(shapes, tuples):
        for at, size in enumerate(reversed(shape), start=1):
            if size < 0:
                raise RuntimeError(f"broadcast_shapes: sizes must not be negative, got {given}")
            if size == 1 or result[-at] == size:
                continue
            if result[-at] != 1:
                raise RuntimeError(
                    f"broadcast_shapes: the shapes do not broadcast to one, got {', '.join(map(str, shapes))}"
                )
            result[-at] = size
    return _C.Size(result)
