"""Hooks that send gradients in 8 bits: every process sends its own, with scales, and averages those of all."""

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
    """(scale, zero point) of each row: 0 has a number of its own, so that it stays 0."""
    low, high = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
    scale = ((high - low) / _STEPS).clamp(min=_LEAST)
    return scale, (-low / scale).round().clamp(0, _STEPS)


def _averaged(process_group, rows):
    """The average over processes of rows that are sent in 8 bits."""
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
        total += (theirs.to(rows.dtype) - zero.unsqueeze(1)) * scale.unsqueeze(1)
    return total / size


def _done(value) -> facula.futures.Future:
    future: facula.futures.Future[Any] = facula.futures.Future()
    future.set_result(value)
    return future


def quantization_pertensor_hook(process_group: ProcessGroup, bucket: Any) -> facula.futures.Future[Any]:
    """Sends a bucket in 8 bits, with one scale. The state is the process group, or None for all."""
    flat = bucket.buffer()
    return _done(_averaged(process_group, flat.float().view(1, -1)).view(-1).to(flat.dtype))


def quantization_perchannel_hook(process_group: ProcessGroup, bucket: Any,
                                 bucket_size: int = 512) -> facula.futures.Future[Any]:  # fmt: skip
    """As `quantization_pertensor_hook`, with a scale for each `bucket_size` elements."""
    flat = bucket.buffer()
    padded = facula.nn.functional.pad(flat.float(), (0, -flat.numel() % bucket_size))
    return _done(_averaged(process_group, padded.view(-1, bucket_size)).view(-1)[: flat.numel()].to(flat.dtype))
