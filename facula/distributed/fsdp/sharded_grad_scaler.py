"""Define a GradScaler whose processes skip the same steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import distributed as dist
from facula.amp import GradScaler

if TYPE_CHECKING:
    from facula.distributed._group import ProcessGroup
    from facula.types import Device

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Scale losses as `GradScaler` does, for optimizers whose gradients are parts: an infinite gradient in any process
    counts for all.

    Args:
        device: the kind of device of the gradients.
        init_scale: the first factor of the loss.
        backoff_factor: by what it is multiplied after a step that was left out.
        growth_factor: by what it is multiplied after `growth_interval` steps in a row that were not.
        growth_interval: how many.
        enabled: False makes all methods do nothing special.
        process_group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> weight = nn.Parameter(torch.ones(2))
    >>> optimizer, scaler = torch.optim.SGD([weight], lr=0.5), ShardedGradScaler("cpu")
    >>> scaler.scale(weight.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.detach()
    tensor([0.5000, 0.5000])
    >>> dist.destroy_process_group()
    """

    def __init__(self, device: Device = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
                 growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True,
                 process_group: ProcessGroup | None = None) -> None:  # fmt: skip
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _measure(self, optimizer, inv_scale, allow_fp16):
        found = super()._measure(optimizer, inv_scale, allow_fp16)
        device = self._scale.device  # processes without gradients take part as well
        here = found.setdefault(device, facula.zeros((), dtype=facula.float32, device=device))
        for other in found.values():
            here.copy_(facula.maximum(here, other.to(device)))
        dist.all_reduce(here, dist.ReduceOp.MAX, group=self.process_group)
        return found
