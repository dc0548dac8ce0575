"""DistributedDataParallel: the same model in several processes, with averaged gradients."""

from __future__ import annotations

import contextlib

from ..modules.batchnorm import _world_size
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Wraps ``module`` (found under ``.module``) for training in several processes.

    In a single process it only calls the module. Averaging gradients over several processes is not
    implemented yet.

    Args:
        module: the module to train.
        process_group: the processes. Default: all.
        Others: accepted as PyTorch has them; they tune the exchange of gradients.
    """

    def __init__(
        self,
        module,
        device_ids=None,
        output_device=None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group=None,
        bucket_cap_mb=None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params=None,
        param_to_hook_all_reduce=None,
        mixed_precision=None,
        device_mesh=None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list=None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        processes = _world_size(process_group)
        if processes > 1:
            raise NotImplementedError(
                "DistributedDataParallel: training in several processes is not implemented yet, got "
                f"{processes} processes"
            )
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel: the module must have a parameter that requires a gradient, "
                f"got {type(module).__name__}"
            )
        self.module = module
        self.device_ids = device_ids
        self.output_device = output_device
        self.dim = dim
        self.process_group = process_group
        self.broadcast_buffers = broadcast_buffers is not False
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        """Gradients of the backward passes inside the block are not exchanged."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before
