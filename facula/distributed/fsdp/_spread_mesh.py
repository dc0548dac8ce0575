"""Find the dimensions of a grid that divide the data, where parameters are DTensors over all of it."""

from __future__ import annotations

from dataclasses import dataclass

from facula import distributed as dist

from ..device_mesh import DeviceMesh
from ..tensor import DTensor, Replicate


def _names(given) -> tuple:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True)
class DataParallelMeshDims:
    """Name the dimensions of a grid over which `fully_shard` shards parameters. ValueError without any.

    Args:
        shard: the dimension, or several, along which they are cut.
        replicate: the dimension, or several, whose processes have the same parts.

    >>> from torch.distributed.fsdp import DataParallelMeshDims
    >>> dims = DataParallelMeshDims(shard=("data", "sequence"), replicate="copies")
    >>> dims.shard_names, dims.replicate_names
    (('data', 'sequence'), ('copies',))
    """

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.shard is None and self.replicate is None:
            raise ValueError("DataParallelMeshDims: shard or replicate must be given, got neither")

    @property
    def shard_names(self) -> tuple[str, ...]:
        """Names of the dimensions that cut."""
        return _names(self.shard)

    @property
    def replicate_names(self) -> tuple[str, ...]:
        """Names of the dimensions that copy."""
        return _names(self.replicate)


class Whole:
    """Represent a grid of which some dimensions divide the data.

    Ops on DTensors sum gradients over them as they go, so what remains to be done with a gradient is to take this process's
    part of it.

    Args:
        mesh: the grid, with names.
        dims: which dimensions.
    """

    def __init__(self, mesh: DeviceMesh, dims: DataParallelMeshDims) -> None:
        if not isinstance(dims, DataParallelMeshDims):
            raise TypeError(f"fully_shard: dp_mesh_dims: expected a DataParallelMeshDims, got {type(dims).__name__}")
        self.mesh, self.cut, self.copied = mesh, dims.shard_names, dims.replicate_names
        known = mesh.mesh_dim_names or ()
        unknown = [name for name in (*self.cut, *self.copied) if name not in known]
        if unknown or set(self.cut) & set(self.copied):
            raise ValueError(f"fully_shard: dp_mesh_dims must be different dimensions of {tuple(known)}, got {dims}")
        self.numbers = [known.index(name) for name in self.cut]

    def _group(self, names):
        if not names:
            return dist.new_group([dist.get_rank()], use_local_synchronization=True)
        part = self.mesh[names[0]] if len(names) == 1 else self.mesh[self._ordered(names)]._flatten("_".join(names))
        return part.get_group()

    def _ordered(self, names):
        return tuple(sorted(names, key=self.mesh.mesh_dim_names.index))

    def of_data(self) -> DeviceMesh:
        """Return the processes of this one's data: in one dimension, or as (replicas, shards)."""
        copied, cut = self._ordered(self.copied), self._ordered(self.cut)
        known, here = self.mesh.mesh_dim_names, self.mesh.get_coordinate()
        ranks = self.mesh.mesh[tuple(slice(None) if n in (*copied, *cut) else c for n, c in zip(known, here))]
        left = [n for n in known if n in (*copied, *cut)]
        ranks = ranks.permute([left.index(n) for n in (*copied, *cut)])
        shape = [self._size(cut)] if not copied else [self._size(copied), self._size(cut)]
        groups = ([self._group(copied)] if copied else []) + [self._group(cut)]
        names = (["_".join(copied)] if copied else []) + ["_".join(cut) or "alone"]
        return DeviceMesh(
            self.mesh.device_type, ranks.reshape(shape), mesh_dim_names=names, _groups=groups, _init_backend=False,
            _root=self.mesh._get_root_mesh(),
        )  # fmt: skip

    def _size(self, names) -> int:
        size = 1
        for name in names:
            size *= self.mesh.size(self.mesh.mesh_dim_names.index(name))
        return size

    def check(self, name: str, parameter, dim: int) -> None:
        """Raise ValueError for a parameter that cannot be spread so."""
        if not isinstance(parameter, DTensor) or parameter.device_mesh != self.mesh:
            got = parameter.device_mesh if isinstance(parameter, DTensor) else "a Tensor"
            raise ValueError(f"fully_shard: with dp_mesh_dims parameters must be DTensors on {self.mesh}, got {name}: {got}")
        dims = [self.mesh.mesh_dim_names.index(n) for n in (*self.cut, *self.copied)]
        if not all(isinstance(parameter.placements[i], Replicate) for i in dims):
            raise ValueError(f"fully_shard: {name} must be Replicate() over dp_mesh_dims, got {parameter.placements}")
        if len(self.cut) > 1 and parameter._local_tensor.shape[dim] % self._size(self.cut):
            raise ValueError(
                f"fully_shard: {name} cannot be cut evenly over {self.cut}, got {parameter._local_tensor.shape[dim]} rows"
            )
