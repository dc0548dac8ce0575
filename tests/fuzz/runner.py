"""Runs numbered cases in child processes, so that a crash, a hang or a runaway allocation is seen as one.

A fuzzer is an object with

    case(index) -> str       the text of case `index`: Python, a function of the seed and the index only
    check(text) -> str|None  runs it in this process; what is wrong with what came out, or None
    program(text) -> str     the text as a program of its own, for a file

Workers are forks of the caller, which must not have computed anything yet (threads do not survive a fork). Each writes
the text of its case into shared memory before it runs it: what it died of is read there. A worker that died is replaced
by one that goes on with the next case.

A call that Ctrl-C ends, such as one of 2**62 iterations, is `endless` and no hang.
Hangs are counted in the worker's own processor time, so that a busy machine makes none; a worker that sleeps is given
`PATIENCE` times as long.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import mmap
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HANG_SECONDS = float(os.environ.get("FACULA_FUZZ_HANG_SECONDS", "10"))
PATIENCE = 30
ADDRESS_SPACE = 6 << 30  # of a worker
RESIDENT = 3 << 30  # bytes in use, at their highest
TEXT_BYTES = 1 << 16
KEPT_PER_CAUSE = 3
HEADER = struct.Struct("qqq")  # index of the case, cases done, bytes of its text


@dataclass
class Finding:
    kind: str  # "crash SIGSEGV", "hang", "endless", "memory", "wrong"
    index: int
    text: str
    detail: str
    program: str = ""

    @property
    def cause(self) -> str:
        """What findings that are one defect have in common, roughly."""
        last = self.detail.strip().splitlines()[-1:] or [""]
        words = "".join("#" if c.isdigit() else c for c in last[0])[:60]
        return f"{self.kind} | {_called(self.text)} | {words if self.kind == 'wrong' else ''}"


def _called(text: str) -> str:
    head = text.strip().splitlines()[-1]
    for prefix in ("look(", "same(", "finish("):
        head = head.removeprefix(prefix)
    return head.split("(")[0].strip()


@dataclass
class Summary:
    cases: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)  # by kind
    causes: Counter = field(default_factory=Counter)

    def add(self, later: Summary) -> None:
        """Takes in a round that followed."""
        self.cases, self.seconds = self.cases + later.cases, self.seconds + later.seconds
        self.counts, self.causes = self.counts + later.counts, self.causes + later.causes

    def text(self) -> str:
        kinds = ", ".join(f"{n} x {kind}" for kind, n in sorted(self.counts.items())) or "nothing found"
        return f"{self.cases:,} cases in {self.seconds:.0f} s ({self.cases / max(self.seconds, 1e-9):,.0f} a second): {kinds}"


class Worker:
    """A child process that runs every `step`-th case from `start` on."""

    def __init__(self, fuzzer, start, stop, step, number):
        self.step, self.stop, self.number = step, stop, number
        self.shared = mmap.mmap(-1, HEADER.size + TEXT_BYTES)
        self.shared[: HEADER.size] = HEADER.pack(start, 0, 0)
        self.errors = tempfile.TemporaryFile()
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reader)
            _be_worker(fuzzer, self, writer, start)
        os.close(writer)
        self.seen = (-1, 0.0, time.monotonic())  # a case, the processor time and the time when it was first seen running
        self.interrupted = False

    def state(self):
        index, done, size = HEADER.unpack(self.shared[: HEADER.size])
        text = self.shared[HEADER.size : HEADER.size + size].decode("utf-8", "replace")
        return index, done, text

    def stuck(self) -> bool:
        """Whether the case takes too long and Ctrl-C, which is tried first, does not end it."""
        index, done, _ = self.state()
        (used, runnable), now = _processor_seconds(self.pid), time.monotonic()
        if (index, done) != self.seen[0]:
            self.seen, self.interrupted = ((index, done), used, now), False
        if runnable:  # it does not wait for anything but a processor, which others may have
            self.seen = (*self.seen[:2], max(self.seen[2], now - 0.6 * HANG_SECONDS * PATIENCE))
        if used - self.seen[1] < HANG_SECONDS and now - self.seen[2] < HANG_SECONDS * PATIENCE:
            return False
        if not self.interrupted:
            os.kill(self.pid, signal.SIGINT)
            self.seen, self.interrupted = (self.seen[0], used - 0.6 * HANG_SECONDS, now - 0.6 * HANG_SECONDS * PATIENCE), True
            return False
        return True

    def stack(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")[-6000:]

    def kill(self):
        os.kill(self.pid, signal.SIGABRT)  # faulthandler writes the stack
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            pid, _ = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return
            time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def close(self):
        os.close(self.reader)
        self.errors.close()


def _processor_seconds(pid: int) -> tuple[float, bool]:
    """What a process has used, and whether it is running or could."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0, False
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0] == "R"


