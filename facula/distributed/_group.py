"""The default group, groups made of it, and what can be asked about them."""

from __future__ import annotations

import atexit
import datetime
import enum
import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

import facula
from facula import _C

from . import _launchers, _rendezvous
from ._group_methods import GroupMethods
from ._store import PrefixStore, Store

if TYPE_CHECKING:
    from typing import Any

default_pg_timeout = datetime.timedelta(minutes=30)


def is_available():
    """True."""
    return True


def is_mpi_available():
    """Whether there is an MPI library with the standard ABI, which groups of several processes use."""
    _rendezvous.look_for_mpi()
    return bool(_C._dist_mpi())


def is_gloo_available():
    """True: groups of several processes answer to that name, by MPI."""
    return True


def is_nccl_available():
    """Whether there are CUDA devices, and NCCL."""
    return not _C._dist_why_no_nccl()


def is_ucc_available():
    """False."""
    return False


is_xccl_available = is_ucc_available


def is_backend_available(backend):
    """Whether a backend of that name can be asked for."""
    name = str(backend).lower()
    asked = {"gloo": True, "fake": True, "mpi": is_mpi_available, "nccl": is_nccl_available}.get(name, False)
    return asked() if callable(asked) else asked


def is_torchelastic_launched():
    """Whether an elastic launcher started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class PremulSum:
    """SUM of values that are multiplied by `factor` first."""

    name, value = "PREMUL_SUM", ReduceOp.PREMUL_SUM.value

    def __init__(self, factor):
        self.factor = float(factor)


_make_nccl_premul_sum = PremulSum
ReduceOp.RedOpType = ReduceOp  # the type of its members has a name of its own in PyTorch
reduce_op = ReduceOp


def supports_complex(reduceOp):
    """Whether complex tensors can be reduced so."""
    return reduceOp not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


class Backend(str):
    """The name of a backend, in lower case. ValueError for one that is not known."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}
    backend_capability = {GLOO: ["cpu", "cuda"], NCCL: ["cuda"], MPI: ["cpu", "cuda"], FAKE: ["cpu", "cuda"]}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a str, got {type(name).__name__}")
        known = all(part.rpartition(":")[2] in cls.backend_list for part in name.lower().split(","))
        if not known:
            raise ValueError(f"Backend: expected one of {', '.join(cls.backend_list)}, got {name!r}")
        return super().__new__(cls, name.lower())


class ProcessGroup(GroupMethods):
    """Processes that call collectives together. `init_process_group` and `new_group` make them."""

    group_name: str
    group_desc: str

    def __init__(self, native: Any, backend: str, name: str, description: str, timeout: float, store: Store) -> None:
        self._native, self._backend, self._timeout, self._store = native, backend, timeout, store
        self.group_name, self.group_desc = name, description
        self._ranks = native.ranks()
        self._rank = self._ranks.index(_rank_of_process)
        self._coalesced = None

    def rank(self) -> Any:
        """Number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """Number of processes."""
        return len(self._ranks)

    def name(self) -> str:
        """Name of the backend that was asked for."""
        return self._backend

    def get_group_store(self) -> Store:
        """The store by which the processes met; None for one process alone."""
        return self._store

    def _get_sequence_number_for_group(self):
        return self._native.sequence()

    def __reduce__(self) -> Any:
        raise TypeError("ProcessGroup: a group is not pickled; every process makes its own")


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
_world = None
_rank_of_process, _uses_nccl = 0, False
_others: list[ProcessGroup] = []
_made: dict[tuple[Any, ...], int] = {}  # groups by ranks


def is_initialized():
    """Whether init_process_group has been called."""
    return _default is not None


def member(name, group=None):
    """The group (by default that of all processes); None where this process is no member of it."""
    if group is None:
        if _default is None:
            raise ValueError(f"{name}: the default process group has not been initialized, call init_process_group first")
        return _default
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"{name}: group must be a ProcessGroup, got {type(group).__name__}")
    return group


def _program_stack():
    """The lines that the main thread runs, innermost first, without those of this package."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    inside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    lines = [f for f in traceback.extract_stack(frame) if not f.filename.startswith(inside)]
    return " <- ".join(f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in reversed(lines[-6:]))


