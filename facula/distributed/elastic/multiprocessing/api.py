"""Run one command or function in several processes of this machine, and report how they end.

Every process leads a group of its own, so that its children end with it. It ends when its launcher is gone.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .errors import ERROR_FILE, ProcessFailure, write_exception
from .logs import DefaultLogsSpecs, LogsDest, LogsSpecs, Pump, Std, console_of

__all__ = ["MultiprocessContext", "PContext", "RunProcsResult", "SignalException", "SubprocessContext", "start_processes"]

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class SignalException(Exception):
    """Report that the launcher itself received a signal that ends the job.

    Args:
        msg: what happened.
        sigval: the signal.
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


@dataclass
class RunProcsResult:
    """Describe how the processes ended, by local rank.

    Args:
        return_values: what functions returned; None of commands.
        failures: how processes failed, a ProcessFailure each.
        stdouts, stderrs: their log files; an empty name for the console.

    >>> from torch.distributed.elastic.multiprocessing import RunProcsResult
    >>> RunProcsResult(return_values={0: 32}).is_failed()
    False
    """

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Return whether any failed."""
        return bool(self.failures)


def _end_with_launcher(launcher: int) -> None:
    """Have this new process killed when the launcher's thread that started it ends, however that ends.

    Args:
        launcher: the process id that the parent must have; 0 where a server of processes is the parent.
    """
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The signal is sent only for a death that comes after the call of prctl.
    if launcher and os.getppid() != launcher:
        os._exit(1)  # it was gone before


class PContext:
    r"""Manage the processes of one attempt: call `start`, then `wait` until it returns a result, then `close`.
    `start_processes` makes one.

    Args:
        name: what they are, for messages.
        entrypoint: a command, or a function that can be pickled.
        args: arguments by local rank.
        envs: what is added to the environment, by local rank.
        logs_specs: where output goes.
        log_line_prefixes: what begins lines that go to console and file, by local rank. Default: "[name0]:" and so on.

    Errors: RuntimeError where local ranks are not 0 to n - 1.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, PContext, Std, SubprocessContext
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     specs = DefaultLogsSpecs(logs, redirects=Std.OUT)
    ...     context = SubprocessContext("hello", "echo", {0: ("a",), 1: ("b",)}, {0: {}, 1: {}}, specs)
    ...     context.start()
    ...     result = context.wait()
    ...     said = [Path(path).read_text() for path in result.stdouts.values()]
    ...     context.close()
    >>> said, sorted(context.pids()), isinstance(context, PContext)
    (['a\n', 'b\n'], [0, 1], True)
    """

    name: str
    entrypoint: str | Callable[..., Any]
    args: dict[int, tuple[Any, ...]]
    envs: dict[int, dict[str, str]]

    def __init__(
        self,
        name: str,
        entrypoint: str | Callable[..., Any],
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
    ) -> None:
        if set(args) != set(range(len(args))) or set(envs) != set(args):
            raise RuntimeError(
                f"{name}: args and envs must have the local ranks 0 to n - 1, got {sorted(args)} and {sorted(envs)}"
            )
        self.name, self.entrypoint, self.args, self.envs = name, entrypoint, args, envs
        self.nprocs: int = len(args)
        self._logs_specs, self._prefixes = logs_specs, log_line_prefixes or {}
        self._dest: LogsDest = logs_specs.reify(envs)
        for rank, path in self._dest.error_files.items():
            envs[rank][ERROR_FILE] = path
        self._pump = Pump()
        self._pidfds: dict[int, int] = {}
        self._exitcodes: dict[int, int] = {}
        self._failures: dict[int, ProcessFailure] = {}

    # ---- starting

    def start(self) -> None:
        """Start all processes; none stays if one cannot be started. `start_processes` has called it."""
        try:
            for rank in range(self.nprocs):
                streams = {std: self._stream(rank, std) for std in (Std.OUT, Std.ERR)}
                try:
                    pid = self._start(rank, streams[Std.OUT], streams[Std.ERR])
                finally:
                    for fd in streams.values():
                        if fd is not None:
                            os.close(fd)
                if hasattr(os, "pidfd_open"):
                    self._pidfds[rank] = os.pidfd_open(pid)
        except BaseException:
            self.close(signal.SIGKILL)
            raise
        self._pump.start()

    def _stream(self, rank: int, std: Std) -> int | None:
        """Return the descriptor for a stream of a process; None where it has the launcher's own."""
        out = std == Std.OUT
        path = (self._dest.stdouts if out else self._dest.stderrs).get(rank, "")
        tee = (self._dest.tee_stdouts if out else self._dest.tee_stderrs).get(rank, "")
        filtered = self._dest.filtered_stdout if out else self._dest.filtered_stderr
        filters = getattr(self._logs_specs, "duplicate_stdout_filters" if out else "duplicate_stderr_filters", None)
        prefix = self._prefixes.get(rank, f"[{self.name}{rank}]:")
        # A file that only one process writes needs no thread in between; the process writes to it directly.
        if tee or filtered:
            console = console_of(std) if tee or not path else None
            return self._pump.add(path, console, prefix if tee else "", filtered, filters)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if path else None

    def _start(self, rank: int, out: int | None, err: int | None) -> int:
        raise NotImplementedError("PContext._start: derive from PContext and start the process there, got none")

    # ---- watching

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Return how they ended: as soon as one has failed (the others are then ended) or all are done.

        Args:
            timeout: seconds; 0 looks once, below 0 waits for ever.
            period: seconds between looks where the system cannot wait for processes.
        Returns:
            None while they run.
        """
        deadline = time.monotonic() + timeout if timeout >= 0 else None
        while True:
            if (result := self._poll()) is not None:
                return result
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._sleep(left, period)

    def _sleep(self, left: float | None, period: float) -> None:
        running = [fd for rank, fd in self._pidfds.items() if rank not in self._exitcodes]
        if running:
            poller = select.poll()
            for fd in running:
                poller.register(fd, select.POLLIN)
            poller.poll(None if left is None else max(left, 0.001) * 1000)
        else:
            time.sleep(period if left is None else min(period, left))

    def _poll(self) -> RunProcsResult | None:
        for rank in range(self.nprocs):
            if rank in self._exitcodes:
                continue
            code = self._exitcode(rank)
            if code is None:
                continue
            self._exitcodes[rank] = code
            if code != 0:
                self._failures[rank] = ProcessFailure(rank, self.pids()[rank], code, self._dest.error_files[rank])
        if self._failures:
            self._let_others_fail()
            self.close()
            return RunProcsResult({}, self._failures, self._dest.stdouts, self._dest.stderrs)
        if len(self._exitcodes) < self.nprocs:
            return None
        self._pump.finish(5)
        return RunProcsResult(self._return_values(), {}, self._dest.stdouts, self._dest.stderrs)

    def _let_others_fail(self) -> None:
        """Give others a moment to fail: what made one fail may be failing in them, and the cause may be theirs."""
        deadline = time.monotonic() + 0.3
        while len(self._exitcodes) < self.nprocs and (left := deadline - time.monotonic()) > 0:
            self._sleep(left, 0.05)
            for rank in range(self.nprocs):
                if rank not in self._exitcodes and (code := self._exitcode(rank)) is not None:
                    self._exitcodes[rank] = code
                    if code != 0:
                        self._failures[rank] = ProcessFailure(rank, self.pids()[rank], code, self._dest.error_files[rank])

    def _exitcode(self, rank: int) -> int | None:
        raise NotImplementedError("PContext._exitcode: derive from PContext and ask the process there, got none")

    def _return_values(self) -> dict[int, Any]:
        return dict.fromkeys(range(self.nprocs))

    def pids(self) -> dict[int, int]:
        """Return the process ids by local rank."""
        raise NotImplementedError("PContext.pids: derive from PContext and give them there, got none")

    # ---- ending

    def close(self, death_sig: signal.Signals | None = None, timeout: float = 30) -> None:
        """End what still runs, each process with all its children.

        Args:
            death_sig: the first signal. Default: SIGTERM.
            timeout: seconds until SIGKILL.
        """
        self._signal(death_sig or signal.SIGTERM)
        deadline = time.monotonic() + timeout
        while self._running() and (left := deadline - time.monotonic()) > 0:
            self._sleep(min(left, 0.2), 0.02)
        for rank in self.pids():
            self._kill_group(rank, signal.SIGKILL)  # children that a worker has left behind, too
        while self._running():
            time.sleep(0.005)
        for fd in self._pidfds.values():
            os.close(fd)
        self._pidfds = {}
        self._pump.finish(1)

    def _running(self) -> list[int]:
        for rank in self.pids():
            if rank not in self._exitcodes and (code := self._exitcode(rank)) is not None:
                self._exitcodes[rank] = code
        return [rank for rank in self.pids() if rank not in self._exitcodes]

    def _signal(self, number: int) -> None:
        for rank in self._running():
            self._kill_group(rank, number)

    def _kill_group(self, rank: int, number: int) -> None:
        try:
            os.killpg(self.pids()[rank], number)
        except (ProcessLookupError, PermissionError):
            pass  # all of them are gone


class SubprocessContext(PContext):
    """Manage processes that run a command.

    Args:
        args, kwargs: name, entrypoint, args, envs, logs_specs and log_line_prefixes of a PContext.

    >>> import tempfile
    >>> from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SubprocessContext
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     context = SubprocessContext("waits", "sleep", {0: ("60",)}, {0: {}}, DefaultLogsSpecs(logs))
    ...     context.start()
    ...     context.wait(timeout=0) is None  # it runs
    ...     context.close()
    True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._processes: dict[int, subprocess.Popen] = {}

    def _start(self, rank, out, err):
        command = [self.entrypoint, *map(str, self.args[rank])]
        launcher = os.getpid()
        self._processes[rank] = subprocess.Popen(
            command, env={**os.environ, **self.envs[rank]}, stdout=out, stderr=err, start_new_session=True,
            preexec_fn=lambda: _end_with_launcher(launcher),
        )  # fmt: skip
        return self._processes[rank].pid

    def _exitcode(self, rank):
        return self._processes[rank].poll()

    def pids(self) -> dict[int, int]:
        return {rank: process.pid for rank, process in self._processes.items()}


