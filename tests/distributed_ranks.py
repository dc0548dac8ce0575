"""Starts the ranks of a program, for tests: children of this process, with a deadline."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

import facula.distributed as dist

needs_mpi = pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library with the standard ABI (pip install mpich)")

HEAD = """
import os, sys, time
from datetime import timedelta
import facula
import facula.distributed as dist
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
def raised(call, *parts):
    try:
        call()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        assert all(str(part) in text for part in parts), text
        return text
    raise AssertionError(f"nothing was raised, expected {parts}")
# what ranks that wait in await_signs are told: that this one has come so far
def sign(name):
    os.close(os.open(sign_of(name, RANK), os.O_CREAT))
def sign_of(name, rank):
    return f"{os.environ['FACULA_TEST_SIGNS']}/{name}{rank}"
def wait_until(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not so after {seconds} s"
        time.sleep(0.01)
def await_signs(name, *ranks):
    wait_until(lambda: all(os.path.exists(sign_of(name, rank)) for rank in ranks))
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Ranks:
    """Running ranks; what they print is read when they have ended."""

    def __init__(self, code, size, arguments=(), **environment):
        port, self.signs = str(free_port()), tempfile.TemporaryDirectory()
        common = {**os.environ, "FACULA_TEST_SIGNS": self.signs.name, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **environment}
        command = [sys.executable, "-c", HEAD + code, *arguments]
        self.processes = [
            subprocess.Popen(command, env={**common, "RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for r in range(size)
        ]

    def signal(self, rank, number):
        self.processes[rank].send_signal(number)

    def ends(self, timeout=120):
        """[(exit status, output, errors)], by rank."""
        until = time.monotonic() + timeout
        results = []
        for process in self.processes:
            try:
                out, err = process.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill()
                out, err = process.communicate()
                err += "\n(the test killed it: it did not end in time)"
            results.append((process.returncode, out, err))
        self.signs.cleanup()
        return results

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


def run_ranks(code, size, **options):
    """What the ranks print, all of which must end well."""
    results = Ranks(code, size, **options).ends()
    for rank, (status, out, err) in enumerate(results):
        assert status == 0, f"rank {rank} ended with {status}\n{out}\n{err}\nothers: {[e[-300:] for _, _, e in results]}"
    return [out for _, out, _ in results]
