"""Define collectives that return new tensors and do not change their inputs.

Results are there when the call returns, so that `wait_tensor` has nothing to wait for. A group may be a ProcessGroup, a
DeviceMesh of one dimension, a pair (DeviceMesh, dimension) or a list of ranks (of this process's group, or of all).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula import distributed as dist
from facula.distributed import ReduceOp

from .device_mesh import DeviceMesh
from .nn import functional as _with_gradients

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

_OPS = {
    "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX,
    "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR,
}  # fmt: skip
_groups_of_ranks: dict[Any, Any] = {}


class AsyncCollectiveTensor(facula.Tensor):
    """Represent a result that is not complete yet. Facula makes no such results; the class exists for isinstance."""


def _group(caller, group, tag):
    if tag:
        raise NotImplementedError(f"{caller}: tags of groups are not supported, got {tag!r}")
    if isinstance(group, dist.ProcessGroup):
        return group
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, (list, tuple)):
        return _of_ranks(group)
    raise ValueError(f"{caller}: expected a ProcessGroup, a DeviceMesh, a pair or ranks, got {type(group).__name__}")


def _of_ranks(ranks):
    lists = [list(r) for r in ranks] if ranks and isinstance(ranks[0], (list, tuple)) else [list(ranks)]
    key = (dist.group.WORLD, tuple(map(tuple, lists)))
    if key not in _groups_of_ranks:
        everybody = list(range(dist.get_world_size()))
        made = [dist.group.WORLD if r == everybody else dist.new_group(r, sort_ranks=False) for r in lists]
        # Every process makes all groups, because new_group is a collective; it uses only the one that it is in.
        _groups_of_ranks[key] = next(g for g, r in zip(made, lists) if dist.get_rank() in r)
    return _groups_of_ranks[key]


def _op(caller, name):
    if name.lower() not in _OPS:
        raise ValueError(f"{caller}: reduceOp must be {_C._one_of(name, _OPS)}")
    return _OPS[name.lower()]


def _copy(tensor):
    return tensor.detach().clone(memory_format=facula.contiguous_format)


def wait_tensor(tensor):
    """Return the tensor itself."""
    return tensor


def broadcast(self, src, group, tag=""):
    """Return the tensor of rank `src` among all."""
    result = _copy(self)
    dist.broadcast(result, src, group=_group("broadcast", group, tag))
    return result


def all_reduce(self, reduceOp, group, tag=""):
    """Return the sum, or what `reduceOp` says: "sum", "avg", "product", "min", "max", "band", "bor", "bxor"."""
    result = _copy(self)
    dist.all_reduce(result, _op("all_reduce", reduceOp), group=_group("all_reduce", group, tag))
    return result


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    """Return `all_reduce` of several tensors."""
    return [all_reduce(t, reduceOp, group, tag) for t in self]


def _gather_first(caller, tensor, group, tag):
    found = _group(caller, group, tag)
    result = tensor.new_empty((tensor.shape[0] * dist.get_world_size(found), *tensor.shape[1:]))
    dist.all_gather_into_tensor(result, tensor.detach().contiguous(), group=found)
    return result


def all_gather_tensor(self, gather_dim, group, tag=""):
    """Return the tensors of all processes, one behind the other along `gather_dim`."""
    if gather_dim == 0:
        return _gather_first("all_gather_tensor", self, group, tag)
    moved = self.movedim(gather_dim, 0)
    return _gather_first("all_gather_tensor", moved, group, tag).movedim(0, gather_dim).contiguous()


def all_gather_into_tensor_coalesced(self, group, tag=""):
    """Return `all_gather_tensor` of several tensors along dimension 0."""
    return [_gather_first("all_gather_into_tensor_coalesced", t, group, tag) for t in self]


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """Return this process's part, along `scatter_dim`, of the sum of all. ValueError for a size that cannot be divided."""
    found = _group("reduce_scatter_tensor", group, tag)
    size = dist.get_world_size(found)
    if self.shape[scatter_dim] % size:
        raise ValueError(
            f"reduce_scatter_tensor: dimension {scatter_dim} must be divided by {size} processes, got {tuple(self.shape)}"
        )
    moved = self.detach().movedim(scatter_dim, 0).contiguous()
    result = moved.new_empty((moved.shape[0] // size, *moved.shape[1:]))
    dist.reduce_scatter_tensor(result, moved, _op("reduce_scatter_tensor", reduceOp), group=found)
    return result.movedim(0, scatter_dim).contiguous()


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    """Return `reduce_scatter_tensor` of several tensors, each along its dimension."""
    return [reduce_scatter_tensor(t, reduceOp, dim, group, tag) for t, dim in zip(inputs, scatter_dim)]


def _received(tensor, output_splits, size):
    rows = tensor.shape[0] if output_splits is None else sum(output_splits)
    if output_splits is None and rows % size:
        raise ValueError(f"all_to_all_single: dimension 0 must be divided by {size} processes, got {tuple(tensor.shape)}")
    return (rows, *tensor.shape[1:])


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Send parts along dimension 0, one to each process; return what they have for this one, one behind the other."""
    found = _group("all_to_all_single", group, tag)
    result = self.new_empty(_received(self, output_split_sizes, dist.get_world_size(found)))
    dist.all_to_all_single(result, self.detach().contiguous(), output_split_sizes, input_split_sizes, group=found)
    return result


def permute_tensor(self, src_dst, group, tag=""):
    """Return the tensor of the process whose `src_dst[its rank]` is this one's rank: a rotation, or another permutation."""
    found = _group("permute_tensor", group, tag)
    size, me = dist.get_world_size(found), dist.get_rank(found)
    if sorted(src_dst) != list(range(size)):
        raise ValueError(f"permute_tensor: src_dst must have every rank below {size} once, got {src_dst}")
    flat = self.detach().reshape(-1)
    # An all_to_all whose other parts are empty, so that no order of sends and receives can deadlock.
    sends = [flat.numel() if src_dst[me] == r else 0 for r in range(size)]
    receives = [flat.numel() if src_dst[r] == me else 0 for r in range(size)]
    return all_to_all_single(flat, receives, sends, found).view(self.shape)


# ---- with gradients


def all_gather_tensor_autograd(self, gather_dim, group, tag=""):
    """Return `all_gather_tensor`, whose gradient is summed and scattered."""
    parts = _with_gradients.all_gather(self, _group("all_gather_tensor_autograd", group, tag))
    return facula.cat(parts, gather_dim)


def reduce_scatter_tensor_autograd(self, reduceOp, scatter_dim, group, tag=""):
    """Return `reduce_scatter_tensor`, whose gradient is gathered."""
    found = _group("reduce_scatter_tensor_autograd", group, tag)
    parts = [part.contiguous() for part in self.chunk(dist.get_world_size(found), scatter_dim)]
    op = _op("reduce_scatter_tensor_autograd", reduceOp)
    return _with_gradients.reduce_scatter(facula.empty_like(parts[0]), parts, op, found)


def all_to_all_single_autograd(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Return `all_to_all_single`, whose gradient goes back."""
    found = _group("all_to_all_single_autograd", group, tag)
    result = self.new_empty(_received(self, output_split_sizes, dist.get_world_size(found)))
    return _with_gradients.all_to_all_single(result, self, output_split_sizes, input_split_sizes, found)
