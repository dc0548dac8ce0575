"""Start several processes on one function and wait for them; the failure of one is reported in the parent."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

#: Set to "1" to start processes in parallel (only start methods spawn and forkserver).
ENV_VAR_PARALLEL_START = "FACULA_MP_PARALLEL_START"


#: What a pipe takes without a reader, for the parent waits for the end of the process first.
_LONGEST_REPORT = 60_000


class ProcessException(Exception):
    """Report that a started process failed.

    Args:
        message: what happened.
        error_index: which process, counted from 0.
        pid: its process id.
    """

    msg: str
    error_index: int
    pid: int

    def __init__(self, message: str, error_index: int, pid: int) -> None:
        super().__init__(message)
        self.msg, self.error_index, self.pid = message, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """Report that the function raised an error; the message has the traceback of the process.

    Args:
        message: what happened.
        error_index: which process, counted from 0.
        pid: its process id.
    """


class ProcessExitedException(ProcessException):
    """Report that the process ended by a signal or with an exit code other than 0.

    Args:
        message: what happened.
        error_index: which process, counted from 0.
        error_pid: its process id.
        exit_code: that of the process; the negative number of a signal.
        signal_name: of a signal, for example "SIGKILL".
    """

    exit_code: int
    signal_name: str | None

    def __init__(self, message: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None) -> None:
        super().__init__(message, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn, index, args, failures):
    """Execute, in each process, `fn(index, *args)`; its failure is written to the pipe `failures`."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted as well and ends the others
    except Exception as error:
        sys.last_value = error  # as after any program; a process group tells the others
        failures.send_bytes(traceback.format_exc().encode("utf-8", "replace")[-_LONGEST_REPORT:])
        sys.exit(1)


class ProcessContext:
    """Hold the processes of one `start_processes` call, and for each a pipe that carries the text of its failure.

    Args:
        processes: the Process objects, started.
        failures: the reading ends of the pipes.

    >>> context = torch.multiprocessing.start_processes(print, nprocs=0, join=False, start_method="fork")
    >>> context.pids(), context.join()
    ([], True)
    """

    def __init__(self, processes: Sequence[Any], failures: Sequence[Any]) -> None:
        self.processes = processes
        self._failures = failures
        self.sentinels: dict[Any, int] = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the process ids, in order."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: Any = None) -> bool:
        """Wait for one or more processes to end.

        Args:
            timeout: seconds to wait; None waits until a process ends.
            grace_period: seconds that the others get to end by themselves after one has failed.
        Returns:
            True once all have ended well, False when some still run.
        Raises:
            ProcessRaisedException, ProcessExitedException: one failed; the others have been ended.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)
            # The exit code is known only after a join, though the sentinel is ready.
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._end_others(grace_period)
        self._report(failed)

    def _end_others(self, grace_period):
        if grace_period:
            deadline = time.monotonic() + grace_period
            for process in self.processes:
                process.join(max(0, deadline - time.monotonic()))
        for end in (multiprocessing.process.BaseProcess.terminate, multiprocessing.process.BaseProcess.kill):
            for process in self.processes:
                if process.is_alive():
                    end(process)
            for process in self.processes:
                process.join(30 if end is multiprocessing.process.BaseProcess.terminate else None)

    def _report(self, index):
        process, failures = self.processes[index], self._failures[index]
        text = _text_of(failures) if process.exitcode == 1 else ""
        if text:
            raise ProcessRaisedException(
                f"spawn: process {index} raised this exception:\n\n{text}", index, process.pid
            )
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            raise ProcessExitedException(
                f"spawn: process {index} ended by signal {name}", index, process.pid, process.exitcode, name
            )
        raise ProcessExitedException(
            f"spawn: process {index} ended with exit code {process.exitcode}",
            index,
            process.pid,
            process.exitcode,
        )


def _text_of(failures):
    """Return what a process wrote into its pipe; nothing where it ended without an exception (sys.exit(1), os._exit(1))."""
    try:
        return failures.recv_bytes().decode("utf-8", "replace") if failures.poll() else ""
    except EOFError:
        return ""


class SpawnContext(ProcessContext):
    """Hold the processes of start method "spawn", for programs that name this class.

    Args:
        processes: the Process objects, started.
        failures: the reading ends of the pipes.

    >>> torch.multiprocessing.spawn(print, nprocs=0, join=False).join()
    True
    """


def start_processes(fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
                    start_method: str = "spawn") -> Any:  # fmt: skip
    """Run `fn(i, *args)` in `nprocs` processes, i counting from 0.

    Args:
        fn: a function that the start method can hand over: for "spawn" one of a module.
        args: a tuple.
        nprocs: how many processes.
        join: waits until all have ended; when one fails, the others are ended.
        daemon: ends the processes with this one.
        start_method: "spawn", "fork" or "forkserver".

    Returns:
        None once all have ended when `join`, else a ProcessContext.

    Raises:
        ProcessRaisedException, ProcessExitedException: one failed, with `join`.

    >>> import operator
    >>> torch.multiprocessing.start_processes(operator.add, args=(1,), nprocs=1)
    """
    context = multiprocessing.get_context(start_method)
    processes, failures = [], []
    for index in range(nprocs):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, writer), daemon=daemon)
        process.start()
        writer.close()
        processes.append(process)
        failures.append(reader)
    started = (SpawnContext if start_method == "spawn" else ProcessContext)(processes, failures)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
          start_method: str = "spawn") -> Any:  # fmt: skip
    """Run `fn(i, *args)` in `nprocs` processes of the start method "spawn", the only one that is safe after threads have
    started.

    Args:
        fn: a function of a module that the processes can import.
        args: a tuple.
        nprocs: how many processes.
        join: waits until all have ended; when one fails, the others are ended.
        daemon: ends the processes with this one.
        start_method: must be "spawn"; anything else is ignored, with a UserWarning.

    Returns: None once all have ended when `join`, else a SpawnContext. A program guards the call by `if __name__ ==
    "__main__"`, for the processes import its file.

    >>> torch.multiprocessing.spawn(print, args=("example",), nprocs=0)
    """
    if start_method != "spawn":
        warnings.warn(
            f"spawn: start_method={start_method!r} is ignored; use start_processes for it", stacklevel=2
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
