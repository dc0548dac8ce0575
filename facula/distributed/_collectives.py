"""Collectives and messages. The arguments are checked here; `src/distributed/operation.cpp` lays out memory and transfers."""

from __future__ import annotations

import contextlib
import datetime

from facula import _C, Tensor, view_as_real
from facula.futures import Future

from ._group import PremulSum, ReduceOp, get_group_rank, member, supports_complex
from ._rendezvous import seconds

# numbers of `Kind` in src/distributed/engine.h
_ALL_REDUCE, _REDUCE, _BROADCAST, _ALL_GATHER, _GATHER, _SCATTER, _REDUCE_SCATTER, _ALL_TO_ALL = range(8)
_BARRIER, _SEND, _RECV = range(8, 11)


class Work:
    """A collective or a message under way. `wait` makes sure that it is done; errors are raised there."""

    def __init__(self, native, written=()):
        self._native, self._written = native, list(written)

    def wait(self, timeout=None):
        """True, once it is done. DistBackendError if it failed, or is not done after `timeout`, a timedelta.

        What NCCL does is waited for by the current stream, and by the program only with a timeout."""
        limit = -1.0 if timeout is None or timeout == datetime.timedelta(0) else seconds(timeout, None)
        if not self._native.wait(limit):
            from ._errors import DistBackendError

            raise DistBackendError(f"wait: {self._native.text()} is not done after {limit:g} s")
        return True

    synchronize = wait

    def is_completed(self):
        """Whether it is done, or has failed."""
        return self._native.done()

    def is_success(self):
        """Whether it is done and has not failed."""
        return self._native.done() and self._native.error() is None

    def exception(self):
        """What went wrong, or None."""
        from ._errors import DistBackendError

        text = self._native.error()
        return None if text is None else DistBackendError(text)

    def result(self):
        """The tensors it wrote."""
        return self._written

    def source_rank(self):
        """The rank in the group that a message came from."""
        return self._native.source()

    _source_rank = source_rank

    def get_future(self):
        """A Future of the tensors it wrote. Where NCCL writes them, it is done when that is queued: what follows (`then`) runs
        on the stream that called."""
        future = Future()
        at = self._native.stream()

        def settle():
            error = self.exception()
            if error is not None:
                return future.set_exception(error)
            if at is None:
                return future.set_result(self._written)
            from facula import cuda

            with cuda.stream(cuda.ExternalStream(at[1], at[0])):
                self._native.wait(-1.0)
                future.set_result(self._written)

        self._native.then(settle)
        return future


class _Works:
    """Several, as one."""

    def __init__(self, works):
        self._works = works

    def wait(self, timeout=None):
        """True, once all are done."""
        for work in self._works:
            work.wait(timeout)
        return True

    synchronize = wait

    def is_completed(self):
        """Whether all are done."""
        return all(work.is_completed() for work in self._works)


# ---- arguments


def _tensors(name, *values):
    for value in values:
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected a Tensor, got {type(value).__name__}")


def _list(name, what, values, count=None):
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{name}: {what} must be a list of tensors, got {type(values).__name__}")
    if count is not None and len(values) != count:
        raise ValueError(f"{name}: {what} must have one element for each of {count} processes, got {len(values)}")
    _tensors(name, *values)
    return list(values)


