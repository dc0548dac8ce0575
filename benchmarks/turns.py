"""Run workers in processes of their own, which answer JSON lines and are called by turns: a busy machine is busy for both."""

from __future__ import annotations

import json
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager


class Failed(Exception):
    pass


class Process:
    """Hold a worker and send it commands. `first` is its message when it is ready; `quiet` saves its errors for the
    message.
    """

    def __init__(self, command: list[str], limit: float, quiet: bool = False) -> None:
        self.limit = limit
        self.errors = tempfile.TemporaryFile("w+") if quiet else None
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.first = self.read()

    def read(self) -> dict:
        if not select.select([self.process.stdout], [], [], self.limit)[0]:
            raise Failed(f"no answer within {self.limit:g} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"ended with status {self.process.wait()}{self.last_error()}")
        return json.loads(line)

    def last_error(self) -> str:
        """Return the exception that ended a process whose errors are not shown."""
        if not self.errors:
            return ""
        self.errors.seek(0)
        named = [line.strip() for line in self.errors if re.match(r"[\w.]*(Error|Exception|Unsupported)\b", line)]
        return f": {named[-1][:200]}" if named else ""

    def ask(self, **what) -> dict:
        print(json.dumps(what), file=self.process.stdin, flush=True)
        return self.read()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def by_turns(workers: dict[str, Process], rounds: int, **what) -> dict[str, dict[str, float]]:
    """Ask all workers the same so many times; return the medians of what each answers, and its least seconds."""
    turns = {framework: [] for framework in workers}
    for _ in range(rounds):
        for framework, worker in workers.items():
            turns[framework].append(worker.ask(**what))
            time.sleep(0.01)  # threads that wait by spinning have stopped
    result = {}
    for framework, measured in turns.items():
        result[framework] = {key: statistics.median(turn[key] for turn in measured) for key in measured[0]}
        result[framework]["least"] = min(turn["seconds"] for turn in measured)
    return result


@contextmanager
def busy(threads: int):
    """Keep so many processors busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(threads)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def slowdowns(row: dict) -> str:
    """Say how many times as long both took on the busy machine, where that was measured."""
    if "busy" not in row:
        return ""
    ours, theirs = (
        row["busy"][framework]["seconds"] / row["measured"][framework]["seconds"] for framework in ("facula", "torch")
    )
    return f"  busy: {ours:.2f} and {theirs:.2f} times as long"
