"""Arrange processes in a grid of one dimension or more, with a group for every line of it."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.distributed._group import ProcessGroup

__all__ = ["DeviceMesh", "init_device_mesh"]

_context = threading.local()


class DeviceMesh:
    """Represent a grid of ranks, with a group for every line of it. Every process must make it, in the same order
    relative to its other groups.

    `mesh["name"]` is the part along a dimension, or several, that this process is in; in `with mesh` it is the default of
    functions that take one. Where there is no default group, one is made (see `init_process_group`).

    Args:
        device_type: "cpu" or "cuda".
        mesh: the ranks, as a tensor or nested lists. Default: all in one dimension.
        mesh_dim_names: names of the dimensions.
        backend_override: None; NotImplementedError for anything else.
        _init_backend: whether groups are made.
    Raises:
        ValueError: ranks come twice or are not there, or names do not fit.

    The group of the example is rank 1 of four that send nothing.

    >>> import torch.distributed as dist
    >>> from torch.distributed.device_mesh import DeviceMesh
    >>> dist.init_process_group("fake", rank=1, world_size=4)
    >>> mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("data", "model"))
    >>> mesh["model"]
    DeviceMesh((model=2), 'cpu', mesh=[0, 1])
    >>> mesh.size(), mesh.size("data"), mesh.get_rank(), mesh.get_coordinate(), mesh.get_local_rank("model")
    (4, 2, 1, (0, 1), 1)
    >>> dist.get_process_group_ranks(mesh.get_group("data")), len(mesh.get_all_groups())
    ([1, 3], 2)
    >>> DeviceMesh.from_group(mesh.get_group("data"), "cpu")
    DeviceMesh('cpu', [1, 3])
    >>> dist.destroy_process_group()
    """

    device_type: str

    def __init__(self, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None,
                 backend_override: Any = None, _init_backend: bool = True, _groups: Any = None,
                 _root: Any = None) -> None:  # fmt: skip
        if not dist.is_initialized():
            dist.init_process_group()
        ranks = facula.arange(dist.get_world_size()) if mesh is None else facula.as_tensor(mesh, dtype=facula.int64)
        self.device_type, self._mesh = facula.device(device_type).type, ranks.cpu()
        self.mesh_dim_names: Any = tuple(mesh_dim_names) if mesh_dim_names else None
        self._check(backend_override)
        self._root_mesh, self._flattened = _root, {}
        place = (self._mesh == dist.get_rank()).nonzero()
        self._coordinate = tuple(place[0].tolist()) if len(place) else None
        self._groups = _groups
        if _groups is None and _init_backend:
            self._groups = [self._groups_of_dimension(dim) for dim in range(self.ndim)]

    def _check(self, backend_override) -> None:
        if backend_override:
            raise NotImplementedError(f"DeviceMesh: backend_override is not supported, got {backend_override}")
        names, flat = self.mesh_dim_names, self._mesh.flatten().tolist()
        if names and (len(names) != self.ndim or len(set(names)) != len(names)):
            raise ValueError(f"DeviceMesh: expected {self.ndim} different names of dimensions, got {list(names)}")
        size = dist.get_world_size()
        if len(set(flat)) != len(flat) or not all(0 <= rank < size for rank in flat):
            raise ValueError(f"DeviceMesh: expected ranks below the world size {size}, each once, got {self._mesh.tolist()}")

    def _groups_of_dimension(self, dim):
        """Return the group of this process along a dimension; groups of all lines are made, for all processes must take
        part."""
        lines = self._mesh.movedim(dim, -1).reshape(-1, self._mesh.shape[dim]).tolist()
        everybody = list(range(dist.get_world_size()))
        mine = None
        for line in lines:
            whole = sorted(line) == everybody and dist.group.WORLD is not None and line == everybody
            name = self.mesh_dim_names[dim] if self.mesh_dim_names else f"dim_{dim}"
            made = dist.group.WORLD if whole else dist.new_group(line, group_desc=f"mesh_{name}", sort_ranks=False)
            if dist.get_rank() in line:
                mine = made
        return mine

    # ---- what it is

    @property
    def mesh(self) -> Tensor:
        """The ranks as a tensor."""
        return self._mesh

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._mesh.dim()

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(self._mesh.shape)

    def size(self, mesh_dim: int | str | None = None) -> int:
        """Return the number of processes, or of those along a dimension.

        Args:
            mesh_dim: its number or name. Default: all of the grid.
        """
        return self._mesh.numel() if mesh_dim is None else self._mesh.size(self._number(mesh_dim))

    def get_rank(self) -> int:
        """Return the rank of this process among all."""
        return dist.get_rank()

    def get_coordinate(self) -> tuple[Any, ...] | None:
        """Return where this process is in the grid, a tuple; None when it is not part of it."""
        return self._coordinate

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the place of this process along a dimension. RuntimeError when it is not part of the grid.

        Args:
            mesh_dim: its number or name, which a grid of one dimension need not name (else RuntimeError).
        """
        if self._coordinate is None:
            raise RuntimeError(f"DeviceMesh.get_local_rank: this process is not part of the mesh, got rank {dist.get_rank()}")
        return self._coordinate[self._the_dimension("get_local_rank", mesh_dim)]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """Return the group of this process along a dimension.

        Args:
            mesh_dim: its number or name, which a grid of one dimension need not name (else RuntimeError).
        """
        number = self._the_dimension("get_group", mesh_dim)
        if self._groups is None:
            raise RuntimeError("DeviceMesh.get_group: the mesh has no groups, got one made with _init_backend=False")
        return self._groups[number]

    def get_all_groups(self) -> list[Any | ProcessGroup | int | None]:
        """Return the groups of this process, one for each dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def _the_dimension(self, caller, mesh_dim) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(f"DeviceMesh.{caller}: mesh_dim must be given for {self.ndim} dimensions, got None")
            return 0
        return self._number(mesh_dim)

    def _number(self, mesh_dim) -> int:
        if isinstance(mesh_dim, str):
            if not self.mesh_dim_names or mesh_dim not in self.mesh_dim_names:
                raise KeyError(f"DeviceMesh: expected a name of {self.mesh_dim_names}, got {mesh_dim!r}")
            return self.mesh_dim_names.index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"DeviceMesh: the mesh has {self.ndim} dimensions, got {mesh_dim}")
        return mesh_dim % self.ndim

    # ---- parts of it

    def __getitem__(self, names: Any) -> Any:
        """Return the part of the grid along one or several dimensions that this process is in."""
        names = (names,) if isinstance(names, str) else tuple(names)
        if not self.mesh_dim_names:
            raise RuntimeError(f"DeviceMesh: a mesh without names of dimensions cannot be sliced, got {names}")
        if len(names) == 1 and names[0] in self._root()._flattened:
            return self._root()._flattened[names[0]]
        if names == self.mesh_dim_names:
            return self
        dims = [self._number(name) for name in names]
        if sorted(dims) != dims:
            raise KeyError(f"DeviceMesh: dimensions must be in the order of {self.mesh_dim_names}, got {names}")
        index = tuple(slice(None) if d in dims else c for d, c in enumerate(self._coordinate or (0,) * self.ndim))
        groups = None if self._groups is None else [self._groups[d] for d in dims]
        return DeviceMesh(
            self.device_type, self._mesh[index], mesh_dim_names=names, _groups=groups, _init_backend=False, _root=self._root()
        )

    def _root(self):
        return self._root_mesh or self

    def _get_root_mesh(self):
        return self._root()

    def _flatten(self, mesh_dim_name=None, backend_override=None):
        """Return the grid as one dimension; all processes of the whole grid must call it."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._root()
        if name in root._flattened:
            return root._flattened[name]
        if self.ndim == 1:
            return self
        mine = None
        for part in self._all_parts():
            ranks = part.flatten().tolist()
            made = dist.new_group(ranks, group_desc=f"mesh_{name}", sort_ranks=False)
            if dist.get_rank() in ranks:
                mine = DeviceMesh(
                    self.device_type, part.flatten(), mesh_dim_names=(name,) if name else None,
                    backend_override=backend_override, _groups=[made], _init_backend=False, _root=root,
                )  # fmt: skip
        if name:
            root._flattened[name] = mine
        return mine

    def _all_parts(self):
        """Return the parts of the whole grid that are cut as this one is."""
        root = self._root()
        if root is self:
            return [self._mesh]
        dims = [root._number(name) for name in self.mesh_dim_names]
        rest = [d for d in range(root.ndim) if d not in dims]
        moved = root._mesh.permute(*rest, *dims)
        return list(moved.reshape(-1, *self.shape)) if rest else [moved]

    @staticmethod
    def from_group(group: ProcessGroup, device_type: str, mesh: DeviceMesh | None = None, *,
                   mesh_dim_names: Sequence[str] | None = None) -> DeviceMesh:  # fmt: skip
        """Return a grid whose groups exist already.

        Args:
            group: one group, or one for each dimension of `mesh`.
            device_type: "cpu" or "cuda".
            mesh: the ranks. Default: those of the only group; ValueError where there are several.
            mesh_dim_names: names of the dimensions.
        """
        if isinstance(group, (list, tuple)):
            groups = list(group)
            if mesh is None:
                raise ValueError(f"DeviceMesh.from_group: mesh must be given with {len(groups)} groups, got None")
        else:
            groups = [group]
            mesh = dist.get_process_group_ranks(group) if mesh is None else mesh
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=groups, _init_backend=False)
        if len(groups) != made.ndim:
            raise ValueError(f"DeviceMesh.from_group: expected {made.ndim} groups, got {len(groups)}")
        return made

    # ---- as a value

    def __enter__(self) -> Self:
        stack = _context.__dict__.setdefault("stack", [])
        stack.append(self)
        return self

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        _context.stack.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self):
        return (self.device_type, self.shape, tuple(self._mesh.flatten().tolist()), self.mesh_dim_names)

    def __repr__(self) -> str:
        if self.mesh_dim_names:
            inside = ", ".join(f"{name}={size}" for name, size in zip(self.mesh_dim_names, self.shape))
            return f"DeviceMesh(({inside}), {self.device_type!r}, mesh={self._mesh.tolist()})"
        return f"DeviceMesh({self.device_type!r}, {self._mesh.tolist()})"