def _engines_of(backend):
    """("cpu:gloo,cuda:nccl") -> the engine that serves the host, and whether NCCL serves CUDA devices.

    Also a group of "nccl" has an engine for the host: by it ranks compare what they call, and move tensors of the CPU.
    """
    kinds = dict(part.rpartition(":")[::2] for part in (backend or "undefined").split(","))
    both = kinds.get("", "undefined")
    cpu, cuda = kinds.get("cpu", both), kinds.get("cuda", both)
    if cpu not in ("gloo", "mpi", "undefined", "fake") and not cpu == both == "nccl":
        raise RuntimeError(f"init_process_group: the backends for tensors of the CPU are 'gloo' and 'mpi', got {backend!r}")
    if cuda not in ("gloo", "mpi", "undefined", "fake", "nccl"):
        raise RuntimeError(f"init_process_group: the backends for CUDA tensors are 'nccl' and 'gloo', got {backend!r}")
    nccl = cuda == "nccl" or backend is None
    if nccl and (why := _C._dist_why_no_nccl()):
        if both == "nccl" or backend is not None and facula.cuda.is_available():
            raise RuntimeError(f"init_process_group: the backend 'nccl' cannot be used: {why}")
        nccl = False
    return "fake" if cpu == "fake" else "mpi", nccl and cpu != "fake"


def _device_number(device_id, name):
    """The index of a CUDA device, of a torch.device or a number; None for the CPU, and where none is given."""
    if device_id is None:
        return None
    device = facula.device("cuda", device_id) if isinstance(device_id, int) else facula.device(device_id)
    if device.type != "cuda":
        return None
    if device.index is None:
        raise ValueError(f"{name}: device_id must say which device, as in 'cuda:0', got {device_id!r}")
    if device.index >= facula.cuda.device_count():
        raise ValueError(f"{name}: device_id must be one of {facula.cuda.device_count()} devices, got {device_id!r}")
    return device.index


def init_process_group(
    backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="", pg_options=None,
    device_id=None, _ranks=None,
):  # fmt: skip
    """Makes the default group, of all processes that call this with the same store.

    Args:
        backend: "gloo" or "mpi", which are MPI here, also for CUDA tensors, by way of the host; "nccl", or
            "cpu:gloo,cuda:nccl", by which CUDA tensors go from device to device; None for that where there is NCCL; "fake"
            sends nothing.
        init_method: "env://" (the default; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment; all of them
            also from mpiexec and srun), "tcp://address:port" of rank 0, or "file://path" that all processes share.
        timeout: of this call and of collectives, 30 minutes if None.
        world_size, rank: how many processes there are, and which this is.
        store: in the place of `init_method`.
        device_id: the CUDA device of this process, whose communicator is then made at once (every rank must say its own).

    ValueError when it is not known how many, or when there is a group already. One process needs none of it, and loads no MPI.
    """
    global _default, _world, _rank_of_process, _uses_nccl
    if _default is not None:
        raise ValueError("init_process_group: the default process group is initialized already, got a second call")
    if store is not None and init_method is not None:
        raise ValueError(f"init_process_group: a store or an init_method, got both, {init_method!r}")
    engine, nccl = _engines_of(None if backend is None else Backend(backend))
    device = _device_number(device_id, "init_process_group")
    name = Backend(backend or ("cpu:gloo,cuda:nccl" if nccl else "gloo"))
    if timeout is not None and not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"init_process_group: timeout must be a datetime.timedelta, got {type(timeout).__name__}")
    timeout = timeout or default_pg_timeout
    own = _rendezvous.handlers.get(str(init_method).partition("://")[0])
    if own is not None:
        store, rank, world_size = next(iter(own(init_method, timeout=timeout)))
    size, rank = _rendezvous.place(init_method, world_size, rank, store)
    if size == 1 or engine == "fake":
        world = _C._dist_world("local", None, rank, size, timeout.total_seconds(), nccl)
    else:
        ends = time.monotonic() + timeout.total_seconds()
        store = store if store is not None else _rendezvous.open_store(init_method, size, rank, timeout)
        with _rendezvous.within(store, timeout):
            store = _rendezvous.meet(store, size, rank, timeout)
            _rendezvous.look_for_mpi()
            left = max(ends - time.monotonic(), 0.5)  # who came late still gets in
            world = _C._dist_world("mpi", store._native, rank, size, left, nccl)
    if nccl and device is not None:
        world.everybody().connect(device, timeout.total_seconds())
    _world, _rank_of_process, _uses_nccl = world, rank, nccl
    if "FACULA_FLIGHT_RECORDER" in os.environ:
        from ._recorder import dump_on_signal

        dump_on_signal()
    _default = ProcessGroup(world.everybody(), name, group_name or "default_pg", "default_pg", timeout, store)


