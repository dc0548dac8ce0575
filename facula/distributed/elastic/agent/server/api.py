"""Describe what a launcher runs, and its state."""

from __future__ import annotations

import enum
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...multiprocessing import ProcessFailure
from ...rendezvous import RendezvousHandler

__all__ = ["DEFAULT_ROLE", "RunResult", "WorkerGroup", "WorkerSpec", "WorkerState"]

DEFAULT_ROLE = "default"


@dataclass
class WorkerSpec:
    """Describe what to run.

    Args:
        role: what the processes are for, a name.
        local_world_size: how many there are on this machine.
        rdzv_handler: how the launchers meet.
        entrypoint: a command or a function; `fn` is the old name.
        args: its arguments.
        max_restarts: how often processes are started again after a failure.
        monitor_interval: seconds between looks at the other launchers.
        master_addr, master_port: where processes meet, where the handler does not say.
        local_addr: the address of this machine.
        event_log_handler: accepted.
        numa_options: None; NotImplementedError, when run, for anything else.
        duplicate_stdout_filters, duplicate_stderr_filters: lines with one of these texts go to a file of their own.
        virtual_local_rank: every process sees one GPU, its own, as number 0.

    Errors: ValueError for no processes, a negative number of restarts, and without an entrypoint.

    >>> from torch.distributed.elastic.agent.server import WorkerSpec
    >>> WorkerSpec("trainer", 2, rdzv_handler=None, entrypoint=pow, args=(2, 5)).get_entrypoint_name()
    'pow'
    """

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler | None
    fn: Callable[..., Any] | None = None
    entrypoint: Callable[..., Any] | str | None = None
    args: tuple[Any, ...] = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False

    def __post_init__(self) -> None:
        if self.local_world_size < 1:
            raise ValueError(f"WorkerSpec: local_world_size must be positive, got {self.local_world_size}")
        if self.monitor_interval <= 0:
            raise ValueError(f"WorkerSpec: monitor_interval must be positive, got {self.monitor_interval}")
        if self.max_restarts < 0:
            raise ValueError(f"WorkerSpec: max_restarts must not be negative, got {self.max_restarts}")
        self.entrypoint = self.entrypoint or self.fn
        if not self.entrypoint:
            raise ValueError("WorkerSpec: entrypoint must be a command or a function, got none")

    def get_entrypoint_name(self) -> str:
        """Return its name, for messages."""
        return self.entrypoint if isinstance(self.entrypoint, str) else self.entrypoint.__qualname__


class WorkerState(str, enum.Enum):
    """Name the state of a machine's processes: UNKNOWN, INIT, HEALTHY, UNHEALTHY, STOPPED, SUCCEEDED or FAILED.

    >>> from torch.distributed.elastic.agent.server import WorkerState
    >>> WorkerState.is_running(WorkerState.HEALTHY), WorkerState.is_running(WorkerState.FAILED)
    (True, False)
    """

    UNKNOWN, INIT, HEALTHY, UNHEALTHY = "UNKNOWN", "INIT", "HEALTHY", "UNHEALTHY"
    STOPPED, SUCCEEDED, FAILED = "STOPPED", "SUCCEEDED", "FAILED"

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Return whether processes run.

        Args:
            state: a WorkerState.
        """
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


@dataclass
class RunResult:
    """Describe how a job ended.

    Args:
        state: a WorkerState.
        return_values: what functions returned, by global rank.
        failures: how processes failed, a ProcessFailure by global rank.

    >>> from torch.distributed.elastic.agent.server import RunResult, WorkerState
    >>> RunResult(WorkerState.SUCCEEDED, {0: 32}).is_failed()
    False
    """

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Return whether it failed."""
        return self.state == WorkerState.FAILED


@dataclass
class WorkerGroup:
    """Hold the ranks of a machine's processes in the present round.

    Args:
        group_rank, group_world_size: the number of this machine's launcher, of how many.
        first_rank: the rank of the first process here; the others follow.
        world_size: how many processes there are in all.
        first_role_rank, role_world_size: the same among processes of this role.
        token: the same for all processes of a round, and for no other round.

    >>> from types import SimpleNamespace
    >>> from torch.distributed import HashStore
    >>> from torch.distributed.elastic.agent.server import WorkerGroup
    >>> spec = SimpleNamespace(role="trainer", local_world_size=2)
    >>> group = WorkerGroup.meet(spec, SimpleNamespace(store=HashStore(), rank=0, world_size=1))
    >>> group.first_rank, group.world_size
    (0, 2)
    """

    group_rank: int
    group_world_size: int
    first_rank: int
    world_size: int
    first_role_rank: int
    role_world_size: int
    token: str  # the same for all processes of a round, and for no other round

    @classmethod
    def meet(cls, spec: WorkerSpec, info: Any) -> WorkerGroup:
        """Let the launchers tell each other how many processes of which role they start; ranks follow the launchers' order.

        Args:
            spec: the WorkerSpec of this machine.
            info: the RendezvousInfo of the round.

        Returns: the WorkerGroup of this machine.
        """
        info.store.set(f"machine/{info.rank}", json.dumps([spec.role, spec.local_world_size, uuid.uuid4().hex]))
        machines = [json.loads(info.store.get(f"machine/{rank}")) for rank in range(info.world_size)]
        before, same = machines[: info.rank], [machine for machine in machines if machine[0] == spec.role]
        return cls(
            group_rank=info.rank,
            group_world_size=info.world_size,
            first_rank=sum(count for _, count, _ in before),
            world_size=sum(count for _, count, _ in machines),
            first_role_rank=sum(count for role, count, _ in before if role == spec.role),
            role_world_size=sum(count for _, count, _ in same),
            token=machines[0][2],
        )
