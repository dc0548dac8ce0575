"""Start the processes of one machine, round after round, until they succeed or may not be started again."""

from __future__ import annotations

import json
import os
import string
import time
from dataclasses import asdict

from ...multiprocessing import DefaultLogsSpecs, LogsSpecs, PContext, ProcessFailure, SignalException, start_processes
from ...multiprocessing.segments import remove_unmapped_segments
from ...utils import macros
from .api import DEFAULT_ROLE, RunResult, WorkerGroup, WorkerSpec, WorkerState

__all__ = ["LocalElasticAgent"]


class LocalElasticAgent:
    """Manage the processes of a `WorkerSpec`: start them, round after round, until they succeed or may not be started
    again.

    Args:
        spec: what to run.
        logs_specs: where output goes. Default: the console.
        start_method: how processes that run a function are started.
        exit_barrier_timeout: seconds to wait for the other machines at the end.
        log_line_prefix_template: what begins every line of a stream that goes to console and file, with ``${role_name}``,
            ``${local_rank}`` and ``${rank}``.
        shutdown_timeout: seconds that processes have to end after SIGTERM.

    >>> import tempfile
    >>> from torch.distributed.elastic.agent.server import LocalElasticAgent, WorkerSpec
    >>> from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    >>> from torch.distributed.elastic.rendezvous import RendezvousParameters, rendezvous_handler_registry
    >>> handler = rendezvous_handler_registry.create_handler(RendezvousParameters("c10d", "localhost:0", "job", 1, 1))
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     agent = LocalElasticAgent(WorkerSpec("trainer", 2, handler, entrypoint="true"), DefaultLogsSpecs(logs))
    ...     agent.run().return_values
    {0: None, 1: None}
    >>> handler.shutdown()
    True
    """

    def __init__(
        self,
        spec: WorkerSpec,
        logs_specs: LogsSpecs | None = None,
        start_method: str = "spawn",
        exit_barrier_timeout: float = 300,
        log_line_prefix_template: str | None = None,
        shutdown_timeout: float | None = None,
    ) -> None:
        self._spec, self._logs_specs = spec, logs_specs or DefaultLogsSpecs()
        self._start_method, self._exit_barrier_timeout = start_method, exit_barrier_timeout
        self._template = log_line_prefix_template
        self._shutdown_timeout = 30.0 if shutdown_timeout is None else shutdown_timeout
        self._context: PContext | None = None
        self._group: WorkerGroup | None = None
        self._remaining = spec.max_restarts
        self._info = None

    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run until the end of the job; return a RunResult. SignalException when this launcher is told to end.

        Args:
            role: accepted: the role is that of the spec.
        """
        try:
            return self._run()
        except SignalException as error:
            self._stop(error.sigval)
            raise
        finally:
            self._stop()

    def _run(self) -> RunResult:
        self._start()
        while True:
            result = self._context.wait(self._spec.monitor_interval)
            if result is None:
                if self._spec.rdzv_handler.num_nodes_waiting() > 0:
                    self._restart("other machines begin a new round")
                elif failure := self._failure_elsewhere():
                    self._stop()
                    return RunResult(WorkerState.FAILED, failures=failure)
            elif not result.is_failed():
                return self._succeeded(result)
            elif self._remaining > 0:
                self._remaining -= 1
                self._say_failed(result.failures)
                self._restart(f"a process failed, {self._remaining} restarts are left")
            else:
                return self._failed(result)

    # ---- a round

    def _start(self) -> None:
        self._info = self._spec.rdzv_handler.next_rendezvous()
        self._group = WorkerGroup.meet(self._spec, self._info)
        ranks = range(self._spec.local_world_size)
        self._context = start_processes(
            self._spec.role,
            self._spec.entrypoint,
            {rank: tuple(macros(str(rank)).substitute(list(self._spec.args))) for rank in ranks},
            {rank: self._environment(rank) for rank in ranks},
            self._logs_specs,
            {rank: self._prefix(rank) for rank in ranks},
            self._start_method,
            self._spec.numa_options,
            duplicate_stdout_filters=self._spec.duplicate_stdout_filters,
            duplicate_stderr_filters=self._spec.duplicate_stderr_filters,
        )

    def _prefix(self, rank: int) -> str:
        template = string.Template(self._template or "[${role_name}${local_rank}]:")
        return template.safe_substitute(role_name=self._spec.role, local_rank=rank, rank=self._group.first_rank + rank)

    def _environment(self, rank: int) -> dict[str, str]:
        group, spec, handler = self._group, self._spec, self._spec.rdzv_handler
        store = self._info.bootstrap_store_info
        values = {
            "LOCAL_RANK": rank,
            "RANK": group.first_rank + rank,
            "GROUP_RANK": group.group_rank,
            "ROLE_RANK": group.first_role_rank + rank,
            "ROLE_NAME": spec.role,
            "LOCAL_WORLD_SIZE": spec.local_world_size,
            "WORLD_SIZE": group.world_size,
            "GROUP_WORLD_SIZE": group.group_world_size,
            "ROLE_WORLD_SIZE": group.role_world_size,
            "MASTER_ADDR": spec.master_addr or store.master_addr,
            "MASTER_PORT": spec.master_port or store.master_port,
            "TORCHELASTIC_RESTART_COUNT": spec.max_restarts - self._remaining,
            "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
            "TORCHELASTIC_RUN_ID": handler.get_run_id(),
            "TORCHELASTIC_USE_AGENT_STORE": handler.use_agent_store,
            "FACULA_STORE_PREFIX": group.token,  # keys of an earlier round must not be taken for ones of this
        }
        # Otherwise each process would use as many threads as there are processors.
        if "OMP_NUM_THREADS" not in os.environ and spec.local_world_size > 1:
            values["OMP_NUM_THREADS"] = max(1, len(os.sched_getaffinity(0)) // spec.local_world_size)
        if spec.virtual_local_rank:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            devices = visible.split(",") if visible else [str(i) for i in range(spec.local_world_size)]
            if rank >= len(devices):
                raise ValueError(f"--virtual-local-rank: process {rank} has no device, got CUDA_VISIBLE_DEVICES={visible}")
            values |= {"LOCAL_RANK": 0, "CUDA_VISIBLE_DEVICES": devices[rank]}
        return {name: str(value) for name, value in values.items()}

    def _restart(self, why: str) -> None:
        print(f"facula.distributed.run: starting the processes of this machine again: {why}", flush=True)
        self._stop()
        self._start()

    def _stop(self, number=None) -> None:
        if self._context is not None:
            self._context.close(number, self._shutdown_timeout)
            self._context = None
            # Killed processes leave shared memory of MPI behind, which would fill /dev/shm after some restarts.
            remove_unmapped_segments()

    # ---- the end

    def _by_rank(self, values: dict) -> dict:
        return {self._group.first_rank + rank: value for rank, value in values.items()}

    def _say_failed(self, failures: dict[int, ProcessFailure]) -> None:
        by_rank = self._by_rank(failures)
        rank, first = min(by_rank.items(), key=lambda item: (item[1].is_consequence, item[1].timestamp))
        print(f"facula.distributed.run: rank {rank} failed: {first.traceback or first.message}", flush=True)

    def _failed(self, result) -> RunResult:
        failures = self._by_rank(result.failures)
        if self._group.group_world_size > 1:
            self._info.store.set("failed", json.dumps({rank: asdict(failure) for rank, failure in failures.items()}))
        self._stop()
        return RunResult(WorkerState.FAILED, failures=failures)

    def _failure_elsewhere(self) -> dict[int, ProcessFailure]:
        """Return how processes of another machine failed for good; empty while none did."""
        if self._group.group_world_size == 1 or not self._info.store.check(["failed"]):
            return {}
        told = json.loads(self._info.store.get("failed"))
        return {int(rank): ProcessFailure.told(fields) for rank, fields in told.items()}

    def _succeeded(self, result) -> RunResult:
        self._wait_for_other_machines()
        return RunResult(WorkerState.SUCCEEDED, self._by_rank(result.return_values))

    def _wait_for_other_machines(self) -> None:
        """Wait until all have finished. The launcher that has the store stays until the others have read so: any of those that
        come and go can have it, not only the first rank."""
        if self._group.group_world_size == 1:
            return
        store, count = self._info.store, self._group.group_world_size
        deadline = time.monotonic() + self._exit_barrier_timeout
        if store.add("finished", 1) == count:
            store.set("all finished", "1")
        while time.monotonic() < deadline and not store.check(["all finished"]) and not store.check(["failed"]):
            time.sleep(0.02)
        gone = store.add("gone", 1)
        hosts = self._spec.rdzv_handler._hosts_store
        if self._info.rank == 0 if hosts is None else hosts:
            deadline = time.monotonic() + 5
            while gone < count and time.monotonic() < deadline:
                time.sleep(0.02)
                gone = store.add("gone", 0)
