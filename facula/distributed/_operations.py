"""Start collectives and messages, and track those that are in progress.

The arguments are checked here; `src/distributed/operation.cpp` lays out memory and transfers.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from facula import _C, Tensor
from facula.futures import Future

from ._backends import PremulSum, ReduceOp, supports_complex
from ._group import get_group_rank
from ._rendezvous import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta
    from typing import Any

# numbers of `Kind` in src/distributed/engine.h
_ALL_REDUCE, _REDUCE, _BROADCAST, _ALL_GATHER, _GATHER, _SCATTER, _REDUCE_SCATTER, _ALL_TO_ALL = range(8)
_BARRIER, _SEND, _RECV = range(8, 11)


class Work:
    """Represent a collective or a message in progress. `wait` returns when it is complete and raises its errors.

    Collectives give one with `async_op=True`, `isend` and `irecv` always; a program does not call the class.

    Args:
        native: the operation of the core.
        written: the tensors that it writes.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> work = dist.all_reduce(torch.ones(2), async_op=True)
    >>> work.wait(), work.is_completed(), work.is_success(), work.exception()
    (True, True, True, None)
    >>> work.synchronize(), work.result(), work.get_future().wait()
    (True, [tensor([1., 1.])], [tensor([1., 1.])])
    >>> dist.destroy_process_group()
    """

    def __init__(self, native: Any, written: Iterable[Tensor] = ()) -> None:
        self._native, self._written = native, list(written)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done; return True.

        What NCCL does is waited for by the current stream, and by the program only with a timeout.

        Args:
            timeout: how long, a timedelta; None or 0 is until the deadline of the group.

        Errors: DistBackendError if it failed, or is not done after `timeout`. `synchronize` is the same method.
        """
        limit = -1.0 if timeout is None or timeout == datetime.timedelta(0) else seconds(timeout, None)
        if not self._native.wait(limit):
            from ._errors import DistBackendError

            raise DistBackendError(f"wait: {self._native.text()} is not done after {limit:g} s")
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Return whether it is done, or has failed; do not wait."""
        return self._native.done()

    def is_success(self) -> bool:
        """Return whether it is done and has not failed; do not wait."""
        return self._native.done() and self._native.error() is None

    def exception(self) -> Exception | None:
        """Return what went wrong, a DistBackendError that is not raised, or None."""
        from ._errors import DistBackendError

        text = self._native.error()
        return None if text is None else DistBackendError(text)

    def result(self) -> list[Tensor]:
        """Return the list of tensors that it wrote."""
        return self._written

    def source_rank(self) -> int:
        """Return the rank in the group that a message came from, of an `irecv` that is done; -1 of anything else.

        >>> import torch.distributed as dist
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> work = dist.isend(torch.ones(2), dst=1)
        >>> work.source_rank()
        -1
        >>> dist.destroy_process_group()
        """
        return self._native.source()

    _source_rank = source_rank

    def get_future(self) -> Future[Any]:
        """Return a Future of the tensors it wrote. Where NCCL writes them, it is done when that is queued: what follows
        (`then`) runs on the stream that called.
        """
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
    """Wait for several operations as if they were one."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return True, once all are done."""
        for work in self._works:
            work.wait(timeout)
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Return whether all are done."""
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
    """Return the rank in the group, of a rank among all processes or in the group."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}: expected a rank or a rank in the group, got both, {rank} and {group_rank}")
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
    """Return (number, factor) of a ReduceOp."""
    if isinstance(op, PremulSum):
        return op.value, op.factor
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp, got {type(op).__name__}")
    if any(t.is_complex() for t in tensors) and not supports_complex(op):
        raise ValueError(f"{name}: {op.name} does not go with complex tensors, got {tensors[0].dtype}")
    return op.value, 1.0


def _same(name, outputs, inputs, part=1):
    """Check the dtypes, and that outputs and inputs hold as many elements, or `part` times as many."""
    for target in outputs:
        if inputs and target.dtype != inputs[0].dtype:
            raise ValueError(f"{name}: expected input and output of one dtype, got {inputs[0].dtype} and {target.dtype}")
    sizes = sum(t.numel() for t in outputs), sum(t.numel() for t in inputs) * part
    if sizes[0] != sizes[1]:
        shapes = [tuple(t.shape) for t in (*inputs[:1], *outputs[:1])]
        raise ValueError(f"{name}: the output must have the size that goes with the input {sizes[1]}, got {sizes[0]}; {shapes}")


_NOTHING = ()


def _seen(group, name, tensors, root=0):
    """Tell a profile that a collective begins: what it gives, unless None, is called at the end."""
    from facula.autograd.profiler import begin_asynchronous

    # The names that PyTorch's profiles have for these operations.
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
    # Operations that a coalescing manager collects are waited for at its end.
    waits = not async_op and collected is None
    ended = _seen(group, name, inputs or outputs, root) if shown and _C._watching() else None
    native = group._native.run(kind, name, inputs, outputs, *reduction, root, tag, in_splits, out_splits, limit, waits)
    # The core has run the operation to its end already.
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
