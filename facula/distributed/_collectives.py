"""Define the collectives. Long because the docstring of each describes its arguments and has an example."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from facula import _C, view_as_real

from ._backends import ReduceOp
from ._group import member
from ._operations import (
    _ALL_GATHER,
    _ALL_REDUCE,
    _ALL_TO_ALL,
    _BARRIER,
    _BROADCAST,
    _GATHER,
    _NOTHING,
    _REDUCE,
    _REDUCE_SCATTER,
    _SCATTER,
    _list,
    _peer,
    _reduction,
    _run,
    _same,
    _seen,
    _tensors,
    _Works,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import Any

    from facula import Tensor

    from ._backends import PremulSum
    from ._group import ProcessGroup
    from ._operations import Work


def all_reduce(tensor: Tensor, op: ReduceOp | PremulSum = ReduceOp.SUM, group: ProcessGroup | None = None,
               async_op: bool = False) -> Work | Any:  # fmt: skip
    """Reduce `tensor` over the processes, in place: each then has ``op(tensor of rank 0, tensor of rank 1, ...)``.

    Args:
        tensor: of one shape and dtype in all processes.
        op: a ReduceOp. Default: SUM.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    Errors: DistBackendError in every process where shapes, dtypes or operations differ, TypeError for what is no Tensor or
    ReduceOp, ValueError for an op that complex tensors do not have.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.tensor([1.0, 2.0])
    >>> dist.all_reduce(x)  # with this x on N ranks: N * x
    >>> x
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    _tensors("all_reduce", tensor)
    reduction = _reduction("all_reduce", op, tensor)
    group = member("all_reduce", group)
    return _run(group, _ALL_REDUCE, "all_reduce", _NOTHING, [tensor], async_op, reduction) if group else None


def all_reduce_coalesced(tensors: Sequence[Tensor], op: ReduceOp | PremulSum = ReduceOp.SUM,
                         group: ProcessGroup | None = None, async_op: bool = False) -> Work | Any:  # fmt: skip
    """Do all_reduce of several tensors in one go, in place.

    Args:
        tensors: a list, of one dtype; float32 goes with complex64, float64 with complex128.
        op: a ReduceOp. Default: SUM.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    Errors: DistBackendError in every process where shapes, dtypes or operations differ, TypeError for what is no list of
    tensors.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.all_reduce_coalesced([torch.ones(2), torch.ones(3)], op=dist.ReduceOp.AVG)
    >>> dist.destroy_process_group()
    """
    tensors = _list("all_reduce_coalesced", "tensors", tensors)
    reduction = _reduction("all_reduce_coalesced", op, *tensors)
    # Tensors of several dtypes are sent in one message for each dtype; real views let complex numbers join the real
    # ones.
    if len({t.dtype for t in tensors}) > 1:
        tensors = [view_as_real(t) if t.is_complex() else t for t in tensors]
    group = member("all_reduce_coalesced", group)
    return _run(group, _ALL_REDUCE, "all_reduce_coalesced", _NOTHING, tensors, async_op, reduction) if group else None


