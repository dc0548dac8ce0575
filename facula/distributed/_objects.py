"""Define collectives of Python objects, which are sent as pickled bytes: the processes of a group trust each other."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import facula

from ._collectives import all_gather, broadcast, gather, scatter
from ._group import member
from ._messages import recv, send
from ._operations import _peer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula.types import Device

    from ._group import ProcessGroup


def _bytes_of(value):
    """Return (bytes as a tensor, how many)."""
    data = bytearray(pickle.dumps(value))
    return facula.frombuffer(data, dtype=facula.uint8), facula.tensor([len(data)], dtype=facula.int64)


def _value_of(data, count):
    return pickle.loads(bytes(data[: int(count)].numpy()))


def _filled(data, count):
    """Return the bytes in a tensor of `count` bytes."""
    whole = facula.zeros(count, dtype=facula.uint8)
    whole[: data.numel()] = data
    return whole


def _places(name, what, values, count):
    if not isinstance(values, list) or len(values) != count:
        got = f"{len(values)}" if isinstance(values, (list, tuple)) else type(values).__name__
        raise ValueError(f"{name}: {what} must be a list with one element for each of {count} processes, got {got}")


def _counts_of_all(count, group):
    counts = [facula.zeros_like(count) for _ in range(group.size())]
    all_gather(counts, count, group)
    return [int(n) for n in counts]


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Fill a list with copies of the objects of all processes. They travel as pickles: processes of a group trust each other.

    Args:
        object_list: a list with one element for each process, which are replaced; ValueError for another length.
        obj: what this process gives; anything that can be pickled.
        group: the processes. Default: all.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [None] * dist.get_world_size()
    >>> dist.all_gather_object(found, {"rank": dist.get_rank()})
    >>> found
    [{'rank': 0}]
    >>> dist.destroy_process_group()
    """
    group = member("all_gather_object", group)
    if group is None:
        return
    _places("all_gather_object", "object_list", object_list, group.size())
    data, count = _bytes_of(obj)
    counts = _counts_of_all(count, group)
    parts = [facula.empty(max(counts), dtype=facula.uint8) for _ in counts]
    all_gather(parts, _filled(data, max(counts)), group)
    object_list[:] = [_value_of(part, n) for part, n in zip(parts, counts)]


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
                  group: ProcessGroup | None = None, group_dst: int | None = None) -> None:  # fmt: skip
    """Fill a list in one process with copies of the objects of all, which travel as pickles.

    Args:
        obj: what this process gives; anything that can be pickled.
        object_gather_list: in the process that gathers, a list with one element for each rank; in the others it is not looked
            at.
        dst: the rank among all processes that gathers. Default: rank 0 of the group.
        group: the processes. Default: all.
        group_dst: the rank in the group, in the place of `dst`.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    >>> dist.gather_object("text", found, dst=0)
    >>> found
    ['text']
    >>> dist.destroy_process_group()
    """
    group = member("gather_object", group)
    if group is None:
        return
    root = _peer("gather_object", group, dst, group_dst, 0)
    here = group.rank() == root
    if here:
        _places("gather_object", "object_gather_list", object_gather_list, group.size())
    data, count = _bytes_of(obj)
    counts = _counts_of_all(count, group)
    # gather needs equal sizes, so that shorter pickles are padded to the longest.
    parts = [facula.empty(max(counts), dtype=facula.uint8) for _ in counts] if here else None
    gather(_filled(data, max(counts)), parts, group=group, group_dst=root)
    if here:
        object_gather_list[:] = [_value_of(part, n) for part, n in zip(parts, counts)]


def broadcast_object_list(object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None,
                          device: Device = None, group_src: int | None = None) -> None:  # fmt: skip
    """Give every process copies of the objects of one, which travel as pickles.

    Args:
        object_list: a list, as long in all processes, whose elements are replaced where they are not given; TypeError for
            anything else.
        src: the rank among all processes that has them. Default: rank 0 of the group.
        group: the processes. Default: all.
        device: accepted.
        group_src: the rank in the group, in the place of `src`.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> told = ["text", 3] if dist.get_rank() == 0 else [None, None]
    >>> dist.broadcast_object_list(told, src=0)
    >>> told
    ['text', 3]
    >>> dist.destroy_process_group()
    """
    group = member("broadcast_object_list", group)
    if group is None:
        return
    root = _peer("broadcast_object_list", group, src, group_src, 0)
    if not isinstance(object_list, list):
        raise TypeError(f"broadcast_object_list: object_list must be a list, got {type(object_list).__name__}")
    here = group.rank() == root
    parts = [_bytes_of(value) for value in object_list] if here else []
    counts = facula.cat([n for _, n in parts]) if parts else facula.zeros(len(object_list), dtype=facula.int64)
    broadcast(counts, group=group, group_src=root)
    data = facula.cat([d for d, _ in parts]) if parts else facula.empty(int(counts.sum()), dtype=facula.uint8)
    broadcast(data, group=group, group_src=root)
    if not here:
        object_list[:] = [_value_of(part, part.numel()) for part in data.split(counts.tolist())]


