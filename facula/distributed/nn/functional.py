"""Define collectives with gradients: the gradients of the results of all processes are gathered where the values came
from.

The results are new tensors. All processes of the group must call both directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import distributed as dist
from facula.autograd import Function
from facula.distributed import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.distributed._group import ProcessGroup

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _group(group):
    return dist.group.WORLD if group is None else group


def _alike(tensor, count):
    return [facula.empty_like(tensor, memory_format=facula.contiguous_format) for _ in range(count)]


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, tensor, src, group):
        ctx.src, ctx.group = src, group
        result = tensor.clone(memory_format=facula.contiguous_format)
        dist.broadcast(result, src, group=group)
        return result

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone(memory_format=facula.contiguous_format)
        dist.reduce(total, ctx.src, group=ctx.group)
        return (total if dist.get_rank() == ctx.src else facula.zeros_like(total)), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx, tensor, dst, op, group):
        ctx.dst, ctx.group = dst, group
        result = tensor.clone(memory_format=facula.contiguous_format)
        dist.reduce(result, dst, op, group=group)
        return result

    @staticmethod
    def backward(ctx, grad):
        told = grad.clone(memory_format=facula.contiguous_format)
        dist.broadcast(told, ctx.dst, group=ctx.group)
        return told, None, None, None


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, tensor, op, group):
        ctx.op, ctx.group = op, group
        result = tensor.clone(memory_format=facula.contiguous_format)
        dist.all_reduce(result, op, group=group)
        return result

    @staticmethod
    def backward(ctx, grad):
        return _AllReduce.apply(grad, ctx.op, ctx.group), None, None


class _Gather(Function):
    @staticmethod
    def forward(ctx, tensor, dst, group):
        ctx.dst, ctx.group = dst, group
        parts = _alike(tensor, dist.get_world_size(group))
        dist.gather(tensor.contiguous(), parts if dist.get_rank() == dst else None, dst, group=group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        mine = facula.empty_like(grads[0], memory_format=facula.contiguous_format)
        parts = [g.contiguous() for g in grads] if dist.get_rank() == ctx.dst else None
        dist.scatter(mine, parts, ctx.dst, group=ctx.group)
        return mine, None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx, src, group, *tensors):
        ctx.src, ctx.group = src, group
        mine = facula.empty_like(tensors[0], memory_format=facula.contiguous_format)
        dist.scatter(mine, [t.contiguous() for t in tensors] if dist.get_rank() == src else None, src, group=group)
        return mine

    @staticmethod
    def backward(ctx, grad):
        parts = _alike(grad, dist.get_world_size(ctx.group))
        here = dist.get_rank() == ctx.src
        dist.gather(grad.contiguous(), parts if here else None, ctx.src, group=ctx.group)
        return None, None, *(parts if here else [facula.zeros_like(p) for p in parts])


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, op, group, *tensors):
        ctx.group = group
        mine = facula.empty_like(tensors[0], memory_format=facula.contiguous_format)
        dist.reduce_scatter(mine, [t.contiguous() for t in tensors], op, group=group)
        return mine

    @staticmethod
    def backward(ctx, grad):
        parts = _alike(grad, dist.get_world_size(ctx.group))
        dist.all_gather(parts, grad.contiguous(), group=ctx.group)
        return None, None, *parts


class _AllGather(Function):
    @staticmethod
    def forward(ctx, tensor, group):
        ctx.group = group
        parts = _alike(tensor, dist.get_world_size(group))
        dist.all_gather(parts, tensor.contiguous(), group=group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        mine = facula.empty_like(grads[0], memory_format=facula.contiguous_format)
        dist.reduce_scatter(mine, [g.contiguous() for g in grads], group=ctx.group)
        return mine, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx, shapes, group, *tensors):
        ctx.shapes, ctx.group = [t.shape for t in tensors], group
        received = [tensors[0].new_empty(shape) for shape in shapes]
        dist.all_to_all(received, [t.contiguous() for t in tensors], group=group)
        return tuple(received)

    @staticmethod
    def backward(ctx, *grads):
        received = [grads[0].new_empty(shape) for shape in ctx.shapes]
        dist.all_to_all(received, [g.contiguous() for g in grads], group=ctx.group)
        return None, None, *received


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx, tensor, shape, output_splits, input_splits, group):
        ctx.shape, ctx.splits, ctx.group = tensor.shape, (output_splits, input_splits), group
        received = tensor.new_empty(shape)
        dist.all_to_all_single(received, tensor.contiguous(), output_splits, input_splits, group=group)
        return received

    @staticmethod
    def backward(ctx, grad):
        received = grad.new_empty(ctx.shape)
        output_splits, input_splits = ctx.splits
        dist.all_to_all_single(received, grad.contiguous(), input_splits, output_splits, group=ctx.group)
        return received, None, None, None, None


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Any:
    """Return the tensor of process `src`, in every process of the group. Its gradient is the sum of theirs.

    Args:
        tensor: of one shape and dtype in all.
        src: the rank among all processes.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> dist.nn.broadcast(x, src=0).sum().backward()
    >>> x.grad  # of N processes: N in process 0, else 0
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _Broadcast.apply(tensor, src, _group(group))


