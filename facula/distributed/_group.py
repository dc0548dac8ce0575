"""Define the default group, make groups from it, and answer questions about them."""

from __future__ import annotations

import atexit
import datetime
import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

import facula
from facula import _C

from . import _launchers, _recorder, _rendezvous
from ._backends import Backend, BackendConfig
from ._group_methods import GroupMethods

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import Any

    from facula.distributed._store import Store

default_pg_timeout: timedelta = datetime.timedelta(minutes=30)


class ProcessGroup(GroupMethods):
    """Represent processes that call collectives together. `init_process_group` and `new_group` make groups; programs do
    not call the class.

    Besides the methods below, a group has PyTorch's methods `allreduce`, `broadcast`, `allgather` and so on, each of which
    returns its `Work`. A group cannot be pickled: TypeError.

    Args:
        native: the group of the core.
        backend: the name that `name` gives.
        name: the `group_name`.
        description: the `group_desc`.
        timeout: how long collectives wait, a timedelta.
        store: the store by which the processes met.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> group = dist.group.WORLD
    >>> group.rank(), group.size(), group.name()
    (0, 1, 'gloo')
    >>> group.get_group_store() is None
    True
    >>> group.allreduce(torch.ones(2)).wait()
    True
    >>> dist.destroy_process_group()
    """

    group_name: str
    group_desc: str

    def __init__(self, native: Any, backend: str, name: str, description: str, timeout: float, store: Store) -> None:
        self._native, self._backend, self._timeout, self._store = native, backend, timeout, store
        self.group_name, self.group_desc = name, description
        self._ranks = native.ranks()
        self._rank = self._ranks.index(_rank_of_process)
        self._coalesced = None

    def rank(self) -> int:
        """Return the number of this process in the group, from 0."""
        return self._rank

    def size(self) -> int:
        """Return the number of processes in the group."""
        return len(self._ranks)

    def name(self) -> str:
        """Name of the backend that was asked for."""
        return self._backend

    def get_group_store(self) -> Store:
        """Return the store by which the processes met; None for one process alone, and for a "fake" group."""
        return self._store

    def _get_sequence_number_for_group(self):
        return self._native.sequence()

    def __reduce__(self) -> Any:
        raise TypeError("ProcessGroup: a group is not pickled; every process makes its own")


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> ProcessGroup | None:
        global _default
        _default = value


class group(metaclass=_WorldMeta):
    """Hold the group of all processes in `group.WORLD`, which is None before init_process_group.

    >>> import torch.distributed as dist
    >>> dist.group.WORLD is None
    True
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.group.WORLD.size()
    1
    >>> dist.destroy_process_group()
    """


class GroupMember(metaclass=_WorldMeta):
    """Hold `WORLD`, as `group` does, and NON_GROUP_MEMBER, which `new_group` returns in a process that is not one of
    the ranks. Collectives with it do nothing.

    >>> torch.distributed.GroupMember.NON_GROUP_MEMBER
    -100
    """

    NON_GROUP_MEMBER = -100


_default: ProcessGroup | None = None
_world = None
_rank_of_process, _uses_nccl = 0, False
_others: list[ProcessGroup] = []


def is_initialized() -> bool:
    """Return whether there is a default group: init_process_group was called, and destroy_process_group was not.

    >>> torch.distributed.is_initialized()
    False
    """
    return _default is not None


def member(name: str, group: ProcessGroup | int | None = None) -> ProcessGroup | None:
    """Return the group; None where this process is no member of it.

    Args:
        name: the function that asks, for errors.
        group: a ProcessGroup. Default: that of all processes.

    Errors: ValueError before `init_process_group`, TypeError for what is no group.

    >>> from torch.distributed.distributed_c10d import member
    >>> member("mine", torch.distributed.GroupMember.NON_GROUP_MEMBER) is None
    True
    """
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
    """Return the lines that the main thread runs, innermost first, without those of this package."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    inside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    lines = [f for f in traceback.extract_stack(frame) if not f.filename.startswith(inside)]
    return " <- ".join(f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in reversed(lines[-6:]))


def _engines_of(backend):
    """Return, for a backend such as "cpu:gloo,cuda:nccl", the engine that serves the host, and whether NCCL serves CUDA
    devices.

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
    """Return the index of a CUDA device, of a torch.device or a number; None for the CPU, and where none is given."""
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