def _be_worker(fuzzer, worker: Worker, writer: int, start: int):
    """The life of a child; does not return."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(worker.errors.fileno(), 2)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        sys.stdout = open(os.devnull, "w")
        sys.stderr = open(2, "w", closefd=False)
        faulthandler.enable(file=2)
        if not os.environ.get("FACULA_FUZZ_ADDRESS_SPACE") == "0":  # a sanitizer's shadow memory needs all of it
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(tempfile.mkdtemp(prefix="fuzz"))
        fuzzer.begin(worker.number)
        shared, step, stop = worker.shared, worker.step, worker.stop
        highest, done = 0, 0
        for index in range(start, stop, step):
            text = fuzzer.case(index)
            raw = text.encode()[:TEXT_BYTES]
            shared[HEADER.size : HEADER.size + len(raw)] = raw
            shared[: HEADER.size] = HEADER.pack(index, done, len(raw))
            try:
                problem = fuzzer.check(text)
            except KeyboardInterrupt:
                problem = f"endless, until it was interrupted: {text}"
            if problem is not None:
                _report(writer, Finding("endless" if problem.startswith("endless") else "wrong", index, text, problem))
            done += 1
            if not done & 15:
                resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
                if resident > RESIDENT and not highest:
                    highest = resident
                    _report(writer, Finding("memory", index, text, f"{resident >> 20} MiB in use within the last 16 cases"))
                if not done & 4095:
                    gc.collect()
        shared[: HEADER.size] = HEADER.pack(stop, done, 0)
        os._exit(0)
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
        os._exit(77)


def _report(writer: int, finding: Finding):
    data = pickle.dumps(finding)
    data = struct.pack("I", len(data)) + data
    while data:
        data = data[os.write(writer, data) :]


def _drain(worker: Worker, wait: float):
    found = []
    while select.select([worker.reader], [], [], wait)[0]:
        head = os.read(worker.reader, 4)
        if len(head) < 4:
            break
        size, data = struct.unpack("I", head)[0], b""
        while len(data) < size:
            data += os.read(worker.reader, size - len(data))
        found.append(pickle.loads(data))
        wait = 0
    return found


def run(fuzzer, cases: int, jobs: int = 1, start: int = 0, save: Path | None = None, report=None, patience=None) -> Summary:
    """Runs cases start .. start + cases - 1 on `jobs` workers.

    Every finding is given to `report` as it comes, and the first of each cause are written to the folder `save`.
    """
    begun, summary = time.monotonic(), Summary()
    stop = start + cases
    workers = [Worker(fuzzer, start + i, stop, jobs, i) for i in range(min(jobs, cases))]

    def keep(finding):
        summary.counts[finding.kind] += 1
        summary.causes[finding.cause] += 1
        if summary.causes[finding.cause] > KEPT_PER_CAUSE:
            return
        finding.program = fuzzer.program(finding.text)
        summary.findings.append(finding)
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)
            comment = "".join(f"# {line}\n" for line in [f"{finding.kind}, case {finding.index}", *finding.detail.splitlines()])
            (save / f"{finding.kind.replace(' ', '_')}_{finding.index}.py").write_text(comment + finding.program)
        if report is not None:
            report(finding)

    while workers:
        for worker in list(workers):
            for finding in _drain(worker, 0.1 / len(workers)):
                keep(finding)
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid and not worker.stuck():
                continue
            if not pid:
                index, done, text = worker.state()
                worker.kill()
                keep(Finding("hang", index, text, worker.stack()))
            else:
                for finding in _drain(worker, 0):
                    keep(finding)
                index, done, text = worker.state()
                if status:
                    signal_name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"
                    keep(Finding(f"crash {signal_name}", index, text, worker.stack()))
            workers.remove(worker)
            worker.close()
            following = index + jobs
            if (not pid or status) and following < stop:
                workers.append(Worker(fuzzer, following, stop, jobs, worker.number))
    summary.cases, summary.seconds = cases, time.monotonic() - begun
    return summary


def confirm(finding: Finding, seconds: float = 60.0) -> str:
    """What a process of its own makes of a finding's program: "crash", "hang", "exit N" or "ok"."""
    try:
        result = subprocess.run([sys.executable, "-c", finding.program], capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "hang"
    if result.returncode < 0:
        return f"crash {signal.Signals(-result.returncode).name}"
    return f"exit {result.returncode}" if result.returncode else "ok"


def main(make_fuzzer, description: str, add_arguments=None):
    """The command line that fuzzers share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, help="go on with as many cases again until so much time has passed")
    parser.add_argument("--start", type=int, default=0, help="the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--save", type=Path, help="a folder for programs that show what was found")
    parser.add_argument("--show", type=int, help="print the program of case SHOW and run nothing")
    if add_arguments:
        add_arguments(parser)
    options = parser.parse_args()
    fuzzer = make_fuzzer(options)
    if options.show is not None:
        print(fuzzer.program(fuzzer.case(options.show)))
        return 0

    def report(finding):
        detail = finding.detail.strip().splitlines() or [""]
        shown = detail[-1] if finding.kind in ("wrong", "memory") else " / ".join(detail[:8])
        print(f"{finding.kind} (case {finding.index}): {finding.text[:1500]}\n    {shown[:600]}", flush=True)

    summary = run(fuzzer, options.cases, options.jobs, options.start, options.save, report)
    while options.seconds and summary.seconds < options.seconds:
        summary.add(run(fuzzer, options.cases, options.jobs, options.start + summary.cases, options.save, report))
    print(summary.text())
    return 1 if set(summary.counts) - {"endless"} else 0
