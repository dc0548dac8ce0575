"""Copies of tensors between devices: what `DataParallel` is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather"]


def broadcast(tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Tensor | None = None) -> tuple[Tensor, ...]:
    """A copy on each device, or into each tensor of `out`."""
    if (devices is None) == (out is None):
        raise RuntimeError(f"broadcast: devices or out must be given, got {'both' if out is not None else 'neither'}")
    if devices is not None:
        return tuple(tensor.to(device) for device in devices)
    return tuple(target.copy_(tensor) for target in out)


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760) -> list[list[Tensor]]:
    """A list of copies of the tensors for each device."""
    return [[tensor.to(device) for tensor in tensors] for device in devices]


def reduce_add(inputs: Any, destination: dict[str, Any] | None = None) -> Tensor:
    """The sum of tensors of one shape, on `destination` (default: the first one's device)."""
    if not inputs:
        raise RuntimeError("reduce_add: at least one tensor is expected, got none")
    for x in inputs:
        if x.shape != inputs[0].shape:
            raise ValueError(f"reduce_add: tensors of shape {tuple(inputs[0].shape)} are expected, got {tuple(x.shape)}")
    device = inputs[0].device if destination is None else destination
    total = inputs[0].to(device, copy=True)
    for x in inputs[1:]:
        total += x.to(device)
    return total


def reduce_add_coalesced(inputs: Any, destination: dict[str, Any] | None = None,
                         buffer_size: int = 10485760) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The sums of the tensors at the same place of several lists."""
    return tuple(reduce_add(list(tensors), destination) for tensors in zip(*inputs, strict=True))


def scatter(tensor: Tensor, devices: Sequence[Any] | None = None, chunk_sizes: Any = None, dim: int = 0, streams: Any = None, *,
            out: Tensor | None = None) -> tuple[Tensor, ...]:  # fmt: skip
    """The parts of a tensor along `dim`, one on each device, or into the tensors of `out`."""
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError("scatter: out gives devices and sizes, got devices or chunk_sizes besides")
        parts = tensor.split([target.size(dim) for target in out], dim)
        return tuple(target.copy_(part) for target, part in zip(out, parts))
    parts = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(part.to(device) for part, device in zip(parts, devices))


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: dict[str, Any] | None = None, *,
           out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The tensors joined along `dim`, on `destination` (default: the first one's device), or into `out`."""
    if out is None:
        device = tensors[0].device if destination is None else destination
        return facula.cat([tensor.to(device) for tensor in tensors], dim)
    if destination is not None:
        raise RuntimeError(f"gather: out gives the destination, got {destination!r} besides")
    return facula.cat([tensor.to(out.device) for tensor in tensors], dim, out=out)