def init_process_group(backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
                       world_size: int = -1, rank: int = -1, store: Store | None = None, group_name: str = "",
                       pg_options: Any = None, device_id: facula.device | int | None = None,
                       _ranks: Sequence[int] | None = None) -> None:  # fmt: skip
    """Make the default group, of all processes that call this with the same store.

    Under a launcher (`python -m facula.distributed.run`, mpiexec, srun) no argument is needed. One process alone loads no MPI,
    and needs no store.

    Args:
        backend: "gloo" or "mpi", which are MPI here, also for CUDA tensors, by way of the host; "nccl", or
            "cpu:gloo,cuda:nccl", by which CUDA tensors go from device to device; None for that where there is NCCL; "fake"
            sends nothing, so that one process can try what it would be among others.
        init_method: "env://" (the default; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment; all of them
            also from mpiexec and srun), "tcp://address:port" of rank 0, or "file://path" that all processes share.
        timeout: of this call and of collectives, 30 minutes if None.
        world_size, rank: how many processes there are, and which this is.
        store: in the place of `init_method`.
        group_name: what the group is called in PyTorch's programs, "default_pg" if empty.
        pg_options: accepted.
        device_id: the CUDA device of this process, whose communicator is then made at once (every rank must say its own).

    Errors: ValueError when it is not known how many processes there are, or when there is a group already; RuntimeError for a
    backend that cannot be used; DistStoreError when not all came in time, which names the missing ranks; TypeError for a
    timeout that is no timedelta.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.get_rank(), dist.get_world_size()
    (0, 1)
    >>> dist.destroy_process_group()
    """
    global _default, _world, _rank_of_process, _uses_nccl
    if _default is not None:
        raise ValueError("init_process_group: the default process group is initialized already, got a second call")
    if store is not None and init_method is not None:
        raise ValueError(f"init_process_group: expected a store or an init_method, got both, {init_method!r}")
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
            # The rest of the deadline: meeting and connecting together must not take longer than it.
            left = max(ends - time.monotonic(), 0.5)  # who came late still gets in
            world = _C._dist_world("mpi", store._native, rank, size, left, nccl)
    if nccl and device is not None:
        world.everybody().connect(device, timeout.total_seconds())
    _world, _rank_of_process, _uses_nccl = world, rank, nccl
    _recorder.attach(sys.modules[__name__])
    if "FACULA_FLIGHT_RECORDER" in os.environ:
        _recorder.dump_on_signal()
    _default = ProcessGroup(world.everybody(), name, group_name or "default_pg", "default_pg", timeout, store)


