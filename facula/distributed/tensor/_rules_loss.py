"""Cross entropy of outputs that are cut along rows, along classes, or both: numbers of rows travel, never classes."""

from __future__ import annotations

import facula
from facula import distributed as dist
from facula.autograd import Function

from ._dtensor import DTensor
from ._redistribute import redistribute
from ._rules import _RULES, _summed
from ._spec import Spec
from .placement_types import Partial, Replicate, Shard

_NONE, _MEAN, _SUM = range(3)


class _RowLosses(Function):
    """-log softmax at the targets, of parts of classes that begin at `first`.

    log(sum exp x) - x[target], where the largest x, the sum and x[target] come from all parts; the gradient is softmax, less
    1 at the target, in every part for itself.
    """

    @staticmethod
    def forward(ctx, x, target, first, groups, smoothing, classes):
        top = x.amax(1, keepdim=True) if x.shape[1] else x.new_full((x.shape[0], 1), float("-inf"))
        for group in groups:
            dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
        shifted = (x - top).to(facula.promote_types(x.dtype, facula.float32))
        here = (target >= first) & (target < first + x.shape[1])
        own = (target - first).clamp(0, max(x.shape[1] - 1, 0)).unsqueeze(1)
        at_target = shifted.gather(1, own).squeeze(1) * here if x.shape[1] else shifted.new_zeros(x.shape[0])
        exponentials = shifted.exp()
        sums = facula.stack([exponentials.sum(1), at_target, shifted.sum(1)])
        for group in groups:
            dist.all_reduce(sums, group=group)
        total, at_target, whole = sums.unbind(0)
        ctx.save_for_backward(exponentials / total.unsqueeze(1), own, here)
        ctx.smoothing, ctx.classes, ctx.dtype = smoothing, classes, x.dtype
        losses = total.log() - at_target
        if smoothing:
            losses = (1 - smoothing) * losses + smoothing * (total.log() - whole / classes)
        return losses.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        softmax, own, here = ctx.saved_tensors
        made = softmax - ctx.smoothing / ctx.classes
        if made.shape[1]:
            made.scatter_add_(1, own, -(1 - ctx.smoothing) * here.to(made.dtype).unsqueeze(1))
        return (made * grad.unsqueeze(1)).to(ctx.dtype), None, None, None, None, None


def _cross_entropy(func, args, kwargs):
    x, target, weight, reduction, ignored, smoothing = args
    fits = isinstance(x, DTensor) and x.dim() == 2 and x.shape[1] > 0 and weight is None and not kwargs
    if not fits or target.dim() != 1 or target.is_floating_point():
        return NotImplemented
    x, mesh = _summed(x), x.device_mesh
    if not isinstance(target, DTensor):
        target = DTensor.from_local(target, mesh, [Replicate()] * mesh.ndim)
    rows = tuple(p if p == Shard(0) else Replicate() for p in x.placements)
    if any(isinstance(p, Shard) and p not in (Shard(0), Shard(1)) for p in x.placements):
        return NotImplemented
    wanted = redistribute(target._local_tensor, target._spec, rows)
    outside = (wanted != ignored) & ((wanted < 0) | (wanted >= x.shape[1]))
    if bool(outside.any()):
        raise IndexError(f"cross_entropy: a target must be below {x.shape[1]}, got {wanted[outside][0].item()}")
    first = x._spec.local_shape_and_offset()[1][1]
    over_classes = [mesh.get_group(i) for i, p in enumerate(x.placements) if p == Shard(1)]
    counted = wanted != ignored
    inside = wanted * counted
    losses = _RowLosses.apply(x._local_tensor, inside, first, over_classes, float(smoothing), x.shape[1]) * counted
    if reduction == _NONE:
        return DTensor._wrap(losses, Spec(mesh, rows, facula.Size([x.shape[0]])))
    loss = losses.sum()
    if reduction == _MEAN:
        number = counted.sum()
        for i, p in enumerate(rows):
            if isinstance(p, Shard):
                dist.all_reduce(number, group=mesh.get_group(i))
        loss = loss / number
    return DTensor._wrap(loss, Spec(mesh, tuple(Partial() if isinstance(p, Shard) else p for p in rows), facula.Size([])))


_RULES["cross_entropy_loss"] = _cross_entropy