def scatter_object_list(scatter_object_output_list: list[Any], scatter_object_input_list: Sequence[Any] | None = None,
                        src: int | None = None, group: ProcessGroup | None = None,
                        group_src: int | None = None) -> None:  # fmt: skip
    """Give each process a copy of its element of a list that one process has; they travel as pickles.

    Args:
        scatter_object_output_list: a list whose first element is replaced; ValueError where it has none.
        scatter_object_input_list: in the process that scatters, an object for each rank; in the others it is not looked at.
        src: the rank among all processes that scatters. Default: rank 0 of the group.
        group: the processes. Default: all.
        group_src: the rank in the group, in the place of `src`.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mine = [None]
    >>> dist.scatter_object_list(mine, [f"for rank {rank}" for rank in range(dist.get_world_size())], src=0)
    >>> mine
    ['for rank 0']
    >>> dist.destroy_process_group()
    """
    group = member("scatter_object_list", group)
    if group is None:
        return
    root = _peer("scatter_object_list", group, src, group_src, 0)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        got = repr(scatter_object_output_list)
        raise ValueError(f"scatter_object_list: scatter_object_output_list must have an element, got {got}")
    here = group.rank() == root
    parts = []
    if here:
        _places("scatter_object_list", "scatter_object_input_list", scatter_object_input_list, group.size())
        parts = [_bytes_of(value) for value in scatter_object_input_list]
    # scatter needs equal sizes, too, and only the root knows the longest pickle.
    largest = facula.tensor([max((d.numel() for d, _ in parts), default=0)])
    broadcast(largest, group=group, group_src=root)
    data, count = facula.empty(int(largest), dtype=facula.uint8), facula.empty(1, dtype=facula.int64)
    scatter(data, [_filled(d, int(largest)) for d, _ in parts] if here else None, group=group, group_src=root)
    scatter(count, [n for _, n in parts] if here else None, group=group, group_src=root)
    scatter_object_output_list[0] = _value_of(data, count)


def send_object_list(object_list: list[Any], dst: int | None = None, group: ProcessGroup | None = None, device: Device = None,
                     group_dst: int | None = None, use_batch: bool = False) -> None:  # fmt: skip
    """Send copies of objects to another process, as pickles.

    Args:
        object_list: what is sent; the receiver must have a list of the same length.
        dst: the rank among all processes. ValueError for this process itself, and where neither it nor `group_dst` is given.
        group: the processes. Default: all.
        device, use_batch: accepted.
        group_dst: the rank in the group, in the place of `dst`.

    The group of the example sends nothing, so that one process can show it.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> if dist.get_rank() == 0:
    ...     dist.send_object_list(["text", 3], dst=1)
    ... else:
    ...     dist.recv_object_list([None, None], src=0)
    >>> dist.destroy_process_group()
    """
    found = member("send_object_list", group)
    if found is None:
        return
    parts = [_bytes_of(value) for value in object_list]
    send(facula.cat([n for _, n in parts]), dst, group, group_dst=group_dst)
    send(facula.cat([d for d, _ in parts]), dst, group, group_dst=group_dst)


def recv_object_list(object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None, device: Device = None,
                     group_src: int | None = None, use_batch: bool = False) -> int:  # fmt: skip
    """Receive objects from another process; return the rank among all that sent them, or -1 where this process is no member.

    Args:
        object_list: a list as long as the sender's, whose elements are replaced.
        src: the rank among all processes. Default: any.
        group: the processes. Default: all.
        device, use_batch: accepted.
        group_src: the rank in the group, in the place of `src`.

    Rank 0 of the example sends, and no other rank runs here.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> if dist.get_rank() == 1:
    ...     dist.recv_object_list([None, None], src=0)
    ... else:
    ...     dist.send_object_list(["text", 3], dst=1)
    >>> dist.destroy_process_group()
    """
    found = member("recv_object_list", group)
    if found is None:
        return -1
    counts = facula.empty(len(object_list), dtype=facula.int64)
    source = recv(counts, src, group, group_src=group_src)
    data = facula.empty(int(counts.sum()), dtype=facula.uint8)
    # From the process that sent the counts: without src, another one's message could come first.
    recv(data, source, group)
    object_list[:] = [_value_of(part, part.numel()) for part in data.split(counts.tolist())]
    return source
