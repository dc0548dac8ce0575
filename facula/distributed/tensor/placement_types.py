"""How a tensor lies on a dimension of a mesh of processes."""

from dataclasses import dataclass


class Placement:
    """What all placements are."""

    def is_shard(self, dim=None):
        """Whether processes hold parts (along `dim`, if that is given)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self):
        """Whether every process holds the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        """Whether the value is the reduction (by `reduce_op`, if that is given) of what processes hold."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process holds a part along dimension `dim`, as `torch.chunk` cuts them: the last ones may be shorter, or empty."""

    dim: int

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """(size, offset) of a process's part of `curr_local_size` elements."""
        chunk = -(-curr_local_size // num_chunks)
        offset = min(chunk * rank, curr_local_size)
        return min(chunk, curr_local_size - offset), offset


@dataclass(frozen=True)
class _StridedShard(Shard):
    """As Shard, but cut after all dimensions of the mesh that have a plain Shard: a process's part of a part.

    Args:
        dim: the dimension that is cut.
        split_factor: into how many parts the others cut it before.
    """

    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process holds the whole."""


@dataclass(frozen=True)
class Partial(Placement):
    """The value is the reduction of what the processes hold."""

    reduce_op: str = "sum"
