"""Describe where the parts of a tensor are: a mesh, a placement for each of its dimensions, and the shape of the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import facula

from ..device_mesh import DeviceMesh, _current
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard


def cut_order(placements) -> list[int]:
    """Return the dimensions of a mesh in the order in which they cut: one inside of those before it."""
    return sorted(range(len(placements)), key=lambda i: isinstance(placements[i], _StridedShard))


@dataclass(frozen=True)
class Spec:
    """Describe the layout of a DTensor."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: facula.Size

    def local_shape_and_offset(self, coordinate=None):
        """Return (shape, offset) of the part of a process, by its place in the mesh (default: this one's)."""
        shape, offset = list(self.shape), [0] * len(self.shape)
        coordinate = self.mesh.get_coordinate() if coordinate is None else coordinate
        for number in cut_order(self.placements):
            placement = self.placements[number]
            if isinstance(placement, Shard):
                d = placement.dim
                shape[d], more = Shard.local_shard_size_and_offset(shape[d], self.mesh.size(number), coordinate[number])
                offset[d] += more
        return tuple(shape), tuple(offset)

    def with_placements(self, placements) -> Spec:
        """Return the same tensor, elsewhere."""
        return Spec(self.mesh, tuple(placements), self.shape)

    @property
    def is_replicated(self) -> bool:
        """Whether every process holds the whole."""
        return all(isinstance(p, Replicate) for p in self.placements)


def normalized(caller: str, mesh: DeviceMesh | None, placements, dim: int) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    """Return the mesh, and placements whose dimensions count from the front. Errors name the caller."""
    mesh = mesh or _current()
    if mesh is None:
        raise RuntimeError(f"{caller}: a device_mesh must be given outside of `with mesh`, got None")
    if mesh.get_coordinate() is None:
        raise RuntimeError(f"{caller}: this process is not part of the mesh, got {mesh}")
    placements = [Replicate()] * mesh.ndim if placements is None else list(placements)
    if len(placements) != mesh.ndim:
        raise ValueError(f"{caller}: expected a placement for each of {mesh.ndim} dimensions of the mesh, got {placements}")
    for i, p in enumerate(placements):
        if not isinstance(p, Placement):
            raise TypeError(f"{caller}: expected placements, got {type(p).__name__}")
        if isinstance(p, Shard):
            if not -dim <= p.dim < dim:
                raise ValueError(f"{caller}: the tensor has {dim} dimensions, got {p!r}")
            placements[i] = replace(p, dim=p.dim % dim)
        if isinstance(p, Partial) and p.reduce_op not in ("sum", "avg", "max", "min", "product"):
            raise ValueError(f"{caller}: unknown reduction, got {p}")
    return mesh, tuple(placements)


def whole_shape(local: facula.Tensor, mesh: DeviceMesh, placements) -> facula.Size:
    """Return the shape of the whole if all parts are as large as this one."""
    shape = list(local.shape)
    for number, p in enumerate(placements):
        if isinstance(p, Shard):
            shape[p.dim] *= mesh.size(number)
    return facula.Size(shape)


def count(spec: Spec) -> int:
    """Return the number of elements of the whole."""
    return math.prod(spec.shape)