def _call(launcher, fn, args, env, out, err, results) -> None:
    """Do what a process that runs a function does."""
    # The process leads a group of its own, which _kill_group ends with all its children.
    os.setsid()
    _end_with_launcher(launcher)
    for fd, target in ((out, 1), (err, 2)):
        if fd is not None:
            os.dup2(fd.detach() if hasattr(fd, "detach") else fd, target)
    os.environ.update(env)
    try:
        value = fn(*args)
    except Exception as error:
        write_exception(error)
        raise
    results.send_bytes(pickle.dumps(value))


class MultiprocessContext(PContext):
    """Manage processes that run a function.

    Args:
        args, kwargs: name, entrypoint, args, envs, logs_specs and log_line_prefixes of a PContext.
        start_method: "spawn", "fork" or "forkserver".

    >>> import tempfile
    >>> from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, MultiprocessContext
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     args, envs = {0: (2, 5), 1: (3, 2)}, {0: {}, 1: {}}
    ...     context = MultiprocessContext("powers", pow, args, envs, DefaultLogsSpecs(logs), start_method="fork")
    ...     context.start()
    ...     context.wait().return_values
    ...     context.close()
    {0: 32, 1: 9}
    """

    def __init__(self, *args: Any, start_method: str = "spawn", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._context = multiprocessing.get_context(start_method)
        self._start_method = start_method
        self._processes: dict[int, Any] = {}
        self._results: dict[int, Any] = {}
        self._values: dict[int, Any] = {}

    def _start(self, rank, out, err):
        reader, writer = self._context.Pipe(duplex=False)
        streams = (fd if fd is None or self._start_method == "fork" else _Descriptor(fd) for fd in (out, err))
        # The parent of a process of the fork server is the server, not this process.
        launcher = 0 if self._start_method == "forkserver" else os.getpid()
        self._processes[rank] = process = self._context.Process(
            target=_call, args=(launcher, self.entrypoint, self.args[rank], self.envs[rank], *streams, writer)
        )
        process.start()
        # As long as this process holds the writing end, the reader would never see the end of the pipe.
        writer.close()
        self._results[rank] = reader
        return process.pid

    def _exitcode(self, rank):
        self._read(rank)
        code = self._processes[rank].exitcode
        if code == 0:
            self._read(rank)
        return code

    def _read(self, rank) -> None:
        """Take the result at once: a process whose result is larger than the pipe ends only then."""
        reader = self._results.get(rank)
        try:
            if reader is not None and reader.poll():
                self._values[rank] = pickle.loads(reader.recv_bytes())
                del self._results[rank]
        except EOFError:
            del self._results[rank]

    def _sleep(self, left, period):
        running = [p.sentinel for rank, p in self._processes.items() if rank not in self._exitcodes]
        multiprocessing.connection.wait([*running, *self._results.values()], left if left is not None else None)

    def _return_values(self):
        return {rank: self._values.get(rank) for rank in range(self.nprocs)}

    def pids(self) -> dict[int, int]:
        return {rank: int(process.pid) for rank, process in self._processes.items() if process.pid}


class _Descriptor:
    """Pass a file descriptor to a process that is started by spawn."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self):
        from multiprocessing.reduction import DupFd

        return _Received, (DupFd(self._fd),)


class _Received:
    def __init__(self, duplicate) -> None:
        self._duplicate = duplicate

    def detach(self) -> int:
        return self._duplicate.detach()


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    logs_specs: LogsSpecs | None = None,
    log_line_prefixes: dict[int, str] | None = None,
    start_method: str = "spawn",
    numa_options: Any = None,
    **rest: Any,
) -> PContext:
    """Start `len(args)` processes; return a PContext.

    Args:
        name: what they are, for messages.
        entrypoint: a command, or a function that can be pickled.
        args: arguments by local rank.
        envs: what is added to the environment, by local rank.
        logs_specs: where output goes. Default: the console.
        log_line_prefixes: what begins lines that go to console and file, by local rank.
        start_method: how processes that run a function are started: spawn, fork or forkserver.
        numa_options: None; NotImplementedError for anything else.
        rest: duplicate_stdout_filters and duplicate_stderr_filters, for `logs_specs` that have none.

    >>> import tempfile
    >>> from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     context = start_processes("fails", "false", {0: ()}, {0: {}}, DefaultLogsSpecs(logs))
    ...     failures = context.wait().failures
    ...     context.close()
    >>> failures[0].exitcode
    1
    """
    if numa_options is not None:
        raise NotImplementedError(f"start_processes: binding to NUMA nodes is not supported, got {numa_options}")
    for filters in ("duplicate_stdout_filters", "duplicate_stderr_filters"):
        if rest.get(filters) and logs_specs is not None and getattr(logs_specs, filters, 1) is None:
            setattr(logs_specs, filters, rest[filters])
    specs = logs_specs or DefaultLogsSpecs()
    context: PContext
    if isinstance(entrypoint, str):
        context = SubprocessContext(name, entrypoint, args, envs, specs, log_line_prefixes)
    else:
        context = MultiprocessContext(name, entrypoint, args, envs, specs, log_line_prefixes, start_method=start_method)
    context.start()
    return context
