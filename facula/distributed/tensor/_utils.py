"""Compute where parts lie in the whole."""

from __future__ import annotations

import facula

from ._spec import Spec, normalized

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(global_shape, mesh, placements, skip_offset: bool = False):
    """Return (sizes, offsets) of this process's part of a tensor; offsets are () with `skip_offset`."""
    mesh, placements = normalized("compute_local_shape_and_global_offset", mesh, placements, len(global_shape))
    shape, offset = Spec(mesh, placements, facula.Size(global_shape)).local_shape_and_offset()
    return shape, () if skip_offset else offset
