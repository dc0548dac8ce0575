"""Send messages from one process to another, and start several operations at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import Tensor

from ._group import member
from ._operations import _NOTHING, _RECV, _SEND, _peer, _run, _tensors, _Works

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._group import ProcessGroup
    from ._operations import Work


def _other(name, group, rank, group_rank, any_one=False):
    found = _peer(name, group, rank, group_rank, -1 if any_one else None)
    if found == group.rank():
        raise ValueError(f"{name}: a process does not exchange with itself, got its own rank {group._ranks[found]}")
    return found


def isend(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
          group_dst: int | None = None) -> Work | Any:  # fmt: skip
    """Begin to send a tensor to another process; the Work that is returned is done when the tensor may be written again.

    Args:
        tensor: what is sent.
        dst: the rank among all processes. ValueError for this process itself, and where neither it nor `group_dst` is given.
        group: the processes. Default: all.
        tag: a number that the receiver asks for; groups of NCCL do not look at it.
        group_dst: the rank in the group, in the place of `dst`.

    The group of the example sends nothing, so that one process can show it.

    Returns: a Work, or None in a process outside of the group.

    Errors: ValueError for this process itself, or where neither dst nor group_dst is given; TypeError for what is no tensor.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.isend(torch.ones(2), dst=1).wait()
    True
    >>> dist.destroy_process_group()
    """
    group = member("isend", group)
    if group is None:
        return None
    _tensors("isend", tensor)
    return _run(group, _SEND, "isend", [tensor], _NOTHING, True, root=_other("isend", group, dst, group_dst), tag=tag)


def irecv(tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
          group_src: int | None = None) -> Work | Any:  # fmt: skip
    """Begin to receive a tensor; the Work that is returned is done when it is there, and its `source_rank` tells who sent it.

    Args:
        tensor: where it is written, in place; of the size and dtype that is sent.
        src: the rank among all processes. Default: any (not in groups of NCCL); ValueError for this process itself.
        group: the processes. Default: all.
        tag: the number that the sender gave.
        group_src: the rank in the group, in the place of `src`.

    The group of the example sends nothing, so that one process can show it.

    Returns: a Work, or None in a process outside of the group.

    Errors: ValueError for this process itself; TypeError for what is no tensor.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.irecv(torch.empty(2), src=1).wait()
    True
    >>> dist.destroy_process_group()
    """
    group = member("irecv", group)
    if group is None:
        return None
    _tensors("irecv", tensor)
    return _run(group, _RECV, "irecv", _NOTHING, [tensor], True, root=_other("irecv", group, src, group_src, True), tag=tag)


def send(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
         group_dst: int | None = None) -> None:  # fmt: skip
    """Send a tensor to another process; return when it may be written again.

    Args:
        tensor: what is sent.
        dst: the rank among all processes. ValueError for this process itself, and where neither it nor `group_dst` is given.
        group: the processes. Default: all.
        tag: a number that the receiver asks for.
        group_dst: the rank in the group, in the place of `dst`.

    The group of the example sends nothing, so that one process can show it.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> if dist.get_rank() == 0:
    ...     dist.send(torch.ones(2), dst=1)
    ... else:
    ...     dist.recv(torch.empty(2), src=0)
    >>> dist.destroy_process_group()
    """
    group = member("send", group)
    if group is not None:
        _tensors("send", tensor)
        _run(group, _SEND, "send", [tensor], _NOTHING, False, root=_other("send", group, dst, group_dst), tag=tag)


def recv(tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
         group_src: int | None = None) -> int:  # fmt: skip
    """Receive a tensor from another process; return the rank among all that sent it, or -1 where this process is no member.

    Args:
        tensor: where it is written, in place; of the size and dtype that is sent.
        src: the rank among all processes. Default: any (not in groups of NCCL); ValueError for this process itself.
        group: the processes. Default: all.
        tag: the number that the sender gave.
        group_src: the rank in the group, in the place of `src`.

    The group of the example sends nothing, so that one process can show it.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.recv(torch.empty(2), src=1)
    1
    >>> dist.destroy_process_group()
    """
    group = member("recv", group)
    if group is None:
        return -1
    _tensors("recv", tensor)
    work = _run(group, _RECV, "recv", _NOTHING, [tensor], True, root=_other("recv", group, src, group_src, True), tag=tag)
    if group._coalesced is not None:
        # Inside a coalescing manager the message has not arrived yet, so the rank that sent it is not known.
        return src
    work.wait()
    return group._ranks[work.source_rank()]


class P2POp:
    """Describe one `isend` or `irecv` of a batch, which `batch_isend_irecv` starts.

    Args:
        op: the function `isend` or `irecv`; ValueError for another.
        tensor: what is sent, or where it is written.
        peer: the other process, as rank among all.
        group: the processes, one for all of a batch. Default: all.
        tag: the number of the message.
        group_peer: the rank in the group, in the place of `peer`.

    >>> import torch.distributed as dist
    >>> op = dist.P2POp(dist.isend, torch.ones(2), peer=1)
    >>> op.peer, op.tag
    (1, 0)
    """

    op: Callable[..., Any]
    tensor: Tensor
    peer: int | None
    group: ProcessGroup | None
    tag: int
    group_peer: int | None

    def __init__(self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: ProcessGroup | None = None,
                 tag: int = 0, group_peer: int | None = None) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(f"P2POp: op must be distributed.isend or distributed.irecv, got {op!r}")
        _tensors("P2POp", tensor)
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start exchanges together, so that their order does not matter; return the list of their Work.

    Args:
        p2p_op_list: a list of P2POp of one group; ValueError for anything else.

    The group of the example sends nothing, so that one process can show it.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> other = 1 - dist.get_rank()
    >>> given, found = torch.ones(2), torch.empty(2)
    >>> works = dist.batch_isend_irecv([dist.P2POp(dist.isend, given, other), dist.P2POp(dist.irecv, found, other)])
    >>> [work.wait() for work in works]
    [True, True]
    >>> dist.destroy_process_group()
    """
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(f"batch_isend_irecv: expected a list of P2POp, got {p2p_op_list!r}")
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("batch_isend_irecv: all operations of a batch need one group, got several")
    native = member("batch_isend_irecv", p2p_op_list[0].group)._native
    # In a batch the engine starts all operations before it waits for any, as two processes may send to each other
    # first.
    native.begin_batch()
    try:
        works = [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
    finally:
        native.end_batch()
    return [work for work in works if work is not None]


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Start collectives and messages called inside together, and wait for them at the end; with `async_ops`, by `wait` of what
    the `with` statement gives."""
    group = member("_coalescing_manager", group)
    if group._coalesced is not None:
        raise ValueError("_coalescing_manager: only one at a time is possible for a group, got a second one inside")
    group._coalesced = collected = []
    together = _Works(collected)
    try:
        yield together
    finally:
        group._coalesced = None
    if not async_ops:
        together.wait()