def reduce(tensor: Tensor, dst: int | None = None, op: ReduceOp | PremulSum = ReduceOp.SUM, group: ProcessGroup | None = None,
           async_op: bool = False, group_dst: int | None = None) -> Work | Any:  # fmt: skip
    """Reduce tensors of all processes to that of one; what the others then have in theirs is not told.

    Args:
        tensor: what each gives, and what `dst` gets, in place.
        dst: the rank among all processes that gets it. ValueError where neither it nor `group_dst` is given.
        op: a ReduceOp. Default: SUM.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.
        group_dst: the rank in the group, in the place of `dst`.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    Errors: DistBackendError in every process where shapes, dtypes, operations or ranks differ, TypeError for what is no tensor.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.tensor([1.0, 2.0])
    >>> dist.reduce(x, dst=0)
    >>> x
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    _tensors("reduce", tensor)
    reduction = _reduction("reduce", op, tensor)
    group = member("reduce", group)
    if group is None:
        return None
    return _run(group, _REDUCE, "reduce", _NOTHING, [tensor], async_op, reduction, _peer("reduce", group, dst, group_dst))


def broadcast(tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, async_op: bool = False,
              group_src: int | None = None) -> Work | Any:  # fmt: skip
    """Give every process the values of the tensor of one, in place.

    Args:
        tensor: what `src` gives, and the others get; of one shape and dtype in all.
        src: the rank among all processes that has it. ValueError where neither it nor `group_src` is given.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.
        group_src: the rank in the group, in the place of `src`.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    Errors: DistBackendError in every process where shapes, dtypes or ranks differ, TypeError for what is no tensor.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.arange(3) if dist.get_rank() == 0 else torch.empty(3, dtype=torch.int64)
    >>> dist.broadcast(x, src=0)
    >>> x
    tensor([0, 1, 2])
    >>> dist.destroy_process_group()
    """
    _tensors("broadcast", tensor)
    group = member("broadcast", group)
    if group is None:
        return None
    return _run(group, _BROADCAST, "broadcast", _NOTHING, [tensor], async_op, root=_peer("broadcast", group, src, group_src))


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: ProcessGroup | None = None,
               async_op: bool = False) -> Work | Any:  # fmt: skip
    """Fill a list with the tensors of all processes.

    Args:
        tensor_list: a tensor for each process, in the order of ranks; ValueError for another number, or another size or dtype.
        tensor: what this process gives; of one shape and dtype in all.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    Errors: DistBackendError in every process where shapes or dtypes differ, TypeError for what is no tensor.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [torch.empty(2) for _ in range(dist.get_world_size())]
    >>> dist.all_gather(found, torch.tensor([1.0, 2.0]))
    >>> found
    [tensor([1., 2.])]
    >>> dist.destroy_process_group()
    """
    group = member("all_gather", group)
    if group is None:
        return None
    return _all_gather(group, tensor_list, tensor, async_op)


def _all_gather(group, tensor_list, tensor, async_op, shown=True):
    _tensors("all_gather", tensor)
    outputs = _list("all_gather", "tensor_list", tensor_list, group.size())
    _same("all_gather", outputs, [tensor], group.size())
    return _run(group, _ALL_GATHER, "all_gather", [tensor], outputs, async_op, shown=shown)


def all_gather_coalesced(output_tensor_lists: Sequence[Sequence[Tensor]], input_tensor_list: Sequence[Tensor],
                         group: ProcessGroup | None = None, async_op: bool = False) -> Work | Any:  # fmt: skip
    """Do all_gather of several tensors.

    Args:
        output_tensor_lists: for each process a list with a tensor for each of its tensors. ValueError for another number of
            lists.
        input_tensor_list: what this process gives.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [[torch.empty(2), torch.empty(1)]]
    >>> dist.all_gather_coalesced(found, [torch.ones(2), torch.zeros(1)])
    >>> found
    [[tensor([1., 1.]), tensor([0.])]]
    >>> dist.destroy_process_group()
    """
    group = member("all_gather_coalesced", group)
    if group is None:
        return None
    if not isinstance(output_tensor_lists, (list, tuple)) or len(output_tensor_lists) != group.size():
        raise ValueError(f"all_gather_coalesced: output_tensor_lists must have one list for each of {group.size()} processes")
    # The argument has a list for each process, and all_gather needs a list for each tensor.
    columns = [[row[i] for row in output_tensor_lists] for i in range(len(input_tensor_list))]
    ended = _seen(group, "all_gather", input_tensor_list) if _C._watching() else None
    works = [_all_gather(group, column, tensor, True, False) for column, tensor in zip(columns, input_tensor_list)]
    if ended is not None and works:
        works[-1]._native.then(ended)
    return _together(works, async_op)


def _together(works, async_op):
    made = _Works(works)
    if async_op:
        return made
    made.wait()
    return None


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None,
                           async_op: bool = False) -> Work | Any:  # fmt: skip
    """Gather the tensors of all processes into one tensor, one behind the other.

    Args:
        output_tensor: as many times the elements of the input as there are processes: they are concatenated along dimension 0,
            or stacked, as its shape says. ValueError for another size or dtype.
        input_tensor: what this process gives; of one shape and dtype in all.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = torch.empty(dist.get_world_size(), 2)
    >>> dist.all_gather_into_tensor(found, torch.tensor([1.0, 2.0]))
    >>> found
    tensor([[1., 2.]])
    >>> dist.destroy_process_group()
    """
    group = member("all_gather_into_tensor", group)
    if group is None:
        return None
    _tensors("all_gather_into_tensor", output_tensor, input_tensor)
    _same("all_gather_into_tensor", [output_tensor], [input_tensor], group.size())
    return _run(group, _ALL_GATHER, "all_gather_into_tensor", [input_tensor], [output_tensor], async_op)


def gather(tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int | None = None,
           group: ProcessGroup | None = None, async_op: bool = False, group_dst: int | None = None) -> Work | Any:  # fmt: skip
    """Fill a list in one process with the tensors of all.

    Args:
        tensor: what this process gives; of one shape and dtype in all.
        gather_list: in the process that gathers, a tensor for each rank; in the others nothing (else ValueError).
        dst: the rank among all processes that gathers. Default: rank 0 of the group.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.
        group_dst: the rank in the group, in the place of `dst`.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [torch.empty(2) for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
    >>> dist.gather(torch.tensor([1.0, 2.0]), found, dst=0)
    >>> found
    [tensor([1., 2.])]
    >>> dist.destroy_process_group()
    """
    group = member("gather", group)
    if group is None:
        return None
    _tensors("gather", tensor)
    root = _peer("gather", group, dst, group_dst, 0)
    if group.rank() == root:
        outputs = _list("gather", "gather_list", gather_list if gather_list is not None else [], group.size())
        _same("gather", outputs, [tensor], group.size())
    elif gather_list:
        raise ValueError(f"gather: gather_list is for rank {root} of the group, which gathers, got one on rank {group.rank()}")
    else:
        outputs = []
    return _run(group, _GATHER, "gather", [tensor], outputs, async_op, root=root)


def scatter(tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int | None = None,
            group: ProcessGroup | None = None, async_op: bool = False, group_src: int | None = None) -> Work | Any:  # fmt: skip
    """Give each process its element of a list that one process has.

    Args:
        tensor: what this process gets, in place; of one shape and dtype in all.
        scatter_list: in the process that scatters, a tensor for each rank; in the others nothing (else ValueError).
        src: the rank among all processes that scatters. Default: rank 0 of the group.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.
        group_src: the rank in the group, in the place of `src`.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mine = torch.empty(2)
    >>> dist.scatter(mine, [torch.full((2,), float(rank)) for rank in range(dist.get_world_size())], src=0)
    >>> mine
    tensor([0., 0.])
    >>> dist.destroy_process_group()
    """
    group = member("scatter", group)
    if group is None:
        return None
    _tensors("scatter", tensor)
    root = _peer("scatter", group, src, group_src, 0)
    if group.rank() == root:
        inputs = _list("scatter", "scatter_list", scatter_list if scatter_list is not None else [], group.size())
        _same("scatter", inputs, [tensor], group.size())
    elif scatter_list:
        raise ValueError(f"scatter: scatter_list is for rank {root} of the group, which scatters, got one on {group.rank()}")
    else:
        inputs = []
    return _run(group, _SCATTER, "scatter", inputs, [tensor], async_op, root=root)


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: ReduceOp | PremulSum = ReduceOp.SUM,
                   group: ProcessGroup | None = None, async_op: bool = False) -> Work | Any:  # fmt: skip
    """Reduce lists element by element, and give each process its element: rank i gets ``op(input_list[i] of all)``.

    Args:
        output: what this process gets, in place.
        input_list: a tensor for each process, all as large as `output`; ValueError for others.
        op: a ReduceOp. Default: SUM.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mine = torch.empty(2)
    >>> dist.reduce_scatter(mine, [torch.tensor([1.0, 2.0])])
    >>> mine
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    group = member("reduce_scatter", group)
    if group is None:
        return None
    _tensors("reduce_scatter", output)
    inputs = _list("reduce_scatter", "input_list", input_list, group.size())
    _same("reduce_scatter", inputs, [output], group.size())
    reduction = _reduction("reduce_scatter", op, output)
    return _run(group, _REDUCE_SCATTER, "reduce_scatter", inputs, [output], async_op, reduction)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: ReduceOp | PremulSum = ReduceOp.SUM,
                          group: ProcessGroup | None = None, async_op: bool = False) -> Work | Any:  # fmt: skip
    """Reduce tensors, and give each process its part of the result, along dimension 0.

    Args:
        output: what this process gets, in place.
        input: as many times the elements of `output` as there are processes; ValueError for another size.
        op: a ReduceOp. Default: SUM.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mine = torch.empty(2)
    >>> dist.reduce_scatter_tensor(mine, torch.tensor([1.0, 2.0]))  # of N ranks each gives 2 * N elements
    >>> mine
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    group = member("reduce_scatter_tensor", group)
    if group is None:
        return None
    _tensors("reduce_scatter_tensor", output, input)
    _same("reduce_scatter_tensor", [input], [output], group.size())
    reduction = _reduction("reduce_scatter_tensor", op, output)
    return _run(group, _REDUCE_SCATTER, "reduce_scatter_tensor", [input], [output], async_op, reduction)


def all_gather_single(output: Tensor, input: Tensor, group: ProcessGroup | None = None, async_op: bool = False) -> Work | Any:
    """Gather the tensors of all processes into one tensor: another name of `all_gather_into_tensor`.

    Args:
        output: as many times the elements of the input as there are processes; concatenated or stacked, as its shape says.
        input: what this process gives.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = torch.empty(2)
    >>> dist.all_gather_single(found, torch.tensor([1.0, 2.0]))
    >>> found
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    return all_gather_into_tensor(output, input, group, async_op)