def gather(tensor: Tensor, dst: int = 0, group: ProcessGroup | None = None) -> Any:
    """Return a tuple of the tensors of all processes; only in process `dst` do they hold values. Gradients go back to where
    they came from.

    Args:
        tensor: of one shape and dtype in all.
        dst: the rank among all processes.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.nn.gather(torch.ones(2), dst=0)
    (tensor([1., 1.]),)
    >>> dist.destroy_process_group()
    """
    return _Gather.apply(tensor, dst, _group(group))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: ProcessGroup | None = None) -> Any:
    """Return the tensor that process `src` has for this one. Gradients go back to it.

    Args:
        tensors: a tensor for each process, all of one shape and dtype; in other processes only shape and dtype count.
        src: the rank among all processes.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.nn.scatter([torch.ones(2)], src=0)
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _Scatter.apply(src, _group(group), *tensors)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None) -> Any:
    """Return the sum, or what `op` says, in process `dst`. Its gradient goes to all processes.

    Args:
        tensor: of one shape and dtype in all.
        dst: the rank among all processes.
        op: a ReduceOp; gradients are those of SUM.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.nn.reduce(torch.ones(2), dst=0)
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _Reduce.apply(tensor, dst, op, _group(group))


def reduce_scatter(output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None) -> Any:
    """Return the sum over processes of the tensors that they have for this one. Gradients are gathered.

    Args:
        output: gets the values, too.
        input_list: a tensor for each process.
        op: a ReduceOp; gradients are those of SUM.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.nn.reduce_scatter(torch.empty(2), [torch.ones(2)])
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    result = _ReduceScatter.apply(op, _group(group), *input_list)
    with facula.no_grad():
        output.copy_(result)
    return result


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> Any:
    """Return a tuple of the tensors of all processes. The gradient of each is summed where it came from.

    Args:
        tensor: of one shape and dtype in all.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.nn.all_gather(torch.ones(2))
    (tensor([1., 1.]),)
    >>> dist.destroy_process_group()
    """
    return _AllGather.apply(tensor, _group(group))


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: ProcessGroup | None = None) -> Any:
    """Return a tuple with what every process has for this one. Gradients go the way back.

    Args:
        output_tensor_list: tensors of the sizes that come; their values stay.
        input_tensor_list: a tensor for each process.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.nn.all_to_all([torch.empty(2)], [torch.ones(2)])
    (tensor([1., 1.]),)
    >>> dist.destroy_process_group()
    """
    return _AllToAll.apply([t.shape for t in output_tensor_list], _group(group), *input_tensor_list)


def all_to_all_single(output: Any, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
                      group: ProcessGroup | None = None) -> Any:  # fmt: skip
    """Return what every process has for this one of a tensor that is cut along its first dimension. Gradients go the way back.

    Args:
        output: a tensor of the size that comes; its values stay.
        input: what this process gives.
        output_split_sizes: how many rows come from each. Default: equal parts.
        input_split_sizes: how many rows go to each. Default: equal parts.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.nn.all_to_all_single(torch.empty(2), torch.ones(2))
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _AllToAllSingle.apply(input, output.shape, output_split_sizes, input_split_sizes, _group(group))


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None) -> Any:
    """Return the sum, or what `op` says, in every process. Its gradient is reduced the same way.

    Args:
        tensor: of one shape and dtype in all; it stays as it is.
        op: a ReduceOp.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> import torch.distributed.nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> dist.nn.all_reduce(x * 3).sum().backward()
    >>> x.grad  # of N processes: 3 * N
    tensor([3., 3.])
    >>> dist.destroy_process_group()
    """
    return _AllReduce.apply(tensor, op, _group(group))
