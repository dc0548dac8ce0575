"""Report what ended a process of a job: the process writes a file, and its launcher reads it and prints one summary.

The file is JSON: ``{"message": {"message": "ValueError: ...", "extraInfo": {"py_callstack": ..., "timestamp": ...}}}``.
Any failing process writes one under `python -m facula`; `record` does the same for a function.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_UNSAID = "ended without a Python exception"


class ErrorHandler:
    """Write what ended this process to the file that its launcher has named in TORCHELASTIC_ERROR_FILE.

    >>> import json, os, tempfile
    >>> from pathlib import Path
    >>> from torch.distributed.elastic.multiprocessing import ErrorHandler
    >>> handler = ErrorHandler()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.environ["TORCHELASTIC_ERROR_FILE"] = f"{folder}/error.json"
    ...     handler.record_exception(ValueError("the cause"))
    ...     told = json.loads(Path(f"{folder}/error.json").read_text())
    ...     os.environ["TORCHELASTIC_ERROR_FILE"] = f"{folder}/outer.json"
    ...     handler.dump_error_file(f"{folder}/error.json", error_code=3)
    ...     outer = json.loads(Path(f"{folder}/outer.json").read_text())
    >>> told["message"]["message"], outer["message"]["errorCode"]
    ('ValueError: the cause', 3)
    >>> path = os.environ.pop("TORCHELASTIC_ERROR_FILE")
    """

    def initialize(self) -> None:
        """Make a crash of the interpreter (a signal) print where every thread was.

        >>> from torch.distributed.elastic.multiprocessing import ErrorHandler
        >>> ErrorHandler().initialize()  # doctest: +SKIP
        """
        import faulthandler

        if sys.stderr is not None:
            faulthandler.enable(all_threads=True)

    def record_exception(self, error: BaseException) -> None:
        """Write the exception and its traceback; only the first one of a process is kept.

        Args:
            error: the exception.
        """
        write_exception(error)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Hand on a file of a process of ours as the cause why this process ends, for launchers that start launchers.

        Args:
            rootcause_error_file: the file.
            error_code: the exit code, noted where it is not 0.
        """
        with open(rootcause_error_file) as file:
            content = json.load(file)
        if error_code and isinstance(content.get("message"), dict):
            content["message"]["errorCode"] = error_code
        _write(content)


def get_error_handler() -> ErrorHandler:
    """Return the handler that `record` uses.

    >>> from torch.distributed.elastic.multiprocessing import get_error_handler
    >>> type(get_error_handler()).__name__
    'ErrorHandler'
    """
    return ErrorHandler()


