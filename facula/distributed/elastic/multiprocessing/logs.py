"""Direct the output of a job's processes to the console, to files, or to both with a prefix on every line."""

from __future__ import annotations

import abc
import os
import re
import selectors
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "Pump", "Std", "to_map"]


class Std(IntFlag):
    """Name streams of a process: NONE, OUT, ERR or ALL.

    >>> from torch.distributed.elastic.multiprocessing import Std
    >>> Std.from_str("3") == Std.OUT | Std.ERR == Std.ALL, Std.from_str("0:1,1:2")[1] == Std.ERR
    (True, True)
    """

    NONE, OUT, ERR, ALL = 0, 1, 2, 3

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """Read a choice: `"3"` for all processes, `"0:1,1:2"` by local rank.

        Args:
            vm: the text. ValueError for anything else.

        Returns: a Std, or a dict of them by local rank.
        """
        if re.fullmatch("[0-3]", vm):
            return cls(int(vm))
        if re.fullmatch("[0-9]+:[0-3](,[0-9]+:[0-3])*", vm):
            return {int(rank): cls(int(std)) for rank, std in (part.split(":") for part in vm.split(","))}
        raise ValueError(f"Std: expected 0 to 3, or a list such as 0:1,1:2 by local rank, got {vm!r}")


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """Return what is chosen for every local rank.

    Args:
        val_or_map: a Std for all, or by local rank; those that are not named get NONE.
        local_world_size: how many there are.

    >>> from torch.distributed.elastic.multiprocessing import Std, to_map
    >>> [int(std) for std in to_map({0: Std.ERR}, 2).values()]
    [2, 0]
    """
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """Hold the files of each local rank; the name is empty where a stream goes only to the console.

    Args:
        stdouts, stderrs: files of the streams.
        tee_stdouts, tee_stderrs: those of them that go to the console as well.
        error_files: where processes write what ended them.
        filtered_stdout, filtered_stderr: files of the lines that the filters select.

    >>> from torch.distributed.elastic.multiprocessing import LogsDest
    >>> LogsDest(stdouts={0: "out.log"}).stderrs
    {}
    """

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(abc.ABC):
    """Decide, for each attempt, where output goes. Derive from it for other places, and define `reify` and
    `root_log_dir`.

    Args:
        log_dir: the folder of all logs. Default: a temporary one.
        redirects: streams that go to files instead of the console.
        tee: streams that go to both.
        local_ranks_filter: the only local ranks that are shown on the console. Default: all.

    >>> from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs
    >>> class Nowhere(LogsSpecs):
    ...     root_log_dir = None
    ...     def reify(self, envs):
    ...         none = dict.fromkeys(envs, "")
    ...         return LogsDest(none, none, none, none, none)
    >>> Nowhere().reify({0: {}}).stdouts
    {0: ''}
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @abc.abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return the files for the processes of an attempt, a LogsDest.

        Args:
            envs: their environments, by local rank.
        """

    @property
    @abc.abstractmethod
    def root_log_dir(self) -> str | None:
        """The folder of all logs."""


