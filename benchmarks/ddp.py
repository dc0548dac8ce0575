"""Measure what DistributedDataParallel adds to a step, and a launcher to a job: Facula and PyTorch with gloo, by turns,
2 ranks.

    python -m benchmarks.ddp --rounds 5

Each library runs in processes of its own. A step is forward, backward and SGD; its cost is the time of a step with
DistributedDataParallel minus the time of the same step in one of the processes alone, both as medians within a round. The
launcher's job makes a group, waits at a barrier and leaves. `--python` names an interpreter that has PyTorch.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = {"8-32-1": (32, 300), "40 x Linear(64, 64)": (64, 60), "MLP 784-512-512-10": (128, 30), "1024-4096-4096-1024": (64, 3)}

WORKER = """
import json, statistics, sys, time
import {library} as lib
import {library}.distributed as dist
from {library} import nn
from {library}.nn.parallel import DistributedDataParallel as DDP
lib.set_num_threads(1)
dist.init_process_group("gloo")

def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])

MODELS = {{
    "8-32-1": lambda: mlp(8, 32, 1), "40 x Linear(64, 64)": lambda: mlp(*[64] * 41),
    "MLP 784-512-512-10": lambda: mlp(784, 512, 512, 10), "1024-4096-4096-1024": lambda: mlp(1024, 4096, 4096, 1024),
}}

def steps(model, x, count):
    optimizer = lib.optim.SGD(model.parameters(), lr=1e-4)
    times = []
    for i in range(count + 3):
        start = time.perf_counter()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if i >= 3:
            times.append(time.perf_counter() - start)
    return statistics.median(times)

for name, (batch, count) in json.loads(sys.argv[1]).items():
    net = MODELS[name]()
    x = lib.randn(batch, next(net.parameters()).shape[1])
    dist.barrier()
    alone = steps(net, x, count)
    dist.barrier()
    many = steps(DDP(net), x, count)
    if dist.get_rank() == 0:
        print(json.dumps([name, alone, many]), flush=True)
dist.destroy_process_group()
"""

JOB = "import torch.distributed as dist\ndist.init_process_group('gloo')\ndist.barrier()\ndist.destroy_process_group()\n"


def one_round(library, python, models, ranks):
    """Return {model: (seconds alone, seconds with DistributedDataParallel)} of one library."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common = {**os.environ, **place, "OMP_NUM_THREADS": "1"}
    command = [python, "-c", WORKER.format(library=library), json.dumps(models)]
    processes = [
        subprocess.Popen(command, env={**common, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True) for rank in range(ranks)
    ]
    output = [process.communicate()[0] for process in processes][0]
    return {name: (alone, many) for name, alone, many in map(json.loads, output.splitlines())}


def job(module, python):
    """Return the seconds that a trivial job of two ranks takes."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/job.py", "w") as file:
            file.write(JOB)
        start = time.perf_counter()
        command = [python, "-m", module, "--standalone", "--nproc-per-node", "2", f"{folder}/job.py"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", default="", help="only models whose name has this text")
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    models = {name: value for name, value in MODELS.items() if args.only in name}
    found: dict = {"facula": [], "torch": []}
    jobs: dict = {"facula": [], "torch": []}
    for _ in range(args.rounds):
        for library, python in (("facula", sys.executable), ("torch", args.python)):
            found[library].append(one_round(library, python, models, args.ranks))
            jobs[library].append(job(f"{library}.distributed.run", python))
    median = statistics.median
    print(f"{args.ranks} ranks, 1 thread each, medians of {args.rounds} rounds by turns, ms")
    print("| model | step alone, Facula / PyTorch | cost of DistributedDataParallel, Facula / PyTorch | ratio |")
    print("|---|---|---|---|")
    for name in models:
        alone = {lib: median(r[name][0] for r in rounds) * 1e3 for lib, rounds in found.items()}
        cost = {lib: median(r[name][1] - r[name][0] for r in rounds) * 1e3 for lib, rounds in found.items()}
        print(
            f"| {name} | {alone['facula']:.3g} / {alone['torch']:.3g} | {cost['facula']:.3g} / {cost['torch']:.3g} "
            f"| {cost['torch'] / cost['facula']:.1f} |"
        )
    times = {lib: median(values) for lib, values in jobs.items()}
    print(f"a job of 2 ranks by the launcher: {times['facula']:.2f} s / {times['torch']:.2f} s")


if __name__ == "__main__":
    main()
