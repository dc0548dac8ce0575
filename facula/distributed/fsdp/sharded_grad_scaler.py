"""A GradScaler whose processes leave out the same steps."""

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
    """As `GradScaler`, where each process has parts of the gradients: one that is infinite counts for all processes.

    Args:
        device, init_scale, backoff_factor, growth_factor, growth_interval, enabled: as for GradScaler.
        process_group: the processes. Default: all.
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
