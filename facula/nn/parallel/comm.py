"""Copy tensors between devices, as `DataParallel` needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather"]


def broadcast(tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return a copy on each device, or into each tensor of `out`.

    Args:
        tensor: the tensor.
        devices: names or numbers of devices.
        out: tensors of its shape, instead of devices.

    Returns: a tuple of tensors of the shape of tensor.

    Errors: RuntimeError unless one of `devices` and `out` is given.

    >>> torch.cuda.comm.broadcast(torch.ones(1), ["cpu", "cpu"])
    (tensor([1.]), tensor([1.]))
    """
    if (devices is None) == (out is None):
        raise RuntimeError(f"broadcast: devices or out must be given, got {'both' if out is not None else 'neither'}")
    if devices is not None:
        return tuple(tensor.to(device) for device in devices)
    return tuple(target.copy_(tensor) for target in out)


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760) -> list[list[Tensor]]:
    """Return a list of copies of the tensors for each device.

    Args:
        tensors: the tensors.
        devices: names or numbers of devices.
        buffer_size: accepted; each tensor is copied by itself.

    Returns: a list with a list of tensors for each device.

    Each copy has the shape of its tensor.

    >>> torch.cuda.comm.broadcast_coalesced([torch.ones(1), torch.zeros(1)], ["cpu"])
    [[tensor([1.]), tensor([0.])]]
    """
    return [[tensor.to(device) for tensor in tensors] for device in devices]


def reduce_add(inputs: Any, destination: dict[str, Any] | None = None) -> Tensor:
    """Return the sum of tensors of one shape.

    Args:
        inputs: the tensors, of any devices.
        destination: the device of the sum; None: that of the first tensor.

    Returns: a tensor of their shape.

    Errors: RuntimeError for no tensors, ValueError for other shapes.

    >>> torch.cuda.comm.reduce_add([torch.ones(2), torch.ones(2)])
    tensor([2., 2.])
    """
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
    """Return the sums of the tensors at the same place of several lists: a tuple.

    Args:
        inputs: lists of tensors, of equal length.
        destination: the device of the sums; None: that of the first tensors.
        buffer_size: accepted; each sum is computed by itself.

    Returns: a tuple of tensors.

    Each sum has the shape of the tensors that are added.

    >>> torch.cuda.comm.reduce_add_coalesced([[torch.ones(1)], [torch.ones(1)]])
    (tensor([2.]),)
    """
    return tuple(reduce_add(list(tensors), destination) for tensors in zip(*inputs, strict=True))


def scatter(tensor: Tensor, devices: Sequence[Any] | None = None, chunk_sizes: Any = None, dim: int = 0, streams: Any = None, *,
            out: Tensor | None = None) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the parts of a tensor along a dimension, one on each device, or into the tensors of `out`: a tuple.

    Args:
        tensor: the tensor.
        devices: names or numbers of devices.
        chunk_sizes: the sizes of the parts; None makes them as equal as they can be.
        dim: the dimension.
        streams: accepted; copies go to the current stream.
        out: tensors for the parts, instead of devices and sizes.

    Returns: a tuple of tensors, whose sizes along dim add up to that of tensor.

    Errors: RuntimeError where `out` is given with devices or sizes.

    >>> torch.cuda.comm.scatter(torch.arange(5), ["cpu", "cpu"])
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError("scatter: out gives devices and sizes, got devices or chunk_sizes besides")
        parts = tensor.split([target.size(dim) for target in out], dim)
        return tuple(target.copy_(part) for target, part in zip(out, parts))
    parts = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(part.to(device) for part, device in zip(parts, devices))


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: dict[str, Any] | None = None, *,
           out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the tensors joined along a dimension.

    Args:
        tensors: the tensors, of any devices.
        dim: the dimension.
        destination: the device of the result; None: that of the first tensor.
        out: a tensor for the result.

    Returns: a tensor, whose size along dim is the sum of theirs.

    Errors: RuntimeError where `destination` and `out` are given.

    >>> torch.cuda.comm.gather([torch.zeros(2), torch.ones(1)])
    tensor([0., 0., 1.])
    """
    if out is None:
        device = tensors[0].device if destination is None else destination
        return facula.cat([tensor.to(device) for tensor in tensors], dim)
    if destination is not None:
        raise RuntimeError(f"gather: out gives the destination, got {destination!r} besides")
    return facula.cat([tensor.to(out.device) for tensor in tensors], dim, out=out)
