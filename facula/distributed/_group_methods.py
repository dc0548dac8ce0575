"""Collectives as methods of a group, with options as PyTorch's C++ class has them: each gives its Work."""

from __future__ import annotations

import datetime
import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor


class _Options:
    """Attributes, which programs set; `timeout` is that of the group where it is not positive."""

    _defaults: dict[Any, Any] = {}

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

    def _call(self, name, *arguments, opts=None, timeout=None, **options):
        from . import _collectives

        limit = opts.timeout if isinstance(opts, _Options) and opts.timeout else timeout
        return getattr(_collectives, name)(*arguments, group=self._within(limit), **options)

    def _start(self, name, *arguments, **options):
        return self._call(name, *arguments, async_op=True, **options)

    def _within(self, timeout):
        """The group with another deadline."""
        if isinstance(timeout, (int, float)):
            timeout = datetime.timedelta(seconds=timeout)
        if timeout is None or timeout.total_seconds() <= 0:
            return self
        hurried = object.__new__(type(self))
        hurried.__dict__.update(self.__dict__, _timeout=timeout)
        return hurried

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None, timeout: float | None = None) -> Any:
        """all_reduce of one tensor, or of a list; `opts` are options or a ReduceOp."""
        if isinstance(tensors, (list, tuple)) and len(tensors) != 1:
            return self._within(timeout).allreduce_coalesced(tensors, opts)
        return self._start("all_reduce", _one("allreduce", tensors), _op(opts), opts=opts, timeout=timeout)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Any:
        """all_reduce of several tensors."""
        return self._start("all_reduce_coalesced", tensors, _op(opts), opts=opts)

    def broadcast(self, tensors: Sequence[Tensor], opts: Any = None, timeout: float | None = None) -> Any:
        """broadcast of one tensor; `opts` are options or the rank that has it."""
        return self._start("broadcast", _one("broadcast", tensors), group_src=_root(opts), opts=opts, timeout=timeout)

    def reduce(self, tensors: Sequence[Tensor], opts: Any = None, op: Any = None, timeout: float | None = None) -> Any:
        """reduce of one tensor; `opts` are options or the rank that gets it."""
        reduction = _op(opts if isinstance(opts, _Options) else op)
        return self._start("reduce", _one("reduce", tensors), op=reduction, group_dst=_root(opts), opts=opts, timeout=timeout)

    def allgather(self, output_lists: Any, inputs: Any, opts: Any = None, timeout: float | None = None) -> Any:
        """all_gather: a list of one list of tensors, and of one tensor."""
        outputs = output_lists[0] if isinstance(inputs, (list, tuple)) else output_lists
        return self._start("all_gather", outputs, _one("allgather", inputs), opts=opts, timeout=timeout)

    def gather(self, output_lists: Any, inputs: Any, opts: Any = None, timeout: float | None = None) -> Any:
        """gather: `output_lists` is empty but on the rank that gets the tensors."""
        outputs = _one("gather", output_lists) if output_lists else None
        return self._start("gather", _one("gather", inputs), outputs, group_dst=_root(opts), opts=opts, timeout=timeout)

    def scatter(self, outputs: Any, input_lists: Any, opts: Any = None, timeout: float | None = None) -> Any:
        """scatter: `input_lists` is empty but on the rank that has the tensors."""
        inputs = _one("scatter", input_lists) if input_lists else None
        return self._start("scatter", _one("scatter", outputs), inputs, group_src=_root(opts), opts=opts, timeout=timeout)

    def reduce_scatter(self, outputs: Any, input_lists: Any, opts: Any = None, timeout: float | None = None) -> Any:
        """reduce_scatter: a list of one tensor, and of one list of tensors."""
        inputs = input_lists[0] if isinstance(outputs, (list, tuple)) else input_lists
        return self._start("reduce_scatter", _one("reduce_scatter", outputs), inputs, _op(opts), opts=opts, timeout=timeout)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """all_to_all."""
        return self._start("all_to_all", outputs, inputs, opts=opts)

    def alltoall_base(self, output: Any, input: Tensor, output_split_sizes: Any, input_split_sizes: Any, opts: Any = None,
                      timeout: float | None = None) -> Any:  # fmt: skip
        """all_to_all_single."""
        splits = output_split_sizes, input_split_sizes
        return self._start("all_to_all_single", output, input, *splits, opts=opts, timeout=timeout)

    def _allgather_base(self, output, input, opts=None, timeout=None):
        return self._start("all_gather_into_tensor", output, input, opts=opts, timeout=timeout)

    def _reduce_scatter_base(self, output, input, opts=None, timeout=None):
        return self._start("reduce_scatter_tensor", output, input, _op(opts), opts=opts, timeout=timeout)

    def send(self, tensors: Sequence[Tensor], dstRank: Any, tag: int = 0) -> Any:
        """isend of one tensor."""
        return self._call("isend", _one("send", tensors), tag=tag, group_dst=dstRank)

    def recv(self, tensors: Sequence[Tensor], srcRank: Any, tag: int = 0) -> Any:
        """irecv of one tensor."""
        return self._call("irecv", _one("recv", tensors), tag=tag, group_src=srcRank)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Any:
        """irecv of one tensor, from any rank."""
        return self._call("irecv", _one("recv_anysource", tensors), tag=tag)

    def barrier(self, opts: Any = None, timeout: float | None = None) -> Any:
        """barrier."""
        return self._start("barrier", opts=opts, timeout=timeout)

    def monitored_barrier(self, timeout: float | None = None, wait_all_ranks: bool = False) -> None:
        """monitored_barrier, which waits."""
        self._call("monitored_barrier", timeout=timeout, wait_all_ranks=wait_all_ranks)
