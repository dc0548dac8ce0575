"""Compute the derivative of sampled functions by finite differences: `gradient`."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence

Tensor = _C.Tensor


def gradient(input: Tensor, *, spacing: Sequence[Tensor | float] | float = 1, dim: int | None = None,
             edge_order: int = 1) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the derivatives of the samples `input` along each dimension, or along `dim`, by finite differences.

    Inside, the difference quotient of second order of the two neighbors, weighted by their distances (Fornberg 1988);
    at the two ends one of order `edge_order` from one side.

    Args:
        input: the samples, of a signed, floating or complex dtype.
        spacing: the distance of two samples; or per dimension that distance; or per dimension a 1-D tensor with the
            coordinates of the samples.
        dim: a dimension or several; None for all.
        edge_order: 1 or 2.

    Returns: a tuple with one tensor of the shape of `input` per dimension, recorded for differentiation.

    Errors: RuntimeError for fewer than edge_order + 1 samples, uint8 and bool samples, or spacing that does not fit dim.

    >>> torch.gradient(torch.tensor([0., 1., 4., 9.]), edge_order=2)
    (tensor([0., 2., 4., 6.]),)
    >>> torch.gradient(torch.tensor([0., 1., 9.]), spacing=[torch.tensor([0., 1., 3.])])
    (tensor([1., 2., 4.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order is 1 or 2, got {edge_order}")
    if input.dtype in (_C.uint8, _C.bool):
        raise RuntimeError(f"gradient: differences need a signed dtype, got {input.dtype}")
    dims = _dims(input, dim)
    spacings = _spacings(spacing, dims, dim is not None)
    for d, step in zip(dims, spacings):
        size = input.shape[d]
        if size <= edge_order:
            raise RuntimeError(f"gradient: edge_order + 1 = {edge_order + 1} samples along dim {d} at least, got {size}")
        if isinstance(step, Tensor) and step.shape != (size,):
            raise RuntimeError(f"gradient: {size} coordinates for dim {d}, got spacing of shape {tuple(step.shape)}")
    return tuple(_along(input, d, step, edge_order) for d, step in zip(dims, spacings))


def _dims(input, dim):
    if dim is None:
        return range(input.dim())
    given = [dim] if isinstance(dim, int) else list(dim)
    for d in given:
        if not -input.dim() <= d < input.dim():
            raise IndexError(f"gradient: dim lies in [{-input.dim()}, {input.dim() - 1}], got {d}")
    dims = [d % input.dim() for d in given]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"gradient: expected every dim at most once, got {dim}")
    return dims


def _spacings(spacing, dims, chosen):
    """Return one distance, or 1-D tensor of coordinates, for each of `dims`."""
    if isinstance(spacing, Tensor) and spacing.dim() == 0:
        spacing = spacing.item()
    if spacing is None or isinstance(spacing, Number):
        return [1 if spacing is None else spacing] * len(dims)
    if not isinstance(spacing, (tuple, list)):
        raise TypeError(f"gradient: spacing is a number, or a sequence of numbers or tensors, got {type(spacing).__name__}")
    kinds = {isinstance(s, Tensor) for s in spacing}
    if len(kinds) > 1 or not all(isinstance(s, (Tensor, Number)) for s in spacing):
        kinds = ", ".join(type(s).__name__ for s in spacing)
        raise TypeError(f"gradient: spacing holds numbers, or tensors of coordinates, got {kinds}")
    if len(spacing) != len(dims):
        which = "dim" if chosen else "dimension of input"
        wanted = f"one number or one entry for each {which} ({len(dims)})"
        raise RuntimeError(f"gradient: expected spacing to be {wanted}, got {len(spacing)}")
    return spacing


def _along(x, d, step, edge_order):
    n = x.shape[d]

    def at(start, count=1):
        return x.narrow(d, start, count)

    if isinstance(step, Tensor):
        shape = [1] * x.dim()
        shape[d] = n - 1
        gaps = (step[1:] - step[:-1]).reshape(shape)
        first, last = (gaps.narrow(d, 0, min(2, n - 1)), gaps.narrow(d, max(n - 3, 0), min(2, n - 1)).flip(d))
    else:
        gaps = first = last = None
    parts = [_edge(at, [0, 1, 2], first, step, d, edge_order)]
    if n > 2:
        parts.append(_inside(at, n, gaps, step, d))
    parts.append(-_edge(at, [n - 1, n - 2, n - 3], last, step, d, edge_order))
    return _C.cat(parts, d)


def _inside(at, n, gaps, step, d):
    before, here, after = at(0, n - 2), at(1, n - 2), at(2, n - 2)
    if gaps is None:
        return (after - before) / (2 * step)
    left, right = gaps.narrow(d, 0, n - 2), gaps.narrow(d, 1, n - 2)
    # The slope in the middle of the parabola through three points at unequal distances.
    whole = left + right
    return (
        after * (left / (right * whole)) + here * ((right - left) / (left * right)) - before * (right / (left * whole))
    )


def _edge(at, places, gaps, step, d, edge_order):
    """Return the derivative in the direction from places[0] to places[1]."""
    if edge_order == 1:
        return (at(places[1]) - at(places[0])) / (step if gaps is None else gaps.narrow(d, 0, 1))
    f0, f1, f2 = (at(p) for p in places)
    if gaps is None:
        return (-1.5 * f0 + 2.0 * f1 - 0.5 * f2) / step
    # The slope at the end of the parabola through the first three points.
    a, b = gaps.narrow(d, 0, 1), gaps.narrow(d, 1, 1)
    return -f0 * ((2.0 * a + b) / (a * (a + b))) + f1 * ((a + b) / (a * b)) - f2 * (a / (b * (a + b)))