def write_exception(error: BaseException) -> None:
    """Write the exception to the error file of the environment, if it names one that is not written yet."""
    from facula.distributed import DistError

    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    extra = {
        "py_callstack": text,
        "timestamp": str(int(time.time())),
        "precise_timestamp": time.time(),
        "consequence": isinstance(error, DistError),  # another process failed first, this one waited for it
    }
    _write({"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}})


def _write(content: dict) -> None:
    path = os.environ.get(ERROR_FILE)
    # The first failure is the cause; later ones often follow from it.
    if not path or os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    partial = f"{path}.{os.getpid()}"
    with open(partial, "w") as file:
        json.dump(content, file)
    # The launcher never sees a file that is written in part.
    os.replace(partial, path)


def record(fn: Callable[..., Any] | None = None, error_handler: ErrorHandler | None = None) -> Any:
    """Decorate the main function of a program: an exception that leaves it is written for the launcher, then goes on.

    Args:
        fn: the function; without it, a decorator is returned.
        error_handler: writes. Default: an ErrorHandler.

    >>> from torch.distributed.elastic.multiprocessing import ErrorHandler, record
    >>> class Quiet(ErrorHandler):
    ...     def initialize(self):
    ...         pass
    >>> @record(error_handler=Quiet())
    ... def main():
    ...     return "done"
    >>> main()
    'done'
    """
    handler = error_handler or get_error_handler()

    def wrap(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            handler.initialize()
            try:
                return f(*args, **kwargs)
            except SystemExit as error:
                if error.code not in (None, 0):
                    handler.record_exception(error)
                raise
            except ChildFailedError as error:
                _, failure = error.get_first_failure()
                if os.path.exists(failure.error_file):
                    handler.dump_error_file(failure.error_file, failure.exitcode)
                raise
            except Exception as error:
                handler.record_exception(error)
                raise

        return wrapper

    return wrap if fn is None else wrap(fn)


@dataclass
class ProcessFailure:
    """Describe how one process failed, from the file that the process wrote.

    Args:
        local_rank: its number on this machine.
        pid: its process id.
        exitcode: its exit code, negative for a signal.
        error_file: where it wrote what happened; it may have written nothing.

    >>> from dataclasses import asdict
    >>> from torch.distributed.elastic.multiprocessing import ProcessFailure
    >>> failure = ProcessFailure(local_rank=0, pid=4711, exitcode=-15, error_file="")
    >>> failure.signal_name(), failure.message
    ('SIGTERM', 'signal 15 (SIGTERM) ended process 4711')
    >>> ProcessFailure.told(asdict(failure)).pid, len(failure.timestamp_isoformat())
    (4711, 19)
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: Any = field(init=False)
    message: str = field(init=False)
    timestamp: float = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data, self.timestamp = {}, time.time()
        try:
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
        except (OSError, ValueError):
            pass  # nothing was written: the process was killed, or is no Python
        said = self.error_file_data.get("message") if isinstance(self.error_file_data, dict) else None
        self._extra = said.get("extraInfo", {}) if isinstance(said, dict) else {}
        self.message = self._what(said)
        when = self._extra.get("precise_timestamp", self._extra.get("timestamp", self.timestamp))
        try:
            self.timestamp = float(when)
        except (TypeError, ValueError):
            pass  # a time that another program wrote in words

    def _what(self, said) -> str:
        if isinstance(said, dict):
            return str(said.get("message", said))
        if said is not None:
            return str(said)
        if self.exitcode < 0:
            return f"signal {-self.exitcode} ({self.signal_name()}) ended process {self.pid}{_why(-self.exitcode)}"
        return f"{_UNSAID}, exit code {self.exitcode}"

    @classmethod
    def told(cls, fields: dict[Any, Any]) -> ProcessFailure:
        """Return a failure on another machine.

        Args:
            fields: the fields that it sent, a dict.
        """
        failure = cls(fields["local_rank"], fields["pid"], fields["exitcode"], "")
        failure.error_file_data, failure.message = fields["error_file_data"], fields["message"]
        failure.timestamp = fields["timestamp"]
        said = failure.error_file_data.get("message") if isinstance(failure.error_file_data, dict) else None
        failure._extra = said.get("extraInfo", {}) if isinstance(said, dict) else {}
        return failure

    @property
    def traceback(self) -> str:
        """The traceback as text; empty when the process left none."""
        return str(self._extra.get("py_callstack", "")).rstrip()

    @property
    def is_consequence(self) -> bool:
        """Whether the process failed because another one had failed before."""
        return bool(self._extra.get("consequence", False)) or self.exitcode == -signal.SIGTERM

    def signal_name(self) -> str:
        """Return the name of the signal that ended it, or "<N/A>"."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"
        except ValueError:
            return "<Unknown>"

    def timestamp_isoformat(self) -> str:
        """Return when it failed, as ISO 8601 in local time."""
        return datetime.datetime.fromtimestamp(self.timestamp).isoformat(sep="_", timespec="seconds")


def _why(number: int) -> str:
    if number == signal.SIGKILL:
        return ": somebody killed it, or the machine ran out of memory"
    if number == signal.SIGBUS:
        return ": often /dev/shm is full"
    return ""


class ChildFailedError(Exception):
    """Report that processes of a job failed. The text has the first failure in full and a line for each of the others.

    Args:
        name: what was started.
        failures: how each process failed, by global rank; not empty (else ValueError).

    >>> from torch.distributed.elastic.multiprocessing import ChildFailedError, ProcessFailure
    >>> error = ChildFailedError("train.py", {3: ProcessFailure(1, 4711, 1, "")})
    >>> rank, failure = error.get_first_failure()
    >>> rank, failure.pid
    (3, 4711)
    >>> print(error.format_msg().splitlines()[3])
    ended without a Python exception, exit code 1
    """

    name: str
    failures: dict[int, ProcessFailure]

    def __init__(self, name: str, failures: dict[int, ProcessFailure]):
        if not failures:
            raise ValueError("ChildFailedError: failures must name a failed process, got none")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.failures)

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return (rank, failure) of the process that failed first, before those that failed because of it."""
        return min(self.failures.items(), key=lambda item: (item[1].is_consequence, item[1].timestamp, item[0]))

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """Return the summary.

        Args:
            boarder_delim: the character of the lines above and below.
            section_delim: the character of lines between parts.
        """
        rank, first = self.get_first_failure()
        lines = [
            f"{self.name} failed on {socket.gethostname()}: rank {rank} (local rank {first.local_rank}, pid {first.pid}, "
            f"exit code {first.exitcode}) was first, at {first.timestamp_isoformat()}",
            section_delim * 60,
            first.traceback or first.message,
        ]
        others = sorted((r, f) for r, f in self.failures.items() if r != rank)
        if others:
            lines.append(section_delim * 60)
            lines += [f"then rank {r} (pid {f.pid}, exit code {f.exitcode}): {f.message.splitlines()[0]}" for r, f in others]
        frame = boarder_delim * 60
        return "\n".join([frame, *lines, frame])
