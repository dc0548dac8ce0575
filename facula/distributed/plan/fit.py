"""Fit a cluster to measured collectives."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from .cluster import Cluster, Link
from .collectives import agreement, best

if TYPE_CHECKING:
    from collections.abc import Sequence


def least_squares(rows: Any, values: Any) -> np.ndarray[Any, Any]:
    """Return ``x >= 0`` with the least ``|rows @ x - values|``: the best of all choices of what is 0. For a handful of columns.

    Args:
        rows: a matrix.
        values: a number for each row.

    >>> from torch.distributed.plan.fit import least_squares
    >>> least_squares([[1, 0], [0, 1]], [2, -1])
    array([2., 0.])
    """
    rows, values = np.asarray(rows, float), np.asarray(values, float)
    best, chosen = np.zeros(rows.shape[1]), float(np.sum(values**2))
    for count in range(1, rows.shape[1] + 1):
        for columns in map(list, itertools.combinations(range(rows.shape[1]), count)):
            x, *_ = np.linalg.lstsq(rows[:, columns], values, rcond=None)
            error = float(np.sum((rows[:, columns] @ x - values) ** 2))
            if (x >= 0).all() and error < chosen * (1 - 1e-12):
                best, chosen = np.zeros(rows.shape[1]), error
                best[columns] = x
    return best


def fit(measured: Sequence[Sequence[Any]], processors: float | None, overlap: float = 1.0,
        copy: float = 0.0) -> Cluster:  # fmt: skip
    """Return the cluster, of one node, whose collectives take what was measured.

    Ratios count, so that small messages do as much as large ones, and a time that is told too short as much as one too long.
    They and the algorithms depend on what is fitted: a few rounds settle it.

    Args:
        measured: a list of [kind, ranks, bytes, seconds].
        processors: how many ranks can run at once; None where each has a device of its own.
        overlap, copy: as in a Cluster.

    >>> from torch.distributed.plan import Cluster, cost
    >>> from torch.distributed.plan.fit import fit
    >>> sizes = (1000, 100_000, 10_000_000)
    >>> measured = [["all_gather", 2, size, 1e-5 + size * 1e-9] for size in sizes]
    >>> fitted = fit(measured, processors=None)
    >>> 0.8 < cost(fitted, "all_gather", 2, 10_000_000) / 0.01 < 1.2
    True
    """
    most = max(ranks for _, ranks, _, _ in measured)
    cluster = Cluster(
        most, Link(2e-6, 4e9), Link(2e-6, 4e9), 5e-6, True, 1e-10, copy, 0.0, processors, overlap, [list(m) for m in measured]
    )
    seconds = np.array([entry[3] for entry in measured])
    told = seconds
    # The algorithm that a collective takes depends on the cluster, so that rows and cluster are computed alternately.
    # Iteratively reweighted least squares makes errors relative.
    for _ in range(20):
        rows = np.array([
            _shares(cluster, ranks, agreement(cluster, ranks) + best(cluster, kind, ranks, nbytes)[2])
            for kind, ranks, nbytes, _ in measured
        ])  # fmt: skip
        far = np.abs(np.log(told / seconds))  # of those that were disturbed, only the direction counts
        weights = 1 / np.sqrt(seconds * told * np.maximum(1, far / 0.5))
        fitted = least_squares(rows * weights[:, None], seconds * weights)
        told = np.maximum(rows @ fitted, seconds / 100)
        call, latency, each_byte, each_sum, switch = fitted.tolist()
        link = Link(latency, 1 / max(each_byte, 1e-15))
        cluster = dataclasses.replace(cluster, inside=link, between=link, call=call, reduce=each_sum, switch=switch)
    return cluster


def _shares(cluster: Cluster, ranks: int, rounds) -> list[float]:
    """Return what call, latency, a byte sent, a byte added and a switch are multiplied with, in the time of rounds."""
    crowd = cluster.crowding(ranks)
    messages, moved = sum(r.times for r in rounds), sum(r.times * r.bytes for r in rounds)
    return [crowd, messages * crowd, moved * crowd, sum(r.times * r.reduced for r in rounds) * crowd, messages * (crowd > 1)]