def reduce_scatter_single(output: Tensor, input: Tensor, op: ReduceOp | PremulSum = ReduceOp.SUM,
                          group: ProcessGroup | None = None, async_op: bool = False) -> Work | Any:  # fmt: skip
    """Reduce tensors, and give each process its part of the result: another name of `reduce_scatter_tensor`.

    Args:
        output: what this process gets, in place.
        input: as many times the elements of `output` as there are processes.
        op: a ReduceOp. Default: SUM.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mine = torch.empty(2)
    >>> dist.reduce_scatter_single(mine, torch.tensor([1.0, 2.0]))
    >>> mine
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    return reduce_scatter_tensor(output, input, op, group, async_op)


def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: ProcessGroup | None = None,
               async_op: bool = False) -> Work | Any:  # fmt: skip
    """Send each process its element of a list: element j that rank i gives becomes element i that rank j gets.

    Args:
        output_tensor_list: what this process gets, a tensor for each rank, in place.
        input_tensor_list: what it gives, a tensor for each rank. Sizes may differ, as long as both ends of a message agree.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    Errors: ValueError for another number of tensors than of processes, and for different dtypes.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [torch.empty(2)]
    >>> dist.all_to_all(found, [torch.tensor([1.0, 2.0])])
    >>> found
    [tensor([1., 2.])]
    >>> dist.destroy_process_group()
    """
    group = member("all_to_all", group)
    if group is None:
        return None
    outputs = _list("all_to_all", "output_tensor_list", output_tensor_list, group.size())
    inputs = _list("all_to_all", "input_tensor_list", input_tensor_list, group.size())
    for tensor in outputs:
        if tensor.dtype != inputs[0].dtype:
            raise ValueError(f"all_to_all: expected input and output of one dtype, got {inputs[0].dtype} and {tensor.dtype}")
    counts = [[t.numel() for t in tensors] for tensors in (inputs, outputs)]
    return _run(group, _ALL_TO_ALL, "all_to_all", inputs, outputs, async_op, in_splits=counts[0], out_splits=counts[1])


def _split_counts(name, tensor, splits, size):
    """Return the elements for each process: what the split sizes are of dimension 0, or equal parts."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if rows % size:
            raise ValueError(f"{name}: {size} processes must divide the first dimension, got {rows}")
        splits = [rows // size] * size
    if len(splits) != size or sum(splits) != rows or min(splits) < 0:
        raise ValueError(f"{name}: split sizes of {size} processes, the first dimension {rows} in all, got {list(splits)}")
    row = tensor.numel() // rows if rows else 0
    return [n * row for n in splits]


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: ProcessGroup | None = None,
                      async_op: bool = False) -> Work | Any:  # fmt: skip
    """Send each process its part of a tensor, along dimension 0; what comes lies behind each other in the order of ranks.

    Args:
        output: what this process gets, in place.
        input: what it gives, of the same dtype.
        output_split_sizes: how many rows come from each rank. Default: equal parts.
        input_split_sizes: how many rows go to each rank. Default: equal parts.
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    Errors: ValueError where the sizes are not as many as there are processes, or are not all rows, or parts are not equal.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = torch.empty(3, 2)
    >>> dist.all_to_all_single(found, torch.ones(3, 2), output_split_sizes=[3], input_split_sizes=[3])
    >>> found.sum()
    tensor(6.)
    >>> dist.destroy_process_group()
    """
    name = "all_to_all_single"
    group = member(name, group)
    if group is None:
        return None
    _tensors(name, output, input)
    if output.dtype != input.dtype:
        raise ValueError(f"{name}: expected input and output of one dtype, got {input.dtype} and {output.dtype}")
    counts = [_split_counts(name, t, s, group.size()) for t, s in ((input, input_split_sizes), (output, output_split_sizes))]
    return _run(group, _ALL_TO_ALL, name, [input], [output], async_op, in_splits=counts[0], out_splits=counts[1])


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: Sequence[int] | None = None,
            timeout: timedelta | None = None) -> Work | Any:  # fmt: skip
    """Wait until all processes have come here.

    Args:
        group: the processes. Default: all.
        async_op: whether it only begins, and a Work is returned.
        device_ids: accepted.
        timeout: how long, a timedelta. Default: that of the group.

    Returns: a Work with async_op; else None, as in a process outside of the group.

    Errors: DistBackendError when some do not come in time, or have ended; it names them.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.barrier()
    >>> dist.destroy_process_group()
    """
    group = member("barrier", group)
    return _run(group, _BARRIER, "barrier", _NOTHING, _NOTHING, async_op, timeout=timeout) if group else None


def monitored_barrier(group: ProcessGroup | None = None, timeout: timedelta | float | None = None,
                      wait_all_ranks: bool = False) -> None:  # fmt: skip
    """Wait for all processes; those that do not come in time are named, as by every collective.

    Args:
        group: the processes. Default: all.
        timeout: a timedelta, or seconds. Default: that of the group.
        wait_all_ranks: accepted: all ranks that are missing are named.

    Errors: DistBackendError, in all that have come, for ranks that have not.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.monitored_barrier(timeout=5)
    >>> dist.destroy_process_group()
    """
    group = member("monitored_barrier", group)
    if isinstance(timeout, (int, float)):
        timeout = datetime.timedelta(seconds=timeout)
    if group is not None:
        _run(group, _BARRIER, "monitored_barrier", _NOTHING, _NOTHING, False, timeout=timeout)
