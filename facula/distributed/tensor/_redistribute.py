"""Convert one layout to another, with gradients.

The gradient of a tensor has the layout of the tensor: it is whole where the tensor is whole in every process, it is
sharded where the tensor is sharded, and it is whole where the value is still to be summed. The backward of every step
is therefore a step, too.
"""

from __future__ import annotations

import facula
from facula import distributed as dist
from facula.autograd import Function

from ._spec import Spec, cut_order
from .placement_types import Partial, Replicate, Shard, _NormPartial

_OPS = {"sum": "SUM", "avg": "AVG", "max": "MAX", "min": "MIN", "product": "PRODUCT"}


def _gather(local, dim: int, whole: int, group):
    """Return the parts along a dimension, put together; they may differ in length."""
    size = dist.get_world_size(group)
    chunk = -(-whole // size)
    moved = local.movedim(dim, 0).contiguous()
    if moved.shape[0] < chunk:
        moved = facula.cat([moved, moved.new_zeros((chunk - moved.shape[0], *moved.shape[1:]))])
    parts = moved.new_empty((size * chunk, *moved.shape[1:]))
    dist.all_gather_into_tensor(parts, moved, group=group)
    # Only the last parts are padded, so that the padding is at the end.
    return parts[:whole].movedim(0, dim).contiguous()


def _part(t, dim: int, group):
    length, offset = Shard.local_shard_size_and_offset(t.shape[dim], dist.get_world_size(group), dist.get_rank(group))
    return t.narrow(dim, offset, length).contiguous()


def _reduce_part(t, dim: int, op, group):
    size = dist.get_world_size(group)
    # reduce_scatter needs parts of equal size.
    if t.shape[dim] % size:
        whole = t.clone()
        dist.all_reduce(whole, op, group=group)
        return _part(whole, dim, group)
    moved = t.movedim(dim, 0).contiguous()
    result = moved.new_empty((moved.shape[0] // size, *moved.shape[1:]))
    dist.reduce_scatter_tensor(result, moved, op, group=group)
    return result.movedim(0, dim).contiguous()


class _ShardToReplicate(Function):
    @staticmethod
    def forward(ctx, local, dim, whole, group):
        ctx.dim, ctx.group = dim, group
        return _gather(local, dim, whole, group)

    @staticmethod
    def backward(ctx, grad):
        return _ReplicateToShard.apply(grad, ctx.dim, ctx.group), None, None, None


class _ReplicateToShard(Function):
    @staticmethod
    def forward(ctx, local, dim, group):
        ctx.dim, ctx.whole, ctx.group = dim, local.shape[dim], group
        return _part(local, dim, group)

    @staticmethod
    def backward(ctx, grad):
        return _ShardToReplicate.apply(grad, ctx.dim, ctx.whole, ctx.group), None, None


class _PartialToReplicate(Function):
    @staticmethod
    def forward(ctx, local, op, group):
        ctx.op, ctx.size = op, dist.get_world_size(group)
        result = local.clone(memory_format=facula.contiguous_format)
        dist.all_reduce(result, getattr(dist.ReduceOp, op), group=group)
        if op not in ("SUM", "AVG"):
            ctx.save_for_backward(local, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        if ctx.op == "AVG":
            return grad / ctx.size, None, None
        if ctx.op == "SUM":
            return grad, None, None
        if ctx.op in ("MAX", "MIN"):
            local, result = ctx.saved_tensors
            # Every process that holds the extreme gets the whole gradient.
            return grad * (local == result), None, None
        raise NotImplementedError(f"DTensor.redistribute: Partial has no gradient for this reduction, got {ctx.op}")


class _PartialToShard(Function):
    @staticmethod
    def forward(ctx, local, dim, op, group):
        ctx.dim, ctx.whole, ctx.op, ctx.group = dim, local.shape[dim], op, group
        return _reduce_part(local, dim, getattr(dist.ReduceOp, op), group)

    @staticmethod
    def backward(ctx, grad):
        if ctx.op not in ("SUM", "AVG"):
            raise NotImplementedError(f"DTensor.redistribute: Partial has no gradient for this reduction, got {ctx.op}")
        whole = _ShardToReplicate.apply(grad, ctx.dim, ctx.whole, ctx.group)
        return (whole / dist.get_world_size(ctx.group) if ctx.op == "AVG" else whole), None, None, None


class _NormToReplicate(Function):
    @staticmethod
    def forward(ctx, local, order, group):
        powers = local**order
        dist.all_reduce(powers, group=group)
        ctx.order, result = order, powers ** (1.0 / order)
        ctx.save_for_backward(local, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        local, result = ctx.saved_tensors
        share = (local / result) ** (ctx.order - 1)
        return grad * share.masked_fill(result == 0, 0.0), None, None


class _ReplicateToPartial(Function):
    @staticmethod
    def forward(ctx, local, op, group):
        ctx.factor = dist.get_world_size(group) if op == "AVG" else 1
        if op == "SUM":
            # The parts of a sum: the first process has all of it.
            return local.clone() if dist.get_rank(group) == 0 else facula.zeros_like(local)
        return local.clone()

    @staticmethod
    def backward(ctx, grad):  # the gradient of a part of an average has been divided by the number of parts
        return grad * ctx.factor, None, None


class _SumGradient(Function):
    """Return the whole value, which every process is about to use with another part; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx, local, group):
        ctx.group = group
        return local.view_as(local)

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone(memory_format=facula.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


def summed_gradient(local, group):
    """Make a tensor whole in every process, with the sum of the gradients that they get."""
    return _SumGradient.apply(local, group)


def _step(local, placement, target, whole: int | None, group):
    if isinstance(placement, Shard) and isinstance(target, Replicate):
        return _ShardToReplicate.apply(local, placement.dim, whole, group)
    if isinstance(placement, Replicate) and isinstance(target, Shard):
        return _ReplicateToShard.apply(local, target.dim, group)
    if isinstance(placement, _NormPartial):
        whole = _NormToReplicate.apply(local, placement.norm_type, group)
        return whole if isinstance(target, Replicate) else _step(whole, Replicate(), target, None, group)
    if isinstance(placement, Partial) and isinstance(target, Replicate):
        return _PartialToReplicate.apply(local, _OPS[placement.reduce_op], group)
    if isinstance(placement, Partial) and isinstance(target, Shard):
        return _PartialToShard.apply(local, target.dim, _OPS[placement.reduce_op], group)
    if isinstance(placement, Replicate) and isinstance(target, Partial):
        return _ReplicateToPartial.apply(local, _OPS[target.reduce_op], group)
    return _step(_step(local, placement, Replicate(), whole, group), Replicate(), target, whole, group)


def _to_gather(now, target) -> set[int]:
    """Return the dimensions of the mesh whose parts must be put together: those that change, and those that cut inside of
    them."""
    found = {i for i, p in enumerate(now) if isinstance(p, Shard) and p != target[i]}
    changes = [(i, p.dim) for i in range(len(now)) if now[i] != target[i] for p in (now[i], target[i]) if isinstance(p, Shard)]
    while changes:
        outer, dim = changes.pop()
        for order in (cut_order(now), cut_order(target)):
            for inner in order[order.index(outer) + 1 :]:
                if isinstance(now[inner], Shard) and now[inner].dim == dim and inner not in found:
                    found.add(inner)
                    changes.append((inner, dim))
    return found


def redistribute(local: facula.Tensor, spec: Spec, placements) -> facula.Tensor:
    """Return the part of this process in another layout. Dimensions that several dimensions of the mesh cut are gathered from
    the inside out and cut from the outside in.
    """
    now, target = list(spec.placements), list(placements)
    gathered = _to_gather(now, target)
    for number in reversed(cut_order(now)):
        to = now[number]
        if number in gathered:
            to = Replicate()
        elif isinstance(now[number], Partial) and now[number] != target[number]:
            to = target[number]
            others = [p.dim for i, p in enumerate([*now, *target]) if i % len(now) != number and isinstance(p, Shard)]
            if isinstance(to, Partial) or isinstance(to, Shard) and to.dim in others:
                to = Replicate()
        if to != now[number]:
            local = _step(local, now[number], to, _length_before(spec, now, number), spec.mesh.get_group(number))
            now[number] = to
    for number in cut_order(target):
        if now[number] != target[number]:
            local = _step(local, now[number], target[number], None, spec.mesh.get_group(number))
            now[number] = target[number]
    return local


def _length_before(spec: Spec, now, number: int) -> int | None:
    """Return the length, along the dimension that mesh dimension `number` cuts, of what is cut there."""
    if not isinstance(now[number], Shard):
        return None
    d, length = now[number].dim, spec.shape[now[number].dim]
    order = cut_order(now)
    for outer in order[: order.index(number)]:
        if isinstance(now[outer], Shard) and now[outer].dim == d:
            length, _ = Shard.local_shard_size_and_offset(length, spec.mesh.size(outer), spec.mesh.get_coordinate()[outer])
    return length
