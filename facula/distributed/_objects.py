"""Collectives of Python objects, as pickled bytes: the processes of a group trust each other."""

from __future__ import annotations

import pickle

import facula

from ._collectives import _peer, all_gather, broadcast, gather, recv, scatter, send
from ._group import member


def _bytes_of(value):
    """(bytes as a tensor, how many)."""
    data = bytearray(pickle.dumps(value))
    return facula.frombuffer(data, dtype=facula.uint8), facula.tensor([len(data)], dtype=facula.int64)


def _value_of(data, count):
    return pickle.loads(bytes(data[: int(count)].numpy()))


def _filled(data, count):
    """The bytes in a tensor of `count` bytes."""
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


def all_gather_object(object_list, obj, group=None):
    """Fills a list with copies of the objects of all processes."""
    group = member("all_gather_object", group)
    if group is None:
        return
    _places("all_gather_object", "object_list", object_list, group.size())
    data, count = _bytes_of(obj)
    counts = _counts_of_all(count, group)
    parts = [facula.empty(max(counts), dtype=facula.uint8) for _ in counts]
    all_gather(parts, _filled(data, max(counts)), group)
    object_list[:] = [_value_of(part, n) for part, n in zip(parts, counts)]


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Fills a list on the process `dst` (default 0) with copies of the objects of all."""
    group = member("gather_object", group)
    if group is None:
        return
    root = _peer("gather_object", group, dst, group_dst, 0)
    here = group.rank() == root
    if here:
        _places("gather_object", "object_gather_list", object_gather_list, group.size())
    data, count = _bytes_of(obj)
    counts = _counts_of_all(count, group)
    parts = [facula.empty(max(counts), dtype=facula.uint8) for _ in counts] if here else None
    gather(_filled(data, max(counts)), parts, group=group, group_dst=root)
    if here:
        object_gather_list[:] = [_value_of(part, n) for part, n in zip(parts, counts)]


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Gives every process the objects of `src` (default 0)."""
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


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
    """Gives each process its element of the list on `src` (default 0)."""
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
    largest = facula.tensor([max((d.numel() for d, _ in parts), default=0)])
    broadcast(largest, group=group, group_src=root)
    data, count = facula.empty(int(largest), dtype=facula.uint8), facula.empty(1, dtype=facula.int64)
    scatter(data, [_filled(d, int(largest)) for d, _ in parts] if here else None, group=group, group_src=root)
    scatter(count, [n for _, n in parts] if here else None, group=group, group_src=root)
    scatter_object_output_list[0] = _value_of(data, count)


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends objects to another process."""
    found = member("send_object_list", group)
    if found is None:
        return
    parts = [_bytes_of(value) for value in object_list]
    send(facula.cat([n for _, n in parts]), dst, group, group_dst=group_dst)
    send(facula.cat([d for d, _ in parts]), dst, group, group_dst=group_dst)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives objects from another process, or from any; the rank that sent them."""
    found = member("recv_object_list", group)
    if found is None:
        return -1
    counts = facula.empty(len(object_list), dtype=facula.int64)
    source = recv(counts, src, group, group_src=group_src)
    data = facula.empty(int(counts.sum()), dtype=facula.uint8)
    recv(data, source, group)
    object_list[:] = [_value_of(part, part.numel()) for part in data.split(counts.tolist())]
    return source
