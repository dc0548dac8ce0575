"""Hooks that sum gradients as they are, or in 16 bits."""

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
    """The future of the sum over a group (None: all) divided by its size, in place."""
    group = process_group if process_group is not None else dist.group.WORLD
    tensor.div_(dist.get_world_size(group))
    work = dist.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: ProcessGroup, bucket: Any) -> facula.futures.Future[Any]:
    """What happens without a hook: the average of the gradients. The state is the process group, or None for all."""
    return _sum(process_group, bucket.buffer())


def _compress(process_group, bucket, dtype) -> facula.futures.Future:
    buffer = bucket.buffer()
    return _sum(process_group, buffer.to(dtype)).then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: ProcessGroup, bucket: Any) -> facula.futures.Future[Any]:
    """Averages gradients in float16: half the bytes."""
    return _compress(process_group, bucket, facula.float16)


def bf16_compress_hook(process_group: ProcessGroup, bucket: Any) -> facula.futures.Future[Any]:
    """Averages gradients in bfloat16: half the bytes, and float32's range."""
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
    """A bucket whose buffer has another dtype."""

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
    """A hook whose bucket is handed over in float16."""
    return _compress_wrapper(hook, facula.float16)


def bf16_compress_wrapper(hook: Callable[..., Any]) -> Any:
    """A hook whose bucket is handed over in bfloat16."""
    return _compress_wrapper(hook, facula.bfloat16)


def noop_hook(_: Any, bucket: Any) -> facula.futures.Future[Any]:
    """Leaves gradients as they are, different in every process: to see what communication costs."""
    future: facula.futures.Future[Any] = facula.futures.Future()
    future.set_result(bucket.buffer())
    return future
