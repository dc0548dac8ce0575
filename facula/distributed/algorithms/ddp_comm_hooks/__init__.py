"""Define ways to average gradients, for `DistributedDataParallel.register_comm_hook`."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from . import default_hooks, post_localSGD_hook, powerSGD_hook, quantization_hooks

if TYPE_CHECKING:
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class _Registers:
    """Register a hook with a model. This is an object because an Enum turns functions, and since Python 3.13 partial
    objects, into methods.
    """

    def __init__(self, hook, low_rank=False):
        self.hook, self.low_rank = hook, low_rank

    def __call__(self, model, state):
        if self.low_rank:  # matrices of rank 2; the state is the process group
            state = powerSGD_hook.PowerSGDState(state, matrix_approximation_rank=2)
        model.register_comm_hook(state, self.hook)


class DDPCommHookType(Enum):
    """Name the hooks; each value is called with (model, state). `register_ddp_comm_hook` registers one.

    >>> from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
    >>> [kind.name for kind in DDPCommHookType][:4]
    ['ALLREDUCE', 'FP16_COMPRESS', 'BF16_COMPRESS', 'POWER_SGD']
    """

    ALLREDUCE = _Registers(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Registers(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Registers(default_hooks.bf16_compress_hook)
    POWER_SGD = _Registers(powerSGD_hook.powerSGD_hook)
    BATCHED_POWER_SGD = _Registers(powerSGD_hook.batched_powerSGD_hook)
    POWER_SGD_RANK2 = _Registers(powerSGD_hook.powerSGD_hook, low_rank=True)
    BATCHED_POWER_SGD_RANK2 = _Registers(powerSGD_hook.batched_powerSGD_hook, low_rank=True)
    QUANTIZE_PER_TENSOR = _Registers(quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = _Registers(quantization_hooks.quantization_perchannel_hook)
    POST_LOCAL_SGD = _Registers(post_localSGD_hook.post_localSGD_hook)
    NOOP = _Registers(default_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Module, state: dict[str, Any] | None = None) -> None:
    """Register the hook of that name with a model.

    Args:
        comm_hook_type: a DDPCommHookType.
        model: a DistributedDataParallel.
        state: what the hook takes: the process group (None for all), of POWER_SGD and POST_LOCAL_SGD their state.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, model)
    >>> model(torch.ones(1, 4)).sum().backward()
    >>> dist.destroy_process_group()
    """
    comm_hook_type.value(model=model, state=state)
