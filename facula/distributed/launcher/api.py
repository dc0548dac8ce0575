"""Launch a job from Python, as `facula.distributed.run` does from its command line."""

from __future__ import annotations

import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..elastic.agent.server import LocalElasticAgent, WorkerSpec
from ..elastic.multiprocessing import ChildFailedError, DefaultLogsSpecs, LogsSpecs, SignalException
from ..elastic.rendezvous import RendezvousParameters, rendezvous_handler_registry
from ..elastic.utils import address_of

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """Describe what to launch, and how.

    Args:
        min_nodes, max_nodes: how many machines there may be.
        nproc_per_node: processes on this machine.
        logs_specs: where output goes. Default: the console.
        run_id: the job's name, the same on all machines. Default: a new one.
        role: what the processes are for.
        rdzv_endpoint, rdzv_backend, rdzv_configs: where and how the launchers meet.
        rdzv_timeout: seconds that they may take to; -1 for what `rdzv_configs` says, or 900.
        max_restarts: how often processes are started again after a failure.
        monitor_interval: seconds between looks at the other machines.
        start_method: how processes that run a function are started.
        log_line_prefix_template: what begins lines of streams that go to console and file.
        local_addr: the address of this machine.
        signals_to_handle: signals that end the job, handed on to the processes.
        duplicate_stdout_filters, duplicate_stderr_filters: lines with one of these texts go to a file of their own.
        virtual_local_rank: every process sees one GPU, its own.
        shutdown_timeout: seconds that processes have to end after SIGTERM. Default: TORCH_ELASTIC_SHUTDOWN_TIMEOUT or 30.
        metrics_cfg, event_log_handler: accepted.
        numa_options: None; NotImplementedError, when launched, for anything else.

    >>> from torch.distributed.launcher import LaunchConfig
    >>> config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_endpoint="localhost:0")
    >>> config.rdzv_backend, config.rdzv_configs
    ('c10d', {'timeout': 900})
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.rdzv_timeout != -1:
            self.rdzv_configs.setdefault("timeout", self.rdzv_timeout)
        self.rdzv_configs.setdefault("timeout", 900)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs(
                duplicate_stdout_filters=self.duplicate_stdout_filters, duplicate_stderr_filters=self.duplicate_stderr_filters
            )
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))


class elastic_launch:
    """Run a function or command in all processes of this machine: `elastic_launch(config, entrypoint)(*args)`.

    Args:
        config: how.
        entrypoint: a function that can be pickled, a command, or None for this Python.
    Returns, when called:
        what the function returned, by global rank.
    Raises, when called:
        ChildFailedError: processes failed and could not be started again.

    >>> import tempfile
    >>> from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    >>> from torch.distributed.launcher import LaunchConfig, elastic_launch
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     config = LaunchConfig(
    ...         1, 1, nproc_per_node=2, rdzv_endpoint="localhost:0", start_method="fork", logs_specs=DefaultLogsSpecs(logs)
    ...     )
    ...     elastic_launch(config, pow)(2, 5)
    {0: 32, 1: 32}
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]) -> dict[int, Any]:
    """Launch and wait; return what functions returned, by global rank. ChildFailedError when processes failed.

    Args:
        config: a LaunchConfig.
        entrypoint: a function that can be pickled, a command, or None for this Python.
        args: its arguments, a list; "${local_rank}" in a text is filled in.

    >>> import tempfile
    >>> from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    >>> from torch.distributed.launcher import LaunchConfig, launch_agent
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     config = LaunchConfig(1, 1, nproc_per_node=2, rdzv_endpoint="localhost:0", logs_specs=DefaultLogsSpecs(logs))
    ...     launch_agent(config, "true", [])  # a command returns nothing
    {0: None, 1: None}
    """
    entrypoint = entrypoint or sys.executable
    agent, spec = _agent(config, entrypoint, args)
    handlers = _raise_on_signals(config.signals_to_handle)
    try:
        result = agent.run()
        if result.is_failed():
            raise ChildFailedError(_name(entrypoint, args), result.failures)
        return result.return_values
    except ChildFailedError:
        spec.rdzv_handler.set_closed()
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        spec.rdzv_handler.shutdown()


def _agent(config: LaunchConfig, entrypoint: Callable | str, args: list) -> tuple[LocalElasticAgent, WorkerSpec]:
    parameters = RendezvousParameters(
        backend=config.rdzv_backend, endpoint=config.rdzv_endpoint, run_id=config.run_id or uuid.uuid4().hex,
        min_nodes=config.min_nodes, max_nodes=config.max_nodes, local_addr=config.local_addr, **config.rdzv_configs,
    )  # fmt: skip
    handler = rendezvous_handler_registry.create_handler(parameters)
    address, port = address_of(config.rdzv_endpoint, 0) if config.rdzv_backend == "static" else (None, None)
    spec = WorkerSpec(
        role=config.role, local_world_size=config.nproc_per_node, entrypoint=entrypoint, args=tuple(args),
        rdzv_handler=handler, max_restarts=config.max_restarts, monitor_interval=config.monitor_interval,
        master_addr=address, master_port=port or None, local_addr=config.local_addr, numa_options=config.numa_options,
        duplicate_stdout_filters=config.duplicate_stdout_filters,
        duplicate_stderr_filters=config.duplicate_stderr_filters, virtual_local_rank=config.virtual_local_rank,
    )  # fmt: skip
    agent = LocalElasticAgent(
        spec, config.logs_specs, config.start_method, log_line_prefix_template=config.log_line_prefix_template,
        shutdown_timeout=config.shutdown_timeout,
    )  # fmt: skip
    return agent, spec


def _raise_on_signals(names: str) -> dict:
    """Make signals SignalException in the main thread; return the handlers from before."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        number = getattr(signal, name, None)
        if not isinstance(number, signal.Signals):
            raise ValueError(f"launch_agent: signals_to_handle must be names of signals, got {names!r}")
        before[number] = signal.signal(number, _raise)
    return before


def _raise(number, frame) -> None:
    raise SignalException(f"process {os.getpid()} got {signal.Signals(number).name}", signal.Signals(number))


def _name(entrypoint: Callable | str, args: list) -> str:
    """Return the program: the first argument that is no option of Python's."""
    if not isinstance(entrypoint, str):
        return entrypoint.__qualname__
    skip = {"-u", "-m", "facula"}
    return next((str(arg) for arg in args if str(arg) not in skip), entrypoint)