def _uncaught():
    """Return by which exception the program ends, as a line for the others; empty if by none."""
    # The interpreter sets it for an uncaught exception before functions of atexit run.
    error = getattr(sys, "last_value", None)
    if error is None or isinstance(error, SystemExit):
        return ""
    # Bounded, because every other process prints it.
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


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group; without one, all of them. The other processes need not call it at the same time.

    Args:
        group: which one. ValueError for one that was ended before, and without groups.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.destroy_process_group()
    >>> dist.is_initialized()
    False
    """
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
    """Return whether this process is not a member."""
    return group is GroupMember.NON_GROUP_MEMBER


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the number of this process in the group, from 0; -1 when not a member.

    Args:
        group: a ProcessGroup. Default: that of all processes. ValueError where there is none.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> dist.get_rank(), dist.get_rank(dist.new_group([2, 3]))
    (2, 0)
    >>> dist.destroy_process_group()
    """
    found = member("get_rank", group)
    return found.rank() if found else -1


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of processes in the group; -1 when not a member.

    Args:
        group: a ProcessGroup. Default: that of all processes. ValueError where there is none.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> dist.get_world_size(), dist.get_world_size(dist.new_group([2, 3]))
    (4, 2)
    >>> dist.destroy_process_group()
    """
    found = member("get_world_size", group)
    return found.size() if found else -1


def get_backend(group: ProcessGroup | None = None) -> str:
    """Return the name of the backend of a group, a `Backend`, such as "gloo" or "cpu:gloo,cuda:nccl".

    Args:
        group: a ProcessGroup. Default: that of all processes. ValueError where there is none, or this process is no member.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.get_backend()
    'gloo'
    >>> dist.destroy_process_group()
    """
    found = member("get_backend", group)
    if found is None:
        raise ValueError("get_backend: this process is not a member of the group, got NON_GROUP_MEMBER")
    return Backend(found.name())


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Return which backend moves tensors of which kind of device in a group, as a text such as "cpu:gloo,cuda:nccl".

    Args:
        group: a ProcessGroup. Default: that of all processes. ValueError where there is none, or this process is no member.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.get_backend_config()
    'cpu:gloo,cuda:gloo'
    >>> dist.destroy_process_group()
    """
    return str(BackendConfig(get_backend(group)))


def _group_named(name):
    """Return the group of a `group_name`. ValueError where there is none."""
    for found in (_default, *_others):
        if found is not None and found.group_name == name:
            return found
    raise ValueError(f"_resolve_process_group: there is no group of that name, got {name!r}")


def get_pg_count() -> int:
    """Return how many groups there are, the default one included.

    >>> torch.distributed.get_pg_count()
    0
    """
    return (_default is not None) + len(_others)


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """Return the ranks of a group's processes among all processes, by rank in the group; empty when this process is no member.

    Args:
        group: a ProcessGroup. Default: that of all processes.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> dist.get_process_group_ranks(dist.new_group([2, 3]))
    [2, 3]
    >>> dist.destroy_process_group()
    """
    found = member("get_process_group_ranks", group)
    return list(found._ranks) if found else []


def get_global_rank(group: ProcessGroup | None, group_rank: int) -> int:
    """Return the rank among all processes of a rank in a group.

    Args:
        group: a ProcessGroup.
        group_rank: the rank in it. ValueError where the group has none of that number.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> dist.get_global_rank(dist.new_group([2, 3]), 1)
    3
    >>> dist.destroy_process_group()
    """
    found = member("get_global_rank", group)
    if found is None or not 0 <= group_rank < found.size():
        raise ValueError(f"get_global_rank: the group has no rank {group_rank}, got a group of {found.size() if found else 0}")
    return found._ranks[group_rank]


def get_group_rank(group: ProcessGroup | None, global_rank: int) -> int:
    """Return the rank in a group of a rank among all processes.

    Args:
        group: a ProcessGroup.
        global_rank: the rank among all. ValueError where it is not part of the group.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> dist.get_group_rank(dist.new_group([2, 3]), 3)
    1
    >>> dist.destroy_process_group()
    """
    found = member("get_group_rank", group)
    if found is None or global_rank not in found._ranks:
        raise ValueError(f"get_group_rank: rank {global_rank} is not part of the group, got {found._ranks if found else []}")
    return found._ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the number of this process on its machine: LOCAL_RANK of the environment, or what mpiexec and srun call it.

    Args:
        fallback_rank: what is given where no launcher has set one. RuntimeError without it.

    >>> torch.distributed.get_node_local_rank(fallback_rank=0)
    0
    """
    found = _launchers.local_rank()
    if found is not None:
        return found
    if fallback_rank is None:
        raise RuntimeError("get_node_local_rank: expected LOCAL_RANK in the environment or a fallback_rank, got neither")
    return int(fallback_rank)