def _peer(name, group, rank, group_rank, default=None):
    """The rank in the group, of a rank among all processes or in the group."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}: a rank or a rank in the group, got both, {rank} and {group_rank}")
    if rank is None and group_rank is None:
        if default is None:
            raise ValueError(f"{name}: a rank or a rank in the group must be given, got neither")
        return default
    if group_rank is None:
        try:
            return get_group_rank(group, rank)
        except ValueError:
            raise ValueError(f"{name}: the group has ranks {group._ranks}, got {rank}") from None
    if not 0 <= group_rank < group.size():
        raise ValueError(f"{name}: the group has ranks 0 to {group.size() - 1}, got {group_rank}")
    return group_rank


def _reduction(name, op, *tensors):
    """(number, factor) of a ReduceOp."""
    if isinstance(op, PremulSum):
        return op.value, op.factor
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp, got {type(op).__name__}")
    if any(t.is_complex() for t in tensors) and not supports_complex(op):
        raise ValueError(f"{name}: {op.name} does not go with complex tensors, got {tensors[0].dtype}")
    return op.value, 1.0


def _same(name, outputs, inputs, part=1):
    """Checks the dtypes, and that outputs and inputs hold as many elements, or `part` times as many."""
    for target in outputs:
        if inputs and target.dtype != inputs[0].dtype:
            raise ValueError(f"{name}: input and output of one dtype, got {inputs[0].dtype} and {target.dtype}")
    sizes = sum(t.numel() for t in outputs), sum(t.numel() for t in inputs) * part
    if sizes[0] != sizes[1]:
        shapes = [tuple(t.shape) for t in (*inputs[:1], *outputs[:1])]
        raise ValueError(f"{name}: the output must have the size that goes with the input {sizes[1]}, got {sizes[0]}; {shapes}")


_NOTHING = ()


def _seen(group, name, tensors, root=0):
    """Tells a profile that a collective begins: what it gives, unless None, is called at the end."""
    from facula.autograd.profiler import begin_asynchronous

    name = {"isend": "send", "irecv": "recv"}.get(name, name.removesuffix("_coalesced"))
    if root < 0:
        name = "recvAnySource"
    return begin_asynchronous(f"{group.name()}:{name}", tensors)


def _run(
    group, kind, name, inputs, outputs, async_op, reduction=(0, 1.0), root=0, tag=0, in_splits=_NOTHING, out_splits=_NOTHING,
    timeout=None, shown=True,
):  # fmt: skip
    limit = group._timeout.total_seconds() if timeout is None else seconds(timeout, None)
    collected = group._coalesced
    waits = not async_op and collected is None
    ended = _seen(group, name, inputs or outputs, root) if shown and _C._watching() else None
    native = group._native.run(kind, name, inputs, outputs, *reduction, root, tag, in_splits, out_splits, limit, waits)
    if native is None:
        if ended is not None:
            ended()
        return None
    if ended is not None:
        native.then(ended)
    work = Work(native, outputs or inputs)
    if collected is not None:
        collected.append(work)
    return work if async_op else None


# ---- collectives


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces `tensor` over the processes, in place."""
    _tensors("all_reduce", tensor)
    reduction = _reduction("all_reduce", op, tensor)
    group = member("all_reduce", group)
    return _run(group, _ALL_REDUCE, "all_reduce", _NOTHING, [tensor], async_op, reduction) if group else None


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """all_reduce of several tensors of one dtype; float32 goes with complex64, float64 with complex128."""
    tensors = _list("all_reduce_coalesced", "tensors", tensors)
    reduction = _reduction("all_reduce_coalesced", op, *tensors)
    if len({t.dtype for t in tensors}) > 1:
        tensors = [view_as_real(t) if t.is_complex() else t for t in tensors]
    group = member("all_reduce_coalesced", group)
    return _run(group, _ALL_REDUCE, "all_reduce_coalesced", _NOTHING, tensors, async_op, reduction) if group else None


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Reduces to the process `dst`."""
    _tensors("reduce", tensor)
    reduction = _reduction("reduce", op, tensor)
    group = member("reduce", group)
    if group is None:
        return None
    return _run(group, _REDUCE, "reduce", _NOTHING, [tensor], async_op, reduction, _peer("reduce", group, dst, group_dst))


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Gives every process the tensor of `src`."""
    _tensors("broadcast", tensor)
    group = member("broadcast", group)
    if group is None:
        return None
    return _run(group, _BROADCAST, "broadcast", _NOTHING, [tensor], async_op, root=_peer("broadcast", group, src, group_src))


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Fills a list with the tensors of all processes."""
    group = member("all_gather", group)
    if group is None:
        return None
    return _all_gather(group, tensor_list, tensor, async_op)


def _all_gather(group, tensor_list, tensor, async_op, shown=True):
    _tensors("all_gather", tensor)
    outputs = _list("all_gather", "tensor_list", tensor_list, group.size())
    _same("all_gather", outputs, [tensor], group.size())
    return _run(group, _ALL_GATHER, "all_gather", [tensor], outputs, async_op, shown=shown)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """all_gather of several tensors: a list for each process, with its tensors."""
    group = member("all_gather_coalesced", group)
    if group is None:
        return None
    if not isinstance(output_tensor_lists, (list, tuple)) or len(output_tensor_lists) != group.size():
        raise ValueError(f"all_gather_coalesced: output_tensor_lists must have one list for each of {group.size()} processes")
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


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Concatenates or stacks the tensors of all processes."""
    group = member("all_gather_into_tensor", group)
    if group is None:
        return None
    _tensors("all_gather_into_tensor", output_tensor, input_tensor)
    _same("all_gather_into_tensor", [output_tensor], [input_tensor], group.size())
    return _run(group, _ALL_GATHER, "all_gather_into_tensor", [input_tensor], [output_tensor], async_op)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Fills a list on the process `dst` (default 0) with the tensors of all."""
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


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Gives each process its element of the list on `src` (default 0)."""
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


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces lists, and gives each process its element."""
    group = member("reduce_scatter", group)
    if group is None:
        return None
    _tensors("reduce_scatter", output)
    inputs = _list("reduce_scatter", "input_list", input_list, group.size())
    _same("reduce_scatter", inputs, [output], group.size())
    reduction = _reduction("reduce_scatter", op, output)
    return _run(group, _REDUCE_SCATTER, "reduce_scatter", inputs, [output], async_op, reduction)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces, and gives each process its part."""
    group = member("reduce_scatter_tensor", group)
    if group is None:
        return None
    _tensors("reduce_scatter_tensor", output, input)
    _same("reduce_scatter_tensor", [input], [output], group.size())
    reduction = _reduction("reduce_scatter_tensor", op, output)
    return _run(group, _REDUCE_SCATTER, "reduce_scatter_tensor", [input], [output], async_op, reduction)


def all_gather_single(output, input, group=None, async_op=False):
    """As all_gather_into_tensor."""
    return all_gather_into_tensor(output, input, group, async_op)


