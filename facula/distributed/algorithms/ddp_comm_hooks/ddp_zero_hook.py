"""Step a ZeroRedundancyOptimizer inside the backward pass of DistributedDataParallel, bucket by bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]


class _Steps:
    """Update and send the parameters of a bucket when its gradients are averaged; this object is the hook."""

    def __init__(self, hook, ddp, zero, interleaved: bool) -> None:
        self._hook, self._zero, self._interleaved = hook, zero, interleaved
        self._ddp, self._averaging, self._sending = ddp, [], []

    def __call__(self, state, bucket) -> facula.futures.Future:
        if bucket.index() == 0:
            self._averaging, self._sending = [], []
            self._zero._push_options()
        self._averaging.append((self._hook(state, bucket), bucket))
        if self._interleaved and len(self._averaging) > 1:
            self._step()
        if bucket.is_last():
            while self._averaging:
                self._step()
            for message in self._sending:
                self._zero._receive(message)
            self._zero._pull_options()
        done: facula.futures.Future[Any] = facula.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def _step(self) -> None:
        future, bucket = self._averaging.pop(0)
        result = future.wait()
        tensor = result[0] if isinstance(result, (list, tuple)) else result
        if tensor.untyped_storage()._cdata != bucket.buffer().untyped_storage()._cdata:
            bucket.set_buffer(tensor)
        # A clone, because the sum is written in place and the numbers lie in the storage of the bucket.
        used = bucket._used().clone()
        if not self._ddp.static_graph:
            dist.all_reduce(used, group=self._zero.process_group)
        chosen = [
            (p, grad) for p, grad, n in zip(bucket.parameters(), bucket.gradients(), used.tolist()) if n > 0
        ]
        for p, grad in chosen:
            p.grad = grad
        self._sending += self._zero._step_some([p for p, _ in chosen])


def _made(name: str, hook, ddp, zero, interleaved: bool):
    from facula.distributed.optim import ZeroRedundancyOptimizer
    from facula.nn.parallel import DistributedDataParallel

    if not isinstance(zero, ZeroRedundancyOptimizer) or not isinstance(ddp, DistributedDataParallel):
        kinds = f"{type(ddp).__name__} and {type(zero).__name__}"
        raise TypeError(f"{name}: expected a DistributedDataParallel and a ZeroRedundancyOptimizer, got {kinds}")
    if not zero.overlap_with_ddp:
        raise ValueError(f"{name}: the ZeroRedundancyOptimizer must be made with overlap_with_ddp=True, got False")
    if zero.process_group is not (ddp.process_group or dist.group.WORLD):  # one process alone has None
        raise ValueError(f"{name}: the optimizer and the model must have one process group, got two")
    zero._has_hook = ddp.reducer is not None
    return _Steps(hook, ddp, zero, interleaved)


def hook_with_zero_step(hook: Callable[..., Any], ddp: Any, zero: Any, shard_buckets: bool = False) -> Any:
    """Return a hook that averages all buckets by `hook`, and steps in the order in which they are done; `zero.step()` does
    nothing.

    Args:
        hook: averages gradients, as `allreduce_hook`.
        ddp: the model.
        zero: its optimizer, made with `overlap_with_ddp=True`.
        shard_buckets: accepted: a bucket's parameters always are those of several processes.

    Errors: TypeError for another model or optimizer; ValueError without `overlap_with_ddp`, and for two process groups.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
    >>> from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    >>> from torch.distributed.optim import ZeroRedundancyOptimizer
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.1)
    >>> model.register_comm_hook(None, hook_with_zero_step(allreduce_hook, model, zero))
    >>> model(torch.ones(1, 4)).sum().backward()
    >>> zero.step()
    >>> dist.destroy_process_group()
    """
    del shard_buckets
    return _made("hook_with_zero_step", hook, ddp, zero, False)


def hook_with_zero_step_interleaved(hook: Callable[..., Any], ddp: Any, zero: Any, shard_buckets: bool = False) -> Any:
    """Return `hook_with_zero_step`, with the steps of a bucket while the next ones are averaged.

    Args:
        hook: averages gradients, as `allreduce_hook`.
        ddp: the model.
        zero: its optimizer, made with `overlap_with_ddp=True`.
        shard_buckets: accepted.

    Errors: TypeError for another model or optimizer; ValueError without `overlap_with_ddp`, and for two process groups.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step_interleaved
    >>> from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    >>> from torch.distributed.optim import ZeroRedundancyOptimizer
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.1)
    >>> model.register_comm_hook(None, hook_with_zero_step_interleaved(allreduce_hook, model, zero))
    >>> model(torch.ones(1, 4)).sum().backward()
    >>> dist.destroy_process_group()
    """
    del shard_buckets
    return _made("hook_with_zero_step_interleaved", hook, ddp, zero, True)
