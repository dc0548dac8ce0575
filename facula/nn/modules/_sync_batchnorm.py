"""Batch normalisation with statistics over several processes.

Forward: every process sends the mean, the variance and the number of its elements of each channel; means and variances
of all are combined by Chan's formula, which has no cancellation. Backward: two sums for each channel travel.
"""

from __future__ import annotations

import facula
from facula.autograd import Function
from facula.nn import functional as F


class SyncedBatchNorm(Function):
    """`apply(input, weight, bias, running_mean, running_var, momentum, eps, group)`."""

    @staticmethod
    def forward(ctx, input, weight, bias, running_mean, running_var, momentum, eps, group):
        from facula import distributed as dist

        dims = [d for d in range(input.dim()) if d != 1]
        kind = facula.float64 if input.dtype == facula.float64 else facula.float32
        x = input.to(kind)
        count = input.numel() // input.shape[1]
        mine = facula.zeros(2 * input.shape[1] + 1, dtype=kind, device=input.device)
        if count:
            variance, mean = facula.var_mean(x, dims, correction=0)
            mine = facula.cat([mean, variance, mean.new_full((1,), count)])
        everybody = mine.new_empty(dist.get_world_size(group) * mine.numel())
        dist.all_gather_into_tensor(everybody, mine, group=group)
        means, variances, counts = everybody.view(-1, mine.numel()).split([input.shape[1], input.shape[1], 1], dim=1)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        variance = ((variances + (means - mean).square()) * counts).sum(0) / total
        if int(total.item()) < 2:
            raise ValueError(f"SyncBatchNorm: expected more than 1 value per channel in all, got {tuple(input.shape)}")
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((variance * (total / (total - 1))).to(running_var.dtype), momentum)
        ctx.save_for_backward(input, weight, mean, variance, total)
        ctx.eps, ctx.group = eps, group
        weight, bias = (None if t is None else t.to(kind) for t in (weight, bias))
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, eps).to(input.dtype)

    @staticmethod
    def backward(ctx, grad):
        from facula import distributed as dist

        input, weight, mean, variance, total = ctx.saved_tensors
        shape = [1, -1] + [1] * (input.dim() - 2)
        dims = [d for d in range(input.dim()) if d != 1]
        dy = grad.to(mean.dtype)
        inverse = (variance + ctx.eps).rsqrt()
        normal = (input.to(mean.dtype) - mean.view(shape)) * inverse.view(shape)
        sums = facula.stack([dy.sum(dims), (dy * normal).sum(dims)])
        grad_bias, grad_weight = sums.clone()
        dist.all_reduce(sums, group=ctx.group)
        average, projection = sums / total
        scale = inverse if weight is None else inverse * weight.to(mean.dtype)
        result = (dy - average.view(shape) - normal * projection.view(shape)) * scale.view(shape)
        needs = ctx.needs_input_grad
        return (
            result.to(input.dtype) if needs[0] else None,
            grad_weight.to(weight.dtype) if needs[1] else None,
            grad_bias.to(weight.dtype) if needs[2] else None,
            *[None] * 5,
        )
