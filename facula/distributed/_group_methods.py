"""Collectives as methods of a group, with options as PyTorch's C++ class has them: each gives its Work."""

from __future__ import annotations

import enum


class _Options:
    """Attributes, which programs set; `timeout` is that of the group where it is not positive."""

    _defaults: dict = {}

    def __init__(self):
        from ._group import ReduceOp

        self.timeout, self.asyncOp = None, True
        for name, value in self._defaults.items():
            setattr(self, name, getattr(ReduceOp, value) if name == "reduceOp" else value)


def _options(title, **defaults):
    body = {"_defaults": defaults, "__module__": "facula.distributed", "__doc__": "What a method of a group takes."}
    return type(title, (_Options,), body)


AllreduceOptions = _options("AllreduceOptions", reduceOp="SUM")
AllreduceCoalescedOptions = _options("AllreduceCoalescedOptions", reduceOp="SUM")
ReduceOptions = _options("ReduceOptions", reduceOp="SUM", rootRank=0, rootTensor=0)
ReduceScatterOptions = _options("ReduceScatterOptions", reduceOp="SUM")
BroadcastOptions = _options("BroadcastOptions", rootRank=0, rootTensor=0)
GatherOptions = _options("GatherOptions", rootRank=0)
ScatterOptions = _options("ScatterOptions", rootRank=0)
AllToAllOptions = _options("AllToAllOptions")
BarrierOptions = _options("BarrierOptions", device_ids=None, device=None)


def _root(value):
    return value.rootRank if isinstance(value, _Options) else 0 if value is None else int(value)


def _op(value):
    from ._group import ReduceOp

    return value.reduceOp if isinstance(value, _Options) else ReduceOp.SUM if value is None else value


def _one(name, values):
    """The element of a list of one, or what is no list."""
    if not isinstance(values, (list, tuple)):
        return values
    if len(values) != 1:
        raise ValueError(f"ProcessGroup.{name}: expected a list of one tensor, or of one list, got {len(values)}")
    return values[0]


class GroupMethods:
    """What ProcessGroup inherits. Ranks are those in the group."""

    class BackendType(enum.IntEnum):
        """Numbers of backends."""

        UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, CUSTOM = range(7)

    def _call(self, name, *arguments, **options):
        from . import _collectives

        return getattr(_collectives, name)(*arguments, group=self, **options)

    def allreduce(self, tensors, opts=None, timeout=None):
        """all_reduce of one tensor, or of a list; `opts` are options or a ReduceOp."""
        if isinstance(tensors, (list, tuple)) and len(tensors) != 1:
            return self.allreduce_coalesced(tensors, opts)
        return self._call("all_reduce", _one("allreduce", tensors), _op(opts), async_op=True)

    def allreduce_coalesced(self, tensors, opts=None):
        """all_reduce of several tensors."""
        return self._call("all_reduce_coalesced", tensors, _op(opts), async_op=True)

    def broadcast(self, tensors, opts=None, timeout=None):
        """broadcast of one tensor; `opts` are options or the rank that has it."""
        return self._call("broadcast", _one("broadcast", tensors), group_src=_root(opts), async_op=True)

    def reduce(self, tensors, opts=None, op=None, timeout=None):
        """reduce of one tensor; `opts` are options or the rank that gets it."""
        reduction = _op(opts if isinstance(opts, _Options) else op)
        return self._call("reduce", _one("reduce", tensors), op=reduction, group_dst=_root(opts), async_op=True)

    def allgather(self, output_lists, inputs, opts=None, timeout=None):
        """all_gather: a list of one list of tensors, and of one tensor."""
        outputs = output_lists[0] if isinstance(inputs, (list, tuple)) else output_lists
        return self._call("all_gather", outputs, _one("allgather", inputs), async_op=True)

    def gather(self, output_lists, inputs, opts=None, timeout=None):
        """gather: `output_lists` is empty but on the rank that gets the tensors."""
        outputs = _one("gather", output_lists) if output_lists else None
        return self._call("gather", _one("gather", inputs), outputs, group_dst=_root(opts), async_op=True)

    def scatter(self, outputs, input_lists, opts=None, timeout=None):
        """scatter: `input_lists` is empty but on the rank that has the tensors."""
        inputs = _one("scatter", input_lists) if input_lists else None
        return self._call("scatter", _one("scatter", outputs), inputs, group_src=_root(opts), async_op=True)

    def reduce_scatter(self, outputs, input_lists, opts=None, timeout=None):
        """reduce_scatter: a list of one tensor, and of one list of tensors."""
        inputs = input_lists[0] if isinstance(outputs, (list, tuple)) else input_lists
        return self._call("reduce_scatter", _one("reduce_scatter", outputs), inputs, _op(opts), async_op=True)

    def alltoall(self, outputs, inputs, opts=None):
        """all_to_all."""
        return self._call("all_to_all", outputs, inputs, async_op=True)

    def alltoall_base(self, output, input, output_split_sizes, input_split_sizes, opts=None, timeout=None):
        """all_to_all_single."""
        return self._call("all_to_all_single", output, input, output_split_sizes, input_split_sizes, async_op=True)

    def _allgather_base(self, output, input, opts=None, timeout=None):
        return self._call("all_gather_into_tensor", output, input, async_op=True)

    def _reduce_scatter_base(self, output, input, opts=None, timeout=None):
        return self._call("reduce_scatter_tensor", output, input, _op(opts), async_op=True)

    def send(self, tensors, dstRank, tag=0):
        """isend of one tensor."""
        return self._call("isend", _one("send", tensors), tag=tag, group_dst=dstRank)

    def recv(self, tensors, srcRank, tag=0):
        """irecv of one tensor."""
        return self._call("irecv", _one("recv", tensors), tag=tag, group_src=srcRank)

    def recv_anysource(self, tensors, tag=0):
        """irecv of one tensor, from any rank."""
        return self._call("irecv", _one("recv_anysource", tensors), tag=tag)

    def barrier(self, opts=None, timeout=None):
        """barrier."""
        given = opts.timeout if isinstance(opts, _Options) else timeout
        return self._call("barrier", async_op=True, timeout=given)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """monitored_barrier, which waits."""
        self._call("monitored_barrier", timeout=timeout, wait_all_ranks=wait_all_ranks)
