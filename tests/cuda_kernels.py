"""Programs on the emulated device whose kernels are compiled ahead: many in one program, which takes a sixth of the time of one by one.

A first run, on a driver that does nothing (FACULA_CUDA=null), lists the kernels that the program would launch.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cuda_environment import cache_folder, environment

import facula

TOGETHER = 60
ARCHITECTURE = 90  # of the emulated device


def listed(command, **more):
    """The kernels that a program would launch, as far as it gets with memory that nothing is written to: (source, expression, sizes, threads)."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "kernels.jsonl"
        null = {"FACULA_CUDA": "null", "FACULA_CUDA_LOG_KERNELS": str(log), "FACULA_CACHE_DIR": folder, **more}
        done = subprocess.run(command, env=environment(**null), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-300:] + done.stderr[-3000:]
        lines = log.read_text().splitlines() if log.exists() else []
    return sorted({(source, expression, tuple(sizes), threads) for source, expression, sizes, threads in map(json.loads, lines)})


def keep(command, **more):
    """Puts the kernels of a program into the disk cache; those that do not compile are left to the program itself."""
    kernels = [kernel[:2] for kernel in listed(command, **more)]
    pieces = [kernels[at : at + TOGETHER] for at in range(0, len(kernels), TOGETHER)]
    subprocess.run([sys.executable, __file__], input=json.dumps(pieces), env=environment(), check=True, text=True)


def keep_piece(kernels):
    name = hashlib.sha256(repr(kernels).encode()).hexdigest()[:16]
    try:
        facula._C._cuda_keep_together(kernels, ARCHITECTURE, str(Path(cache_folder()).resolve() / "together" / f"{name}.so"))
    except RuntimeError:
        if len(kernels) > 1:
            keep_piece(kernels[::2])
            keep_piece(kernels[1::2])


def run(command, **more):
    """The finished process of a program on a device, whose kernels were compiled before where the device is the emulated one."""
    if not facula.cuda.is_available():
        keep(command, **more)
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True)


class Topics:
    """Runs a worker with the ops of each topic, two topics at a time: of all tests of the module, when the first of them asks, or
    before that, beside tests of other modules (see conftest.py)."""

    # of all workers; beside other processes that run tests they have a processor each
    pool = ThreadPoolExecutor(min(1 if "PYTEST_XDIST_WORKER" in os.environ else 2, os.cpu_count() or 1))

    def __init__(self, worker, ops):
        self.worker, self.ops, self.futures = str(worker), list(ops), {}

    def report(self, op, request):
        """What the worker printed about an op."""
        self.start(request.session, request.module)
        return self.futures[op.topic].result()[op.id]

    def start(self, session, module):
        if self.futures:
            return
        asked = {item.callspec.params["op"].id for item in session.items if item.module is module and hasattr(item, "callspec")}
        for topic in dict.fromkeys(op.topic for op in self.ops if op.id in asked):
            ids = [op.id for op in self.ops if op.topic == topic and op.id in asked]
            self.futures[topic] = self.pool.submit(self.run, ids)

    def run(self, ids):
        done = run([sys.executable, self.worker, *ids], FACULA_TEST_DEVICE="cuda")
        assert done.returncode == 0, done.stdout[-300:] + done.stderr[-3000:]
        return {report["id"]: report for line in done.stdout.splitlines() if line.startswith("{") for report in [json.loads(line)]}


def main():
    for piece in json.load(sys.stdin):
        keep_piece([tuple(kernel) for kernel in piece])


if __name__ == "__main__":
    main()
