"""Define functions of shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Size


def broadcast_shapes(*shapes: Sequence[int] | int | tuple[Any, ...]) -> Size:
    """Return the shape that tensors of these shapes broadcast to.

    Shapes are aligned at their ends; sizes that meet are equal or one of them is 1. No tensor is made.

    Args:
        shapes: sequences of sizes; an int stands for a shape of one dimension.

    Returns: a Size.

    Errors: RuntimeError for shapes that do not broadcast, and for negative sizes.

    >>> torch.broadcast_shapes((2, 1), (3,), (4, 1, 1))
    torch.Size([4, 2, 3])
    """
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
