"""Define hooks that send gradients in 8 bits: every process sends its own, with scales, and averages those of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]

_STEPS, _LEAST = 255, facula.finfo(facula.float32).eps


def _scales(rows):
    """Return (scale, zero point) of each row: 0 has a number of its own, so that it stays 0."""
    low, high = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
    # A row of zeros would divide by zero otherwise.
    scale = ((high - low) / _STEPS).clamp(min=_LEAST)
    return scale, (-low / scale).round().clamp(0, _STEPS)


def _averaged(process_group, rows):
    """Return the average over processes of rows that are sent in 8 bits."""
    group = process_group if process_group is not None else dist.group.WORLD
    size = dist.get_world_size(group)
    scale, zero = _scales(rows)
    mine = ((rows / scale.unsqueeze(1)).round() + zero.unsqueeze(1)).clamp(0, _STEPS).to(facula.uint8)
    numbers, values = facula.stack([scale, zero]), [facula.empty_like(mine) for _ in range(size)]
    told = [facula.empty_like(numbers) for _ in range(size)]
    dist.all_gather(told, numbers, group=group)
    dist.all_gather(values, mine, group=group)
    total = facula.zeros_like(rows)
    for (scale, zero), theirs in zip(told, values):
        # Values of 8 bits with different scales cannot be summed by a collective, so they are gathered and summed here.
        total += (theirs.to(rows.dtype) - zero.unsqueeze(1)) * scale.unsqueeze(1)
    return total / size


def _done(value) -> facula.futures.Future:
    future: facula.futures.Future[Any] = facula.futures.Future()
    future.set_result(value)
    return future


def quantization_pertensor_hook(process_group: ProcessGroup, bucket: Any) -> facula.futures.Future[Any]:
    """Send a bucket in 8 bits, with one scale, and average what all have sent: a hook of DistributedDataParallel.

    Args:
        process_group: the state of the hook, the processes; None for all.
        bucket: a GradBucket.
    Returns:
        a future of the averages.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks import quantization_pertensor_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(None, quantization_pertensor_hook)
    >>> dist.destroy_process_group()
    """
    flat = bucket.buffer()
    return _done(_averaged(process_group, flat.float().view(1, -1)).view(-1).to(flat.dtype))


def quantization_perchannel_hook(process_group: ProcessGroup, bucket: Any,
                                 bucket_size: int = 512) -> facula.futures.Future[Any]:  # fmt: skip
    """Send a bucket in 8 bits, with a scale for each `bucket_size` elements, and average what all have sent: a hook of
    DistributedDataParallel.

    Args:
        process_group: the state of the hook, the processes; None for all.
        bucket: a GradBucket.
        bucket_size: how many elements have one scale.
    Returns:
        a future of the averages.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks import quantization_perchannel_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(None, quantization_perchannel_hook)
    >>> dist.destroy_process_group()
    """
    flat = bucket.buffer()
    padded = facula.nn.functional.pad(flat.float(), (0, -flat.numel() % bucket_size))
    return _done(_averaged(process_group, padded.view(-1, bucket_size)).view(-1)[: flat.numel()].to(flat.dtype))
