"""Reductions whose results depend on Python options: `unique`, `unique_consecutive`, `histogramdd`."""

from __future__ import annotations

from typing import NamedTuple

from . import _C


def _chosen(results, return_inverse: bool, return_counts: bool):
    """The first result alone, or a tuple with those that were asked for."""
    values, inverse, counts = results
    if not return_inverse and not return_counts:
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


def _distinct_slices(input, dim: int, consecutive: bool):
    first, inverse, counts = _C._unique_rows(input, dim, consecutive)
    if input.dim() == 0:
        return input.reshape(1), inverse, counts
    index = [slice(None)] * input.dim()
    index[dim] = first
    return input[tuple(index)], inverse, counts


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements of a tensor in ascending order, or its distinct slices along `dim`.

    With `return_inverse` also the place of each element (slice) among them, shaped as `input` (its size along `dim`),
    and with `return_counts` how often each occurs, both int64. The result is in order whatever `sorted` says.
    """
    results = _C._unique_sorted(input) if dim is None else _distinct_slices(input, dim, False)
    return _chosen(results, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The first of every run of equal neighbours, of the flattened tensor or among its slices along `dim`.

    With `return_inverse` also the run of each element (slice), and with `return_counts` the lengths of the runs, both
    int64.
    """
    results = _C._unique_runs(input) if dim is None else _distinct_slices(input, dim, True)
    return _chosen(results, return_inverse, return_counts)


_C._install_methods({"unique": unique, "unique_consecutive": unique_consecutive})


class histogramdd_result(NamedTuple):
    hist: object
    bin_edges: tuple


def _edges(values, bins: int, limits):
    """`bins + 1` evenly spaced edges over `limits`, or over the range of `values` (widened when it is a point)."""
    return (
        _C.histogram(values, bins, range=limits)[1] if limits is not None else _C.histogram(values, bins)[1]
    )


def histogramdd(input, bins, range=None, weight=None, density=False):
    """The histogram of points, whose coordinates are the last dimension of `input`.

    `bins` is a number of bins for all coordinates, one number per coordinate, or one tensor of edges per coordinate;
    `range` holds a lowest and a highest edge for each coordinate. Returns `(hist, bin_edges)`.
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"histogramdd: points in the last of two or more dimensions, got shape {tuple(input.shape)}"
        )
    count = input.shape[-1]
    bins = [bins] * count if isinstance(bins, int) else list(bins)
    if len(bins) != count:
        raise RuntimeError(f"histogramdd: one entry of bins per coordinate ({count}), got {len(bins)}")
    if all(isinstance(b, int) for b in bins):
        if range is not None and len(range) != 2 * count:
            raise RuntimeError(
                f"histogramdd: two entries of range per coordinate ({2 * count}), got {len(range)}"
            )
        limits = [None if range is None else list(range[2 * i : 2 * i + 2]) for i, _ in enumerate(bins)]
        edges = [_edges(input[..., i], b, limits[i]) for i, b in enumerate(bins)]
    else:
        edges = bins
    points = input.reshape(-1, count)
    if weight is None:
        weight = _C.ones(points.shape[0], dtype=input.dtype)
    return histogramdd_result(_C._histogramdd(points, edges, weight.reshape(-1), density), tuple(edges))
