"""The default group, groups made of it, stores, and what can be asked about them."""

from __future__ import annotations

import datetime
import enum
import os
from urllib.parse import parse_qs, urlparse

default_pg_timeout = datetime.timedelta(minutes=30)


def is_available():
    """True: there are groups, of one process."""
    return True


def is_gloo_available():
    """True: groups of one process answer to that name."""
    return True


def is_nccl_available():
    """False."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend):
    """Whether a backend of that name can be asked for."""
    return str(backend).lower() == "gloo"


def is_torchelastic_launched():
    """Whether an elastic launcher started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


ReduceOp.RedOpType = ReduceOp  # the type of its members has a name of its own in PyTorch
reduce_op = ReduceOp


def supports_complex(reduceOp):
    """Whether complex tensors can be reduced so."""
    return reduceOp not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


class Backend(str):
    """The name of a backend, in lower case. ValueError for one that is not known."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a str, got {type(name).__name__}")
        known = all(part.rpartition(":")[2] in cls.backend_list for part in name.lower().split(","))
        if not known:
            raise ValueError(f"Backend: expected one of {', '.join(cls.backend_list)}, got {name!r}")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """A group that this process is the only member of."""

    def __init__(self, backend="gloo", description=""):
        self._backend = backend
        self.group_desc = self.group_name = description

    def rank(self):
        """Number of this process in the group: 0."""
        return 0

    def size(self):
        """Number of processes: 1."""
        return 1

    def name(self):
        """Name of the backend that was asked for."""
        return self._backend


class _WorldMeta(type):
    @property
    def WORLD(cls):
        return _default

    @WORLD.setter
    def WORLD(cls, value):
        global _default
        _default = value


class group(metaclass=_WorldMeta):
    """`group.WORLD` is the group of all processes, None before init_process_group."""


class GroupMember(metaclass=_WorldMeta):
    """`WORLD` as in `group`, and the mark for "not a member"."""

    NON_GROUP_MEMBER = -100


_default: ProcessGroup | None = None
_others: list[ProcessGroup] = []


def is_initialized():
    """Whether init_process_group has been called."""
    return _default is not None


def member(name, group=None):
    """The group (by default that of all processes); None where this process is no member of it."""
    if _default is None:
        raise ValueError(f"{name}: the default process group has not been initialized, call init_process_group first")
    if group is None:
        return _default
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"{name}: group must be a ProcessGroup, got {type(group).__name__}")
    return group


def _from_environment(name):
    if name not in os.environ:
        raise ValueError(f"init_process_group: env:// needs the environment variable {name}, got none")
    return os.environ[name]


def _place(init_method, world_size, rank, store):
    """(world size, rank) from the arguments, the URL or the environment."""
    if store is None:
        url = urlparse(init_method or "env://")
        query = {key: int(values[0]) for key, values in parse_qs(url.query).items() if key in ("rank", "world_size")}
        if url.scheme == "env":
            rank = rank if rank >= 0 else int(_from_environment("RANK"))
            world_size = world_size if world_size >= 0 else int(_from_environment("WORLD_SIZE"))
        elif url.scheme in ("tcp", "file"):
            rank, world_size = query.get("rank", rank), query.get("world_size", world_size)
        else:
            raise RuntimeError(f"init_process_group: expected env://, tcp:// or file://, got {init_method!r}")
    for what, value in (("world_size", world_size), ("rank", rank)):
        if value < 0:
            raise ValueError(f"init_process_group: {what} must be given, got {value}")
    return world_size, rank


def init_process_group(
    backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="", pg_options=None,
    device_id=None, _ranks=None,
):  # fmt: skip
    """Makes the default group.

    Args:
        backend: "gloo", or None.
        init_method: "env://" (the default; RANK and WORLD_SIZE from the environment), "tcp://..." or "file://...".
        world_size, rank: how many processes there are, and which this is.

    ValueError when it is not known how many, or when there is a group already. NotImplementedError for more than one.
    """
    global _default
    if _default is not None:
        raise ValueError("init_process_group: the default process group is initialized already, got a second call")
    name = Backend(backend or "gloo")
    kinds = {part.rpartition(":")[2] for part in name.split(",")}
    if not kinds & {"gloo", "undefined"}:
        raise RuntimeError(f"init_process_group: the backend 'gloo' is the one there is, got {backend!r}")
    world_size, rank = _place(init_method, world_size, rank, store)
    if world_size != 1:
        raise NotImplementedError(f"init_process_group: groups of one process are supported, got world_size {world_size}")
    if rank != 0:
        raise ValueError(f"init_process_group: rank must be below world_size 1, got {rank}")
    _default = ProcessGroup(name if "," in name or name == "gloo" else "gloo", group_name or "default_pg")


def destroy_process_group(group=None):
    """Ends a group; without one, all of them."""
    global _default
    ended = member("destroy_process_group", group)
    if ended is _default:
        _default = None
        _others.clear()
    elif ended in _others:
        _others.remove(ended)


def get_rank(group=None):
    """0; -1 when not a member."""
    return 0 if member("get_rank", group) else -1


def get_world_size(group=None):
    """1; -1 when not a member."""
    return 1 if member("get_world_size", group) else -1


def get_backend(group=None):
    """The name of the backend."""
    found = member("get_backend", group)
    if found is None:
        raise ValueError("get_backend: this process is not a member of the group, got NON_GROUP_MEMBER")
    return Backend(found.name())


def get_default_backend_for_device(device):
    """ "gloo"."""
    return "gloo"


def get_pg_count():
    """How many groups there are."""
    return (_default is not None) + len(_others)


def get_process_group_ranks(group=None):
    """[0]."""
    return [0] if member("get_process_group_ranks", group) else []


def _rank_in(name, group, rank):
    member(name, group)
    if rank != 0:
        raise ValueError(f"{name}: the group has rank 0 only, got {rank}")
    return 0


def get_global_rank(group, group_rank):
    """The rank among all processes of a rank in a group."""
    return _rank_in("get_global_rank", group, group_rank)


def get_group_rank(group, global_rank):
    """The rank in a group of a rank among all processes."""
    return _rank_in("get_group_rank", group, global_rank)


def get_node_local_rank(fallback_rank=None):
    """LOCAL_RANK of the environment, else `fallback_rank`. RuntimeError without either."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("get_node_local_rank: expected LOCAL_RANK in the environment or a fallback_rank, got neither")
    return int(fallback_rank)


def new_group(
    ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None,
    device_id=None, sort_ranks=True,
):  # fmt: skip
    """A group of some ranks; NON_GROUP_MEMBER when this process is not among them."""
    world = member("new_group")
    if any(rank != 0 for rank in ranks or ()):
        raise ValueError(f"new_group: the ranks must be below the world size 1, got {list(ranks)}")
    if ranks is not None and len(ranks) == 0:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(Backend(backend) if backend else world.name(), group_desc or "undefined")
    _others.append(made)
    return made


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """(the group of this process, all groups) of `group_size` processes each."""
    member("new_subgroups", group)
    if group_size not in (None, 1):
        raise ValueError(f"new_subgroups: group_size must not exceed the world size 1, got {group_size}")
    made = new_group([0], backend=backend, group_desc=group_desc)
    return made, [made]


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """(the group of this process, all groups) with the given ranks."""
    groups = [new_group(ranks, backend=backend, group_desc=group_desc) for ranks in ranks_per_subgroup_list or ()]
    if not groups:
        raise ValueError("new_subgroups_by_enumeration: ranks_per_subgroup_list must not be empty, got none")
    return groups[0], groups
