"""Parameters, gradients and optimizer state spread over processes."""

from ._fully_shard import (
    CPUOffloadPolicy,
    FSDPModule,
    OffloadPolicy,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
    share_comm_ctx,
)
from ._param_group import MixedPrecisionPolicy

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]


def __getattr__(name):
    from facula.compat import placeholders

    found = globals()[name] = placeholders.member("torch.distributed.fsdp", name)  # the same object each time
    return found
