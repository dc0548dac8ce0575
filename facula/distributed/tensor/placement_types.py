"""Describe how a tensor lies on a dimension of a mesh of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


class Placement:
    """Describe how a tensor lies on a dimension of a mesh; Shard, Replicate and Partial derive from it.

    >>> from torch.distributed.tensor import Partial, Replicate, Shard
    >>> Shard(1).is_shard(), Shard(1).is_shard(dim=0), Replicate().is_replicate(), Partial("sum").is_partial("avg")
    (True, False, True, False)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether processes hold parts.

        Args:
            dim: along which dimension. Default: any.
        """
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether every process holds the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: Any = None) -> bool:
        """Return whether the value is the reduction of what processes hold.

        Args:
            reduce_op: by which operation. Default: any.
        """
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Give each process a part along dimension `dim`, as `torch.chunk` cuts them: the last parts may be shorter, or
    empty.

    Args:
        dim: the dimension; negative ones count from the end.

    >>> from torch.distributed.tensor import Shard
    >>> Shard(0)
    Shard(dim=0)
    >>> [Shard.local_shard_size_and_offset(5, 4, rank) for rank in range(4)]
    [(2, 0), (2, 2), (1, 4), (0, 5)]
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: Any, num_chunks: Any, rank: int) -> tuple[Any, Any]:
        """Return (size, offset) of a process's part.

        Args:
            curr_local_size: how many elements are cut.
            num_chunks: among how many processes.
            rank: the place of the process.
        """
        chunk = -(-curr_local_size // num_chunks)
        offset = min(chunk * rank, curr_local_size)
        return min(chunk, curr_local_size - offset), offset

    def _local_shard_size_and_offset(self, curr_local_size, num_chunks, rank):
        return self.local_shard_size_and_offset(curr_local_size, num_chunks, rank)


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Shard after all dimensions of the mesh that have a plain Shard, so that a process has a part of a part.

    Args:
        dim: the dimension that is cut.
        split_factor: into how many parts the others cut it before.
    """

    split_factor: int = 1

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Give each process the whole tensor.

    >>> from torch.distributed.tensor import Replicate
    >>> Replicate() == Replicate()
    True
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """Define the value as the reduction of the values that the processes hold, such as a product whose inner dimension
    is sharded.

    Args:
        reduce_op: "sum", "avg", "min", "max" or "product".

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import DTensor, Partial, init_device_mesh
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> DTensor.from_local(torch.ones(2), mesh, [Partial()]).full_tensor()  # of N processes: N
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """

    ALL_REDUCE_OPS: ClassVar[tuple[Any, ...]] = ("sum", "avg", "min", "max", "product")
    LINEAR_REDUCE_OPS: ClassVar[tuple[Any, ...]] = ("sum", "avg")

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _NormPartial(Partial):
    """Define the value as the norm of the norms that the processes hold.

    Args:
        norm_type: which norm.
    """

    norm_type: float = 2.0

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type:g})"

    def __str__(self) -> str:
        return f"_NormP({self.norm_type:g})"
