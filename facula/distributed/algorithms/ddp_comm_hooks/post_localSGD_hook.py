"""Average gradients within small groups only, and the parameters of all processes from time to time (post-local SGD)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import facula
from facula import distributed as dist

from . import default_hooks

if TYPE_CHECKING:
    from facula.distributed._group import ProcessGroup

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """Hold the state of `post_localSGD_hook` between steps.

    Args:
        process_group: the processes that average gradients at first. None: all.
        subgroup: those that do later. None: the processes of this machine.
        start_localSGD_iter: the step from which on only the subgroup does.
        post_local_gradient_allreduce: False leaves gradients alone from then on.

    >>> from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState
    >>> PostLocalSGDState(process_group=None, subgroup=None, start_localSGD_iter=100).iter
    0
    """

    process_group: ProcessGroup
    subgroup: Any
    iter: int

    def __init__(self, process_group: ProcessGroup | None, subgroup: ProcessGroup | None, start_localSGD_iter: Any,
                 post_local_gradient_allreduce: bool = True) -> None:  # fmt: skip
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count a step, at its last bucket; the hook calls it.

        Args:
            bucket: a GradBucket.

        >>> from types import SimpleNamespace
        >>> from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState
        >>> state = PostLocalSGDState(process_group=None, subgroup=None, start_localSGD_iter=100)
        >>> state.maybe_increase_iter(SimpleNamespace(is_last=lambda: True))
        >>> state.iter
        1
        """
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> facula.futures.Future[Any]:
    """Average gradients over all processes at first, then within subgroups only, a hook of DistributedDataParallel; a
    `PeriodicModelAverager` or `PostLocalSGDOptimizer` averages the parameters of all now and then.

    Args:
        state: a PostLocalSGDState.
        bucket: a GradBucket, whose buffer is averaged in place.
    Returns:
        a future of the buffer.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(PostLocalSGDState(None, None, start_localSGD_iter=100), post_localSGD_hook)
    >>> dist.destroy_process_group()
    """
    early = state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if early:
        return default_hooks._sum(state.process_group, bucket.buffer())
    if not state.post_local_gradient_allreduce:
        return default_hooks.noop_hook(None, bucket)
    if state.subgroup is None:
        state.subgroup, _ = dist.new_subgroups()
    return default_hooks._sum(state.subgroup, bucket.buffer())
