"""Functions on shapes, and functions that take their tensors spread out."""

from __future__ import annotations

from . import _C

__all__ = ["broadcast_shapes"]


def broadcast_shapes(*shapes):
    """The shape that tensors of the given shapes (tuples, or ints for vectors) broadcast to, as a Size.

    Errors: RuntimeError for sizes that differ and are not 1, or a negative size; TypeError for anything else than ints.
    """
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    result = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        for at, size in enumerate(shape, start=len(result) - len(shape)):
            size = size.__index__()
            if size < 0:
                raise RuntimeError(f"broadcast_shapes: a size must not be negative, got {size} in {shape}")
            if size != 1 and result[at] not in (1, size):
                raise RuntimeError(f"broadcast_shapes: sizes must be equal or 1, got {shapes}")
            result[at] = result[at] if size == 1 else size
    return _C.Size(result)
