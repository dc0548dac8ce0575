"""Make groups of some ranks of the default group."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import _group, _rendezvous
from ._backends import Backend
from ._group import GroupMember, ProcessGroup, _engines_of, get_rank, member
from ._store import PrefixStore, Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import Any

    import facula

_made: dict[tuple, int] = {}  # groups by ranks


def split_group(parent_pg: ProcessGroup | None = None, split_ranks: Sequence[Sequence[int]] | None = None,
                timeout: timedelta | None = None, pg_options: Any = None, group_desc: str | None = None,
                backend: str | None = None) -> ProcessGroup | None:  # fmt: skip
    """Return the part of a group that this process is in, None if in no part. All processes of the group call it.

    Args:
        parent_pg: the group; it must be that of all processes (else NotImplementedError). Default: that.
        split_ranks: lists of ranks of the group, which have no rank in common. ValueError for others, and for none.
        timeout: how long collectives of the part wait, a timedelta. Default: as in the group of all.
        pg_options: accepted.
        group_desc: what errors call the part. Default: its ranks.
        backend: of the part. Default: that of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> part = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    >>> dist.get_process_group_ranks(part)
    [2, 3]
    >>> dist.destroy_process_group()
    """
    parent = member("split_group", parent_pg)
    if parent is not member("split_group"):
        raise NotImplementedError(f"split_group: only the group of all processes is split, got {parent.group_name}")
    ranks = [[int(r) for r in part] for part in split_ranks or ()]
    flat = [r for part in ranks for r in part]
    if not ranks or not all(ranks) or len(set(flat)) != len(flat):
        raise ValueError(f"split_group: expected lists of ranks, each rank once, got {split_ranks}")
    mine = None
    for part in ranks:
        # Every process makes the groups of all parts, in the same order, because new_group is a collective.
        made = new_group(part, timeout, backend, pg_options, group_desc=group_desc)
        if get_rank() in part:
            mine = made
    return mine


def new_group(ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None,
              pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
              device_id: facula.device | int | None = None, sort_ranks: bool = True) -> ProcessGroup | Any:  # fmt: skip
    """Return a group of some ranks; NON_GROUP_MEMBER when this process is not among them.

    All processes call it, in the same order for several groups; with `use_local_synchronization` only those of the group.

    Args:
        ranks: ranks among all processes. Default: all.
        timeout: how long its collectives wait, a timedelta. Default: as in the group of all.
        backend: its backend. Default: that of the group of all.
        pg_options: accepted.
        use_local_synchronization: whether only the members call this.
        group_desc: what errors call the group. Default: its ranks.
        device_id: accepted: devices are connected at the first collective.
        sort_ranks: whether members are numbered in the order of their ranks among all, or in the order given.

    Errors: ValueError for ranks that are not there or come twice, and before init_process_group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> dist.get_rank(dist.new_group([3, 2], sort_ranks=False))
    1
    >>> dist.new_group([0, 1]) == dist.GroupMember.NON_GROUP_MEMBER
    True
    >>> dist.destroy_process_group()
    """
    world = member("new_group")
    chosen = list(range(world.size())) if ranks is None else [int(r) for r in ranks]
    if sort_ranks:
        chosen.sort()
    if len(set(chosen)) != len(chosen) or any(not 0 <= r < world.size() for r in chosen):
        raise ValueError(f"new_group: expected ranks below the world size {world.size()}, each once, got {chosen}")
    name = Backend(backend) if backend else world.name()
    nccl = _engines_of(name)[1] if backend else _group._uses_nccl
    seconds = _rendezvous.seconds(timeout, world._timeout)
    if not chosen:
        return GroupMember.NON_GROUP_MEMBER
    native_name = group_desc or str(chosen)
    native = _group._world.make_group(chosen, native_name, use_local_synchronization, seconds, nccl)
    if native is None:
        return GroupMember.NON_GROUP_MEMBER
    if use_local_synchronization:
        # Only members call this, so the sequence number of the world is not the same for all; counting per list of
        # ranks is.
        times = _made[tuple(chosen)] = _made.get(tuple(chosen), 0) + 1
        title = f"{chosen} {times}"
    else:
        title = str(world._native.sequence())  # all ranks are as far
    store = PrefixStore(f"group{title}", world._store) if isinstance(world._store, Store) else None
    made = ProcessGroup(native, name, title, group_desc or "undefined", timeout or world._timeout, store)
    made._native_name = native_name
    _group._others.append(made)
    return made


def new_subgroups(group_size: int | None = None, group: ProcessGroup | None = None, timeout: timedelta | None = None,
                  backend: str | None = None, pg_options: Any = None,
                  group_desc: str | None = None) -> tuple[ProcessGroup | Any, list[ProcessGroup | Any]]:  # fmt: skip
    """Cut a group into groups of `group_size` neighbors: (the group of this process, list of all groups), in which groups of
    others are NON_GROUP_MEMBER. All processes call it.

    Args:
        group_size: must divide the number of processes (else ValueError). Default: LOCAL_WORLD_SIZE of the environment, the
            processes of a machine; without it, all.
        group: what is cut. Default: all processes.
        timeout: how long collectives wait, a timedelta. Default: as in the group of all.
        backend: of the groups. Default: that of the group of all.
        pg_options: accepted.
        group_desc: what errors call the groups. Default: their ranks.

    Returns: the group of this process, and a list of all groups.

    Errors: ValueError for a group_size that does not divide the number of processes.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> mine, every = dist.new_subgroups(2)
    >>> dist.get_process_group_ranks(mine), len(every)
    ([2, 3], 2)
    >>> dist.destroy_process_group()
    """
    world = member("new_subgroups", group)
    size = world.size()
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if group_size < 1 or group_size > size or size % group_size:
        raise ValueError(f"new_subgroups: group_size must divide the world size {size}, got {group_size}")
    lists = [world._ranks[i : i + group_size] for i in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: timedelta | None = None,
                                 backend: str | None = None, pg_options: Any = None,
                                 group_desc: str | None = None) -> tuple[ProcessGroup | Any,
                                 list[ProcessGroup | Any]]:  # fmt: skip
    """Make groups of given ranks: (the group of this process or None, list of all groups), in which groups of others are
    NON_GROUP_MEMBER. All processes call it.

    Args:
        ranks_per_subgroup_list: a list of ranks for each group. ValueError where it is empty, or a rank comes twice.
        timeout: how long collectives wait, a timedelta. Default: as in the group of all.
        backend: of the groups. Default: that of the group of all.
        pg_options: accepted.
        group_desc: what errors call the groups. Default: their ranks.

    Returns: the group of this process or None, and a list of all groups.

    Errors: ValueError for an empty list, and for a rank that comes twice.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> mine, every = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    >>> dist.get_process_group_ranks(mine)
    [1, 2]
    >>> dist.destroy_process_group()
    """
    if not ranks_per_subgroup_list:
        raise ValueError("new_subgroups_by_enumeration: ranks_per_subgroup_list must not be empty, got none")
    flat = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(flat)) != len(flat):
        raise ValueError(f"new_subgroups_by_enumeration: a rank is in one subgroup, got {ranks_per_subgroup_list}")
    groups = [
        new_group(ranks, timeout, backend, group_desc=group_desc, sort_ranks=False) for ranks in ranks_per_subgroup_list
    ]
    mine = [g for g in groups if g is not GroupMember.NON_GROUP_MEMBER]
    return mine[0] if mine else None, groups