def init_device_mesh(device_type: str, mesh_shape: Any, *, mesh_dim_names: Sequence[str] | None = None,
                     backend_override: Any = None) -> DeviceMesh:  # fmt: skip
    """Return a grid of all processes with the given sizes, in the order of ranks.

    Args:
        device_type: "cpu" or "cuda", without an index.
        mesh_shape: sizes, whose product is the number of processes, or less.
        mesh_dim_names: names of the dimensions.
        backend_override: None; NotImplementedError for anything else.

    Errors: RuntimeError for more processes than there are, for names that are not as many or not different, and for an index.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=1, world_size=4)
    >>> dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    DeviceMesh((data=2, model=2), 'cpu', mesh=[[0, 1], [2, 3]])
    >>> dist.destroy_process_group()
    """
    if not device_type.isalpha():
        raise RuntimeError(f"init_device_mesh: device_type must be a kind of device without an index, got {device_type!r}")
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(f"init_device_mesh: names of dimensions must differ, got {mesh_dim_names}")
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(f"init_device_mesh: expected {len(mesh_shape)} names of dimensions, got {mesh_dim_names}")
    if not dist.is_initialized():
        dist.init_process_group()
    count = math.prod(mesh_shape)
    if count > dist.get_world_size() or count < 1:
        raise RuntimeError(f"init_device_mesh: there are {dist.get_world_size()} processes, got a mesh {tuple(mesh_shape)}")
    ranks = facula.arange(count).view(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override)


def _current() -> DeviceMesh | None:
    """Return the mesh of the innermost `with`, if there is one."""
    stack = getattr(_context, "stack", None)
    return stack[-1] if stack else None
