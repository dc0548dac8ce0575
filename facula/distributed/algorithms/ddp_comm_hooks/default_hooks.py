"""Define hooks that sum gradients as they are, or in 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.distributed._group import ProcessGroup

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
    "noop_hook",
]


def _sum(process_group, tensor) -> facula.futures.Future:
    """Return the future of the sum over a group (None: all) divided by its size, in place."""
    group = process_group if process_group is not None else dist.group.WORLD
    tensor.div_(dist.get_world_size(group))
    work = dist.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: ProcessGroup, bucket: Any) -> facula.futures.Future[Any]:
    """Average gradients over the processes: a hook of DistributedDataParallel that does what happens without one.

    Args:
        process_group: the state of the hook, the processes; None for all.
        bucket: a GradBucket, whose buffer is averaged in place.
    Returns:
        a future of the buffer.

    A model of one process has nothing to average, and calls no hook.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(None, allreduce_hook)
    >>> model(torch.ones(1, 4)).sum().backward()
    >>> dist.destroy_process_group()
    """
    return _sum(process_group, bucket.buffer())


def _compress(process_group, bucket, dtype) -> facula.futures.Future:
    buffer = bucket.buffer()
    return _sum(process_group, buffer.to(dtype)).then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: ProcessGroup, bucket: Any) -> facula.futures.Future[Any]:
    """Average gradients in float16, half the bytes: a hook of DistributedDataParallel.

    Args:
        process_group: the state of the hook, the processes; None for all.
        bucket: a GradBucket, whose buffer is averaged in place.
    Returns:
        a future of the buffer.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(None, fp16_compress_hook)
    >>> dist.destroy_process_group()
    """
    return _compress(process_group, bucket, facula.float16)


def bf16_compress_hook(process_group: ProcessGroup, bucket: Any) -> facula.futures.Future[Any]:
    """Average gradients in bfloat16, half the bytes and float32's range: a hook of DistributedDataParallel.

    Args:
        process_group: the state of the hook, the processes; None for all.
        bucket: a GradBucket, whose buffer is averaged in place.
    Returns:
        a future of the buffer.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(None, bf16_compress_hook)
    >>> dist.destroy_process_group()
    """
    return _compress(process_group, bucket, facula.bfloat16)


def _compress_wrapper(hook, dtype):
    def wrapper(state, bucket):
        buffer = bucket.buffer()
        compressed = _Compressed(bucket, buffer.to(dtype))
        return hook(state, compressed).then(lambda future: buffer.copy_(_first(future.value())))

    return wrapper


def _first(value):
    return value[0] if isinstance(value, (list, tuple)) else value


class _Compressed:
    """Represent a bucket whose buffer has another dtype."""

    def __init__(self, bucket, buffer) -> None:
        self._bucket, self._buffer = bucket, buffer

    def __getattr__(self, name):
        return getattr(self._bucket, name)

    def buffer(self):
        return self._buffer

    def gradients(self):
        views, offset = [], 0
        for gradient in self._bucket.gradients():
            views.append(self._buffer[offset : offset + gradient.numel()].view(gradient.shape))
            offset += gradient.numel()
        return views

    def set_buffer(self, tensor):
        self._buffer = tensor


def fp16_compress_wrapper(hook: Callable[..., Any]) -> Any:
    """Return a hook whose bucket is handed over in float16.

    Args:
        hook: a hook, such as `powerSGD_hook`.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_wrapper
    >>> from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(PowerSGDState(None), fp16_compress_wrapper(powerSGD_hook))
    >>> dist.destroy_process_group()
    """
    return _compress_wrapper(hook, facula.float16)


def bf16_compress_wrapper(hook: Callable[..., Any]) -> Any:
    """Return a hook whose bucket is handed over in bfloat16.

    Args:
        hook: a hook, such as `powerSGD_hook`.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_wrapper
    >>> from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(PowerSGDState(None), bf16_compress_wrapper(powerSGD_hook))
    >>> dist.destroy_process_group()
    """
    return _compress_wrapper(hook, facula.bfloat16)


def noop_hook(_: Any, bucket: Any) -> facula.futures.Future[Any]:
    """Leave gradients as they are, different in every process: a hook of DistributedDataParallel, to see what
    communication costs.

    Args:
        _: the state of the hook; not looked at.
        bucket: a GradBucket.

    Returns: a Future that is done, of the bucket's buffer.

    >>> import torch.distributed as dist
    >>> from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    >>> model.register_comm_hook(None, noop_hook)
    >>> dist.destroy_process_group()
    """
    future: facula.futures.Future[Any] = facula.futures.Future()
    future.set_result(bucket.buffer())
    return future
