"""Ways to average gradients, for `DistributedDataParallel.register_comm_hook`."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from . import default_hooks, post_localSGD_hook, powerSGD_hook, quantization_hooks

if TYPE_CHECKING:
    from typing import Any

    from facula.nn.modules.module import Module

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """The hooks by name; each value takes (model, state). `register_ddp_comm_hook` registers one.

    >>> from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
    >>> [kind.name for kind in DDPCommHookType][:4]
    ['ALLREDUCE', 'FP16_COMPRESS', 'BF16_COMPRESS', 'POWER_SGD']
    """

    ALLREDUCE = partial(lambda model, state: model.register_comm_hook(state, default_hooks.allreduce_hook))
    FP16_COMPRESS = partial(lambda model, state: model.register_comm_hook(state, default_hooks.fp16_compress_hook))
    BF16_COMPRESS = partial(lambda model, state: model.register_comm_hook(state, default_hooks.bf16_compress_hook))
    POWER_SGD = partial(lambda model, state: model.register_comm_hook(state, powerSGD_hook.powerSGD_hook))
    BATCHED_POWER_SGD = partial(lambda model, state: model.register_comm_hook(state, powerSGD_hook.batched_powerSGD_hook))
    POWER_SGD_RANK2 = partial(lambda model, state: _power_sgd(model, state, powerSGD_hook.powerSGD_hook))
    BATCHED_POWER_SGD_RANK2 = partial(lambda model, state: _power_sgd(model, state, powerSGD_hook.batched_powerSGD_hook))
    QUANTIZE_PER_TENSOR = partial(
        lambda model, state: model.register_comm_hook(state, quantization_hooks.quantization_pertensor_hook)
    )
    QUANTIZE_PER_CHANNEL = partial(
        lambda model, state: model.register_comm_hook(state, quantization_hooks.quantization_perchannel_hook)
    )
    POST_LOCAL_SGD = partial(lambda model, state: model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook))
    NOOP = partial(lambda model, state: model.register_comm_hook(state, default_hooks.noop_hook))


def _power_sgd(model, state, hook):
    """With matrices of rank 2; the state is the process group."""
    model.register_comm_hook(powerSGD_hook.PowerSGDState(state, matrix_approximation_rank=2), hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Module, state: dict[str, Any] | None = None) -> None:
    """Registers the hook of that name with a model.

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
