"""How a tensor lies on a dimension of a mesh of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing import Any


class Placement:
    """What all placements are."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether processes hold parts (along `dim`, if that is given)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every process holds the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: Any = None) -> bool:
        """Whether the value is the reduction (by `reduce_op`, if that is given) of what processes hold."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process holds a part along dimension `dim`, as `torch.chunk` cuts them: the last ones may be shorter, or empty."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: Any, num_chunks: Any, rank: int) -> tuple[Any, Any]:
        """(size, offset) of a process's part of `curr_local_size` elements."""
        chunk = -(-curr_local_size // num_chunks)
        offset = min(chunk * rank, curr_local_size)
        return min(chunk, curr_local_size - offset), offset

    def _local_shard_size_and_offset(self, curr_local_size, num_chunks, rank):
        return self.local_shard_size_and_offset(curr_local_size, num_chunks, rank)


@dataclass(frozen=True)
class _StridedShard(Shard):
    """As Shard, but cut after all dimensions of the mesh that have a plain Shard: a process's part of a part.

    Args:
        dim: the dimension that is cut.
        split_factor: into how many parts the others cut it before.
    """

    split_factor: int = 1

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process holds the whole."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """The value is the reduction of what the processes hold."""

    ALL_REDUCE_OPS: ClassVar[tuple[Any, ...]] = ("sum", "avg", "min", "max", "product")
    LINEAR_REDUCE_OPS: ClassVar[tuple[Any, ...]] = ("sum", "avg")

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _NormPartial(Partial):
    """The value is the norm of the norms that the processes hold.

    Args:
        norm_type: which norm.
    """

    norm_type: float = 2.0

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type:g})"

    def __str__(self) -> str:
        return f"_NormP({self.norm_type:g})"
