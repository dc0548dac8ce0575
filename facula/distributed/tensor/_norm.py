"""Compute the norm of many DTensors together, without gathering any of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

from ._dtensor import DTensor
from ._spec import Spec
from .placement_types import Partial, Replicate, Shard

if TYPE_CHECKING:
    from typing import Any


def total_norm(tensors, p: float):
    """Return the p-norm of all values, as a DTensor that is whole in every process. Tensors of one layout share their
    messages."""
    totals: dict[Any, Any] = {}
    first = next(t for t in tensors if isinstance(t, DTensor))
    for t in tensors:
        groups, local = (), t
        if isinstance(t, DTensor):
            if any(isinstance(placement, Partial) for placement in t.placements):
                t = t.redistribute(placements=[Replicate() if isinstance(q, Partial) else q for q in t.placements])
            groups = tuple(t.device_mesh.get_group(i) for i, q in enumerate(t.placements) if isinstance(q, Shard))
            local = t._local_tensor
        # Tensors with the same groups are summed before the message, so that there is one for each layout and not for
        # each tensor.
        totals.setdefault(groups, []).append(_powers(local.detach(), p))
    sums = []
    for groups, values in totals.items():
        value = _together(facula.stack([v.to(values[0].device) for v in values]), p)
        for group in groups:
            dist.all_reduce(value, dist.ReduceOp.MAX if p == math.inf else dist.ReduceOp.SUM, group=group)
        sums.append(value)
    result = _together(facula.stack(sums), p)
    if p != math.inf:
        result = result ** (1.0 / p)
    mesh = first.device_mesh
    return DTensor._wrap(result, Spec(mesh, (Replicate(),) * mesh.ndim, facula.Size([])))


def _powers(t, p: float):
    """Return what of a part's norm is added up over parts."""
    if t.numel() == 0:
        return facula.zeros((), dtype=t.dtype, device=t.device)
    norm = facula.linalg.vector_norm(t, p)
    return norm if p == math.inf else norm**p


def _together(values, p: float):
    return values.amax() if p == math.inf else values.sum()
