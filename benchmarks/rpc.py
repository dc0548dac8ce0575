"""Measure remote calls between two processes of this machine, by Facula and by PyTorch, by turns.

    python -m benchmarks.rpc --rounds 5 --python PYTHON_WITH_TORCH

Each library is asked in turn, in processes of its own; the table has the medians over the rounds, in microseconds a call.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

WORKER = """
import json, os, sys, time
import {library} as lib
import {library}.distributed.rpc as rpc
import {library}.distributed.autograd as dist_autograd
lib.set_num_threads(1)
rank = int(os.environ["RANK"])

def same(x):
    return x

def scale(x):
    return x * weight

weight = lib.full((100,), 2.0, requires_grad=True)
rpc.init_rpc(f"worker{{rank}}", rank=rank, world_size=2)

def through():
    with dist_autograd.context() as context:
        y = rpc.rpc_sync("worker1", scale, (start,))
        dist_autograd.backward(context, [y.sum()])

def hundred():
    for future in [rpc.rpc_async("worker1", same, (1,)) for _ in range(100)]:
        future.wait()

if rank == 0:
    small, large, start = lib.ones(2), lib.ones(1 << 20), lib.ones(100, requires_grad=True)
    value = rpc.remote("worker1", same, (small,))
    calls = {{
        "rpc_sync of add, 8 bytes": (lambda: rpc.rpc_sync("worker1", lib.add, (small, 1)), 1000),
        "rpc_sync of a function, 8 bytes": (lambda: rpc.rpc_sync("worker1", same, (small,)), 1000),
        "rpc_sync of add, 4 MB both ways": (lambda: rpc.rpc_sync("worker1", lib.add, (large, 1)), 40),
        "100 rpc_async, then their results": (hundred, 20),
        "to_here, 8 bytes": (value.to_here, 500),
        "rpc_sync and backward through it": (through, 200),
    }}
    for name, (call, repeats) in calls.items():
        for _ in range(5):
            call()
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        print(json.dumps([name, (time.perf_counter() - begin) / repeats]), flush=True)
rpc.shutdown()
"""


def one_round(library, python):
    """Return {what: seconds} of one library."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [python, "-W", "ignore", "-c", WORKER.format(library=library)]
    ranks = [
        subprocess.Popen(command, env={**common, "RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for r in range(2)
    ]
    outputs = [rank.communicate(timeout=600) for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{library}: {outputs[0][1][-2000:]}")
    return dict(json.loads(line) for line in outputs[0][0].splitlines() if line.startswith("["))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    libraries = {"torch": options.python, "facula": sys.executable}
    found = {library: [] for library in libraries}
    for _ in range(options.rounds):
        for library, python in libraries.items():
            found[library].append(one_round(library, python))
    print(f"{'':40} {'PyTorch':>10} {'Facula':>10} {'ratio':>7}")
    for what in found["facula"][0]:
        theirs, ours = (statistics.median(r[what] for r in found[library]) * 1e6 for library in ("torch", "facula"))
        print(f"{what:40} {theirs:10.0f} {ours:10.0f} {theirs / ours:7.2f}")


if __name__ == "__main__":
    main()