def reduce_scatter_single(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """As reduce_scatter_tensor."""
    return reduce_scatter_tensor(output, input, op, group, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Sends each process its element of the list."""
    group = member("all_to_all", group)
    if group is None:
        return None
    outputs = _list("all_to_all", "output_tensor_list", output_tensor_list, group.size())
    inputs = _list("all_to_all", "input_tensor_list", input_tensor_list, group.size())
    for tensor in outputs:
        if tensor.dtype != inputs[0].dtype:
            raise ValueError(f"all_to_all: input and output of one dtype, got {inputs[0].dtype} and {tensor.dtype}")
    counts = [[t.numel() for t in tensors] for tensors in (inputs, outputs)]
    return _run(group, _ALL_TO_ALL, "all_to_all", inputs, outputs, async_op, in_splits=counts[0], out_splits=counts[1])


def _split_counts(name, tensor, splits, size):
    """Elements for each process: what the split sizes are of dimension 0, or equal parts."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if rows % size:
            raise ValueError(f"{name}: {size} processes must divide the first dimension, got {rows}")
        splits = [rows // size] * size
    if len(splits) != size or sum(splits) != rows or min(splits) < 0:
        raise ValueError(f"{name}: split sizes of {size} processes, the first dimension {rows} in all, got {list(splits)}")
    row = tensor.numel() // rows if rows else 0
    return [n * row for n in splits]


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Sends each process its part of a tensor, along dimension 0."""
    name = "all_to_all_single"
    group = member(name, group)
    if group is None:
        return None
    _tensors(name, output, input)
    if output.dtype != input.dtype:
        raise ValueError(f"{name}: input and output of one dtype, got {input.dtype} and {output.dtype}")
    counts = [_split_counts(name, t, s, group.size()) for t, s in ((input, input_split_sizes), (output, output_split_sizes))]
    return _run(group, _ALL_TO_ALL, name, [input], [output], async_op, in_splits=counts[0], out_splits=counts[1])


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Waits for all processes."""
    group = member("barrier", group)
    return _run(group, _BARRIER, "barrier", _NOTHING, _NOTHING, async_op, timeout=timeout) if group else None


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Waits for all processes; those that do not come in time are named, as by every collective.

    Args:
        group: the processes.
        timeout: a timedelta, or seconds.
        wait_all_ranks: accepted: all ranks that are missing are named.
    """
    group = member("monitored_barrier", group)
    if isinstance(timeout, (int, float)):
        timeout = datetime.timedelta(seconds=timeout)
    if group is not None:
        _run(group, _BARRIER, "monitored_barrier", _NOTHING, _NOTHING, False, timeout=timeout)


# ---- messages


def _other(name, group, rank, group_rank, any_one=False):
    found = _peer(name, group, rank, group_rank, -1 if any_one else None)
    if found == group.rank():
        raise ValueError(f"{name}: a process does not exchange with itself, got its own rank {group._ranks[found]}")
    return found


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to another process; the Work is done when the tensor may be written again."""
    group = member("isend", group)
    if group is None:
        return None
    _tensors("isend", tensor)
    return _run(group, _SEND, "isend", [tensor], _NOTHING, True, root=_other("isend", group, dst, group_dst), tag=tag)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor from another process, or from any."""
    group = member("irecv", group)
    if group is None:
        return None
    _tensors("irecv", tensor)
    return _run(group, _RECV, "irecv", _NOTHING, [tensor], True, root=_other("irecv", group, src, group_src, True), tag=tag)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to another process."""
    group = member("send", group)
    if group is not None:
        _tensors("send", tensor)
        _run(group, _SEND, "send", [tensor], _NOTHING, False, root=_other("send", group, dst, group_dst), tag=tag)


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor from another process, or from any; the rank that sent it."""
    group = member("recv", group)
    if group is None:
        return -1
    _tensors("recv", tensor)
    work = _run(group, _RECV, "recv", _NOTHING, [tensor], True, root=_other("recv", group, src, group_src, True), tag=tag)
    if group._coalesced is not None:
        return src
    work.wait()
    return group._ranks[work.source_rank()]


class P2POp:
    """One isend or irecv of a batch."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError(f"P2POp: op must be distributed.isend or distributed.irecv, got {op!r}")
        _tensors("P2POp", tensor)
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list):
    """Starts exchanges together; the list of their Work."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(f"batch_isend_irecv: expected a list of P2POp, got {p2p_op_list!r}")
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("batch_isend_irecv: all operations of a batch need one group, got several")
    native = member("batch_isend_irecv", p2p_op_list[0].group)._native
    native.begin_batch()
    try:
        works = [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
    finally:
        native.end_batch()
    return [work for work in works if work is not None]


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Collectives and messages called inside start together, and are waited for at the end; with `async_ops`, by `wait` of what
    the `with` statement gives."""
    group = member("_coalescing_manager", group)
    if group._coalesced is not None:
        raise ValueError("_coalescing_manager: one at a time for a group, got a second one inside")
    group._coalesced = collected = []
    together = _Works(collected)
    try:
        yield together
    finally:
        group._coalesced = None
    if not async_ops:
        together.wait()
