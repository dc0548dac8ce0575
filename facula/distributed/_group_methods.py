"""Define the collectives as methods of a group, with the options of PyTorch's C++ class; each returns its Work."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import facula

if TYPE_CHECKING:
    from facula import Tensor

    from ._backends import PremulSum, ReduceOp
    from ._operations import Work


class _Options:
    """Hold options as attributes that programs set. `timeout` is that of the group where it is not positive."""

    _defaults: dict[str, Any] = {}
    timeout: timedelta | None
    asyncOp: bool
    # what some of the options have
    reduceOp: ReduceOp | PremulSum
    rootRank: int
    rootTensor: int
    device_ids: Sequence[int] | None
    device: Any

    def __init__(self) -> None:
        from ._backends import ReduceOp

        self.timeout, self.asyncOp = None, True
        for name, value in self._defaults.items():
            setattr(self, name, getattr(ReduceOp, value) if name == "reduceOp" else value)


_EXAMPLE = """
The attributes are set by the program; `timeout` (a timedelta; None for that of the group) and `asyncOp` are in all of them.

>>> options = torch.distributed.{title}()
>>> {shown}
{value}
"""


def _options(title: str, what: str, **defaults: Any) -> type[_Options]:
    name, value = next(iter(defaults.items()), ("asyncOp", True))
    value = f"<ReduceOp.{value}: 0>" if name == "reduceOp" else value
    shown = f"options.{name}" if value is not None else f"options.{name} is None"
    value = True if value is None else value
    text = f"Options of `ProcessGroup.{what}\n{_EXAMPLE.format(title=title, shown=shown, value=value)}"
    return type(title, (_Options,), {"_defaults": defaults, "__module__": "facula.distributed", "__doc__": text})


AllreduceOptions: type[_Options] = _options("AllreduceOptions", "allreduce`: `reduceOp`, SUM at first.", reduceOp="SUM")
AllreduceCoalescedOptions: type[_Options] = _options(
    "AllreduceCoalescedOptions", "allreduce_coalesced`: `reduceOp`, SUM at first.", reduceOp="SUM"
)
ReduceOptions: type[_Options] = _options(
    "ReduceOptions", "reduce`: `reduceOp`, SUM at first, and `rootRank`, the rank in the group that gets the result.",
    reduceOp="SUM", rootRank=0, rootTensor=0,
)  # fmt: skip
ReduceScatterOptions: type[_Options] = _options(
    "ReduceScatterOptions", "reduce_scatter`: `reduceOp`, SUM at first.", reduceOp="SUM"
)
BroadcastOptions: type[_Options] = _options(
    "BroadcastOptions", "broadcast`: `rootRank`, the rank in the group that has the tensor.", rootRank=0, rootTensor=0
)
GatherOptions: type[_Options] = _options(
    "GatherOptions", "gather`: `rootRank`, the rank in the group that gathers.", rootRank=0
)
ScatterOptions: type[_Options] = _options(
    "ScatterOptions", "scatter`: `rootRank`, the rank in the group that scatters.", rootRank=0
)
AllToAllOptions: type[_Options] = _options("AllToAllOptions", "alltoall`.")
BarrierOptions: type[_Options] = _options(
    "BarrierOptions", "barrier`: `device_ids` and `device`, accepted.", device_ids=None, device=None
)


def _root(value):
    return value.rootRank if isinstance(value, _Options) else 0 if value is None else int(value)


def _op(value):
    from ._backends import ReduceOp

    return value.reduceOp if isinstance(value, _Options) else ReduceOp.SUM if value is None else value


def _one(name, values):
    """Return the element of a list of one, or what is no list."""
    if not isinstance(values, (list, tuple)):
        return values
    if len(values) != 1:
        raise ValueError(f"ProcessGroup.{name}: expected a list of one tensor, or of one list, got {len(values)}")
    return values[0]


class GroupMethods:
    """Define the collectives that ProcessGroup inherits. Ranks are those in the group."""

    class BackendType(enum.IntEnum):
        """Number the backends."""

        UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, CUSTOM = range(7)

    def _call(self, name, *arguments, opts=None, timeout=None, **options):
        limit = opts.timeout if isinstance(opts, _Options) and opts.timeout else timeout
        return getattr(facula.distributed, name)(*arguments, group=self._within(limit), **options)

    def _start(self, name, *arguments, **options):
        return self._call(name, *arguments, async_op=True, **options)

    def _within(self, timeout):
        """Return the group with another deadline."""
        if isinstance(timeout, (int, float)):
            timeout = datetime.timedelta(seconds=timeout)
        if timeout is None or timeout.total_seconds() <= 0:
            return self
        # A copy of the attributes around the same native group: changing the group itself would change other calls.
        hurried = object.__new__(type(self))
        hurried.__dict__.update(self.__dict__, _timeout=timeout)
        return hurried

    def allreduce(self, tensors: Tensor | Sequence[Tensor], opts: Any = None,
                  timeout: timedelta | float | None = None) -> Work | Any:  # fmt: skip
        """Start all_reduce of one tensor, or of a list, in place; return its Work.

        Args:
            tensors: a tensor, or a list of them.
            opts: AllreduceOptions or a ReduceOp. Default: SUM.
            timeout: seconds or a timedelta. Default: that of the group.

        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> x = torch.ones(2)
        >>> dist.group.WORLD.allreduce([x], dist.ReduceOp.MAX).wait()
        True
        >>> dist.destroy_process_group()
        """
        if isinstance(tensors, (list, tuple)) and len(tensors) != 1:
            return self._within(timeout).allreduce_coalesced(tensors, opts)
        return self._start("all_reduce", _one("allreduce", tensors), _op(opts), opts=opts, timeout=timeout)

    def allreduce_coalesced(self, tensors: Tensor | Sequence[Tensor], opts: Any = None) -> Work | Any:
        """Start all_reduce of several tensors in one go, in place; return its Work.

        Args:
            tensors: a list of tensors.
            opts: AllreduceCoalescedOptions or a ReduceOp. Default: SUM.
        """
        return self._start("all_reduce_coalesced", tensors, _op(opts), opts=opts)

    def broadcast(self, tensors: Tensor | Sequence[Tensor], opts: Any = None,
                  timeout: timedelta | float | None = None) -> Work | Any:  # fmt: skip
        """Start broadcast of one tensor, in place; return its Work.

        Args:
            tensors: a tensor, or a list of one (else ValueError).
            opts: BroadcastOptions, or the rank in the group that has it. Default: 0.
            timeout: seconds or a timedelta. Default: that of the group.
        """
        return self._start("broadcast", _one("broadcast", tensors), group_src=_root(opts), opts=opts, timeout=timeout)

    def reduce(self, tensors: Tensor | Sequence[Tensor], opts: Any = None, op: Any = None,
               timeout: timedelta | float | None = None) -> Work | Any:  # fmt: skip
        """Start reduce of one tensor, in place; return its Work.

        Args:
            tensors: a tensor, or a list of one (else ValueError).
            opts: ReduceOptions, or the rank in the group that gets it. Default: 0.
            op: a ReduceOp, where `opts` are no options. Default: SUM.
            timeout: seconds or a timedelta. Default: that of the group.
        """
        reduction = _op(opts if isinstance(opts, _Options) else op)
        return self._start("reduce", _one("reduce", tensors), op=reduction, group_dst=_root(opts), opts=opts, timeout=timeout)

    def allgather(self, output_lists: Any, inputs: Any, opts: Any = None,
                  timeout: timedelta | float | None = None) -> Work | Any:  # fmt: skip
        """Start all_gather; return its Work.

        Args:
            output_lists: a list of one list with a tensor for each process, or that list itself where `inputs` is no list.
            inputs: a tensor, or a list of one.
            opts: options, for their timeout.
            timeout: seconds or a timedelta. Default: that of the group.
        """
        outputs = output_lists[0] if isinstance(inputs, (list, tuple)) else output_lists
        return self._start("all_gather", outputs, _one("allgather", inputs), opts=opts, timeout=timeout)

    def gather(self, output_lists: Any, inputs: Any, opts: Any = None, timeout: timedelta | float | None = None) -> Work | Any:
        """Start gather; return its Work.

        Args:
            output_lists: a list of one list with a tensor for each process; empty but on the rank that gets them.
            inputs: a tensor, or a list of one.
            opts: GatherOptions, or the rank in the group that gathers. Default: 0.
            timeout: seconds or a timedelta. Default: that of the group.
        """
        outputs = _one("gather", output_lists) if output_lists else None
        return self._start("gather", _one("gather", inputs), outputs, group_dst=_root(opts), opts=opts, timeout=timeout)

    def scatter(self, outputs: Any, input_lists: Any, opts: Any = None, timeout: timedelta | float | None = None) -> Work | Any:
        """Start scatter; return its Work.

        Args:
            outputs: a tensor, or a list of one.
            input_lists: a list of one list with a tensor for each process; empty but on the rank that has them.
            opts: ScatterOptions, or the rank in the group that scatters. Default: 0.
            timeout: seconds or a timedelta. Default: that of the group.
        """
        inputs = _one("scatter", input_lists) if input_lists else None
        return self._start("scatter", _one("scatter", outputs), inputs, group_src=_root(opts), opts=opts, timeout=timeout)

    def reduce_scatter(self, outputs: Any, input_lists: Any, opts: Any = None,
                       timeout: timedelta | float | None = None) -> Work | Any:  # fmt: skip
        """Start reduce_scatter; return its Work.

        Args:
            outputs: a tensor, or a list of one.
            input_lists: a list of one list with a tensor for each process, or that list itself where `outputs` is no list.
            opts: ReduceScatterOptions or a ReduceOp. Default: SUM.
            timeout: seconds or a timedelta. Default: that of the group.
        """
        inputs = input_lists[0] if isinstance(outputs, (list, tuple)) else input_lists
        return self._start("reduce_scatter", _one("reduce_scatter", outputs), inputs, _op(opts), opts=opts, timeout=timeout)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work | Any:
        """Start all_to_all; return its Work.

        Args:
            outputs, inputs: lists with a tensor for each process.
            opts: AllToAllOptions, for their timeout.
        """
        return self._start("all_to_all", outputs, inputs, opts=opts)

    def alltoall_base(self, output: Any, input: Tensor, output_split_sizes: Any, input_split_sizes: Any, opts: Any = None,
                      timeout: timedelta | float | None = None) -> Work | Any:  # fmt: skip
        """Start all_to_all_single; return its Work.

        Args:
            output, input: tensors.
            output_split_sizes, input_split_sizes: how many rows come from and go to each process; empty for equal parts.
            opts: AllToAllOptions, for their timeout.
            timeout: seconds or a timedelta. Default: that of the group.
        """
        splits = output_split_sizes, input_split_sizes
        return self._start("all_to_all_single", output, input, *splits, opts=opts, timeout=timeout)

    def _allgather_base(self, output, input, opts=None, timeout=None):
        return self._start("all_gather_into_tensor", output, input, opts=opts, timeout=timeout)

    def _reduce_scatter_base(self, output, input, opts=None, timeout=None):
        return self._start("reduce_scatter_tensor", output, input, _op(opts), opts=opts, timeout=timeout)

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0) -> Work | Any:
        """Start isend of one tensor; return its Work.

        Args:
            tensors: a tensor, or a list of one.
            dstRank: the rank in the group.
            tag: a number that the receiver asks for.
        """
        return self._call("isend", _one("send", tensors), tag=tag, group_dst=dstRank)

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0) -> Work | Any:
        """Start irecv of one tensor; return its Work.

        Args:
            tensors: a tensor, or a list of one.
            srcRank: the rank in the group.
            tag: the number that the sender gave.
        """
        return self._call("irecv", _one("recv", tensors), tag=tag, group_src=srcRank)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Work | Any:
        """Start irecv of one tensor, from any rank; return its Work, whose `source_rank` tells which.

        Args:
            tensors: a tensor, or a list of one.
            tag: the number that the sender gave.
        """
        return self._call("irecv", _one("recv_anysource", tensors), tag=tag)

    def barrier(self, opts: Any = None, timeout: timedelta | float | None = None) -> Work | Any:
        """Start barrier; return its Work.

        Args:
            opts: BarrierOptions, for their timeout.
            timeout: seconds or a timedelta. Default: that of the group.
        """
        return self._start("barrier", opts=opts, timeout=timeout)

    def monitored_barrier(self, timeout: float | None = None, wait_all_ranks: bool = False) -> None:
        """Do monitored_barrier, which waits.

        Args:
            timeout: seconds or a timedelta. Default: that of the group.
            wait_all_ranks: accepted: all ranks that are missing are named.
        """
        self._call("monitored_barrier", timeout=timeout, wait_all_ranks=wait_all_ranks)