def _uncaught():
    """By which exception the program ends, as a line for the others; empty if by none."""
    error = getattr(sys, "last_value", None)
    if error is None or isinstance(error, SystemExit):
        return ""
    text = "".join(traceback.format_exception_only(error)).strip()[:1000]
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


@atexit.register
def _leave_at_exit():
    _leave(_uncaught())


def _leave(exception=""):
    global _world
    if _world is not None:
        _world.leave(exception)
        _world = None


def destroy_process_group(group=None):
    """Ends a group; without one, all of them. The other processes need not call it at the same time."""
    global _default
    ended = member("destroy_process_group", group)
    if ended is None:
        return
    if ended is _default:
        _default = None
        _others.clear()
        _leave()
    elif ended in _others:
        _others.remove(ended)
        ended._native.drop()
    else:
        raise ValueError("destroy_process_group: the group was destroyed already, got it again")


def _rank_not_in_group(group):
    """Whether this process is not a member."""
    return group is GroupMember.NON_GROUP_MEMBER


def get_rank(group=None):
    """Number of this process in the group; -1 when not a member."""
    found = member("get_rank", group)
    return found.rank() if found else -1


def get_world_size(group=None):
    """Number of processes; -1 when not a member."""
    found = member("get_world_size", group)
    return found.size() if found else -1


def get_backend(group=None):
    """The name of the backend."""
    found = member("get_backend", group)
    if found is None:
        raise ValueError("get_backend: this process is not a member of the group, got NON_GROUP_MEMBER")
    return Backend(found.name())


class BackendConfig:
    """Which backend moves tensors of which kind of device.

    Args:
        backend: such as "gloo" or "cpu:gloo,cuda:nccl".
    """

    def __init__(self, backend) -> None:
        parts = str(Backend(str(backend))).split(",")
        if ":" in parts[0]:
            pairs = [part.partition(":") for part in parts]
            self.device_backend_map = {kind: Backend(name) for kind, _, name in pairs}
            if len(self.device_backend_map) != len(pairs):
                raise ValueError(f"BackendConfig: a backend for each kind of device, got {backend!r}")
        else:
            kinds = ("cuda",) if parts[0] == "nccl" else ("cpu", "cuda")
            self.device_backend_map = dict.fromkeys(kinds, Backend(parts[0]))

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict:
        """{kind of device: backend}"""
        return self.device_backend_map


def get_backend_config(group=None) -> str:
    """Which backend moves tensors of which kind of device, such as "cpu:gloo,cuda:nccl"."""
    return str(BackendConfig(get_backend(group)))


def get_default_backend_for_device(device):
    """ "nccl" for CUDA devices, "gloo" for the CPU."""
    return "nccl" if facula.device(device).type == "cuda" else "gloo"


def _group_named(name):
    """The group of a `group_name`. ValueError where there is none."""
    for found in (_default, *_others):
        if found is not None and found.group_name == name:
            return found
    raise ValueError(f"_resolve_process_group: there is no group of that name, got {name!r}")