class DefaultLogsSpecs(LogsSpecs):
    """Write to ``<log_dir>/<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}``.

    Args:
        log_dir: the folder of all logs. Default: a temporary one.
        redirects: streams that go to files instead of the console, a Std or one by local rank.
        tee: streams that go to both.
        local_ranks_filter: the only local ranks that are shown on the console. Default: all.
        duplicate_stdout_filters, duplicate_stderr_filters: lines with one of these texts go to a file of their own.

    >>> import os, tempfile
    >>> from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     made = DefaultLogsSpecs(logs, redirects=Std.OUT).reify({0: {}, 1: {}})
    >>> os.path.basename(made.stdouts[1]), made.stderrs
    ('stdout.log', {0: '', 1: ''})
    """

    duplicate_stdout_filters: Any
    duplicate_stderr_filters: Any

    def __init__(self, log_dir: str | PathLike[str] | None = None, redirects: Any = Std.NONE, tee: Any = Std.NONE,
                 local_ranks_filter: Any = None, duplicate_stdout_filters: Any = None,
                 duplicate_stderr_filters: Any = None) -> None:  # fmt: skip
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self.duplicate_stdout_filters, self.duplicate_stderr_filters = duplicate_stdout_filters, duplicate_stderr_filters
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str | None:
        return self._root_log_dir

    def _run_dir(self, run_id: str) -> str:
        if self._run_log_dir is None:
            if self._root_log_dir:
                os.makedirs(self._root_log_dir, exist_ok=True)
            # The id of a run is any text, and becomes the name of a folder.
            safe = re.sub(r"[^\w.-]", "_", run_id)
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{safe}_", dir=self._root_log_dir)
        return self._run_log_dir

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        first = next(iter(envs.values()))
        attempt = os.path.join(
            self._run_dir(first.get("TORCHELASTIC_RUN_ID", "run")), f"attempt_{first.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        )
        folder, count = attempt, 0
        while os.path.exists(folder):  # a membership that changed begins another attempt of the same number
            count += 1
            folder = f"{attempt}.{count}"
        redirects, tee = to_map(self._redirects, len(envs)), to_map(self._tee, len(envs))
        dest = LogsDest()
        for rank in envs:
            here = os.path.join(folder, str(rank))
            os.makedirs(here)
            dest.error_files[rank] = os.path.join(here, "error.json")
            hidden = self._local_ranks_filter is not None and rank not in self._local_ranks_filter
            both = redirects[rank] | tee[rank] | (Std.ALL if hidden else Std.NONE)
            dest.stdouts[rank] = os.path.join(here, "stdout.log") if Std.OUT in both else ""
            dest.stderrs[rank] = os.path.join(here, "stderr.log") if Std.ERR in both else ""
            dest.tee_stdouts[rank] = dest.stdouts[rank] if Std.OUT in tee[rank] and not hidden else ""
            dest.tee_stderrs[rank] = dest.stderrs[rank] if Std.ERR in tee[rank] and not hidden else ""
        if self.duplicate_stdout_filters:
            dest.filtered_stdout = os.path.join(folder, "filtered_stdout.log")
        if self.duplicate_stderr_filters:
            dest.filtered_stderr = os.path.join(folder, "filtered_stderr.log")
        return dest

    def __repr__(self) -> str:
        return f"DefaultLogsSpecs(root_log_dir={self._root_log_dir}, redirects={self._redirects}, tee={self._tee})"


class Pump:
    r"""Copy lines from the pipes of processes to their files and to the console, in a thread of its own.

    >>> import io, os
    >>> from torch.distributed.elastic.multiprocessing.logs import Pump
    >>> pump, console = Pump(), io.StringIO()
    >>> writer = pump.add(path="", console=console, prefix="[rank 0]: ")
    >>> pump.start()
    >>> os.write(writer, b"hello\n")
    6
    >>> os.close(writer)
    >>> pump.finish(5)
    >>> console.getvalue()
    '[rank 0]: hello\n'
    """

    def __init__(self) -> None:
        self._selector, self._sinks = selectors.DefaultSelector(), []
        self._thread: threading.Thread | None = None

    def add(self, path: str, console: Any, prefix: str, filtered: str = "", filters: Any = ()) -> int:
        """Return a descriptor for a process to write to; close it here once the process has it.

        Args:
            path: the file that gets everything; none when empty.
            console: the stream that gets every line with the prefix, or None.
            prefix: what begins lines there.
            filtered: the file that gets the lines with one of the texts `filters`.
            filters: the texts.
        """
        reader, writer = os.pipe()
        sink = _Sink(path, console, prefix, filtered, filters)
        self._sinks.append(sink)
        self._selector.register(reader, selectors.EVENT_READ, sink)
        return writer

    def start(self) -> None:
        """Begin to carry, if there is anything to."""
        if self._sinks and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="facula logs", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._selector.get_map():
            for key, _ in self._selector.select():
                data = os.read(key.fd, 1 << 16)
                if data:
                    key.data.take(data)
                else:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
                    key.data.close()

    def finish(self, seconds: float) -> None:
        """Wait for the ends of the pipes: processes that a worker has left behind may hold them open.

        Args:
            seconds: how long.
        """
        if self._thread is not None:
            self._thread.join(seconds)


class _Sink:
    def __init__(self, path, console, prefix, filtered, filters) -> None:
        self._file = open(path, "ab", buffering=0) if path else None
        self._filtered = open(filtered, "ab", buffering=0) if filtered else None
        self._filters = [text.encode() for text in filters or ()]
        self._console, self._prefix, self._rest = console, prefix.encode(), b""

    def take(self, data: bytes) -> None:
        if self._file:
            self._file.write(data)
        lines = (self._rest + data).split(b"\n")
        # The last piece is not a whole line yet. Lines are printed whole, so that those of different processes do not
        # mix.
        self._rest = lines.pop()
        self._show(lines)

    def _show(self, lines: list[bytes]) -> None:
        if self._filtered:
            for line in lines:
                if any(text in line for text in self._filters):
                    self._filtered.write(line + b"\n")
        if self._console is not None and lines:
            text = b"".join(self._prefix + line + b"\n" for line in lines)
            try:
                self._console.write(text.decode("utf-8", "replace"))
                self._console.flush()
            except (OSError, ValueError):
                self._console = None  # nobody reads the console any more; the files go on

    def close(self) -> None:
        if self._rest:
            self._show([self._rest])
        for file in (self._file, self._filtered):
            if file:
                file.close()


def console_of(stream: Std) -> Any:
    """Return the launcher's own stream."""
    return sys.stdout if stream == Std.OUT else sys.stderr
