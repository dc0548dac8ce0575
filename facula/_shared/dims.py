"""Check and normalize the dimensions that functions written in Python receive."""

from __future__ import annotations


def counted_dims(op, dims, ndim):
    """Return the dimensions of a tensor of `ndim` as numbers from 0; IndexError for one outside, RuntimeError for one that
    comes twice."""
    ndim = max(ndim, 1)
    for dim in dims:
        if not -ndim <= dim < ndim:
            raise IndexError(f"{op}: dimension out of range, expected {-ndim} to {ndim - 1}, got {dim}")
    found = [dim % ndim for dim in dims]
    if len(set(found)) != len(found):
        raise RuntimeError(f"{op}: expected every dimension at most once, got {tuple(dims)}")
    return found