def get_pg_count():
    """How many groups there are."""
    return (_default is not None) + len(_others)


def get_process_group_ranks(group=None):
    """The ranks among all processes, by rank in the group."""
    found = member("get_process_group_ranks", group)
    return list(found._ranks) if found else []


def get_global_rank(group, group_rank):
    """The rank among all processes of a rank in a group."""
    found = member("get_global_rank", group)
    if found is None or not 0 <= group_rank < found.size():
        raise ValueError(f"get_global_rank: the group has no rank {group_rank}, got a group of {found.size() if found else 0}")
    return found._ranks[group_rank]


def get_group_rank(group, global_rank):
    """The rank in a group of a rank among all processes."""
    found = member("get_group_rank", group)
    if found is None or global_rank not in found._ranks:
        raise ValueError(f"get_group_rank: rank {global_rank} is not part of the group, got {found._ranks if found else []}")
    return found._ranks.index(global_rank)


def get_node_local_rank(fallback_rank=None):
    """LOCAL_RANK of the environment (or what mpiexec and srun call it), else `fallback_rank`. RuntimeError without either."""
    found = _launchers.local_rank()
    if found is not None:
        return found
    if fallback_rank is None:
        raise RuntimeError("get_node_local_rank: expected LOCAL_RANK in the environment or a fallback_rank, got neither")
    return int(fallback_rank)


def split_group(
    parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None,
):  # fmt: skip
    """The part of a group that this process is in, None if in no part. All processes of all parts' parent call it.

    Args:
        parent_pg: the group; it must be that of all processes. Default: that.
        split_ranks: lists of ranks of the group, which have no rank in common.
        timeout, pg_options, group_desc, backend: as for `new_group`.
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
        made = new_group(part, timeout, backend, pg_options, group_desc=group_desc)
        if get_rank() in part:
            mine = made
    return mine


def new_group(
    ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None,
    device_id=None, sort_ranks=True,
):  # fmt: skip
    """A group of some ranks; NON_GROUP_MEMBER when this process is not among them.

    All processes call it, in the same order for several groups; with `use_local_synchronization` only those of the group.
    """
    world = member("new_group")
    chosen = list(range(world.size())) if ranks is None else [int(r) for r in ranks]
    if sort_ranks:
        chosen.sort()
    if len(set(chosen)) != len(chosen) or any(not 0 <= r < world.size() for r in chosen):
        raise ValueError(f"new_group: ranks below the world size {world.size()}, each once, got {chosen}")
    name = Backend(backend) if backend else world.name()
    nccl = _engines_of(name)[1] if backend else _uses_nccl
    seconds = _rendezvous.seconds(timeout, world._timeout)
    if not chosen:
        return GroupMember.NON_GROUP_MEMBER
    native_name = group_desc or str(chosen)
    native = _world.make_group(chosen, native_name, use_local_synchronization, seconds, nccl)
    if native is None:
        return GroupMember.NON_GROUP_MEMBER
    if use_local_synchronization:
        times = _made[tuple(chosen)] = _made.get(tuple(chosen), 0) + 1
        title = f"{chosen} {times}"
    else:
        title = str(world._native.sequence())  # all ranks are as far
    store = PrefixStore(f"group{title}", world._store) if isinstance(world._store, Store) else None
    made = ProcessGroup(native, name, title, group_desc or "undefined", timeout or world._timeout, store)
    made._native_name = native_name
    _others.append(made)
    return made


def new_subgroups(
    group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None,
):  # fmt: skip
    """(the group of this process, all groups) of `group_size` neighbouring processes each."""
    world = member("new_subgroups", group)
    size = world.size()
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if group_size < 1 or group_size > size or size % group_size:
        raise ValueError(f"new_subgroups: group_size must divide the world size {size}, got {group_size}")
    lists = [world._ranks[i : i + group_size] for i in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """(the group of this process, all groups) with the given ranks."""
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
