"""Measure collectives between processes of this machine, by Facula and by PyTorch with gloo, by turns.

    python -m benchmarks.distributed --ranks 2 --rounds 5

Both libraries are asked in turn, each in processes of its own, so that the other one's threads take no part; the table has
the medians over the rounds. `--network` makes Facula's ranks take the network stack (TCP over loopback), as gloo always does.
`--python` names an interpreter that has PyTorch.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

SIZES = {4: 500, 65536: 100, 1 << 20: 40, 4 << 20: 10, 25 << 20: 3, 100 << 20: 1}

WORKER = """
import json, os, sys, time
import {library} as lib
import {library}.distributed as dist
sizes, names = json.loads(sys.argv[1]), json.loads(sys.argv[2])
lib.set_num_threads(1)
dist.init_process_group("gloo")
size = dist.get_world_size()

def calls(count):
    big = lib.full((max(count, size),), 1e-30)
    part = lib.full((max(count // size, 1),), 1e-30)
    whole = lib.full((part.numel() * size,), 1e-30)
    return {{
        "all_reduce": lambda: dist.all_reduce(big),
        "broadcast": lambda: dist.broadcast(big, 0),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_to_all_single": lambda: dist.all_to_all_single(whole, whole.clone()),
    }}

for bytes, repeats in sizes.items():
    for name in names:
        call = calls(int(bytes) // 4)[name]
        call()
        dist.barrier()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        used = (time.perf_counter() - start) / repeats
        if dist.get_rank() == 0:
            print(json.dumps([name, int(bytes), used]), flush=True)
        dist.barrier()
dist.destroy_process_group()
"""


def one_round(library, python, options):
    """Return {(collective, bytes): seconds} of one library."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(options.ranks)}
    sizes = {k: v for k, v in SIZES.items() if k <= options.largest}
    command = [python, "-c", WORKER.format(library=library), json.dumps(sizes), json.dumps(options.collectives)]
    processes = []
    for rank in range(options.ranks):
        network = {"FACULA_DIST_MACHINE": f"machine{rank}"} if options.network else {}
        own = {**environment, "RANK": str(rank), **network}
        processes.append(subprocess.Popen(command, env=own, stdout=subprocess.PIPE, text=True))
    outputs = [p.communicate(timeout=600)[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit(f"{library}: a rank failed")
    return {(name, size): used for name, size, used in map(json.loads, outputs[0].splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, default=100 << 20, help="bytes")
    parser.add_argument("--network", action="store_true")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has PyTorch")
    parser.add_argument("--collectives", nargs="+", default=["all_reduce"])
    options = parser.parse_args()
    found = {"torch": [], "facula": []}
    for _ in range(options.rounds):
        found["torch"].append(one_round("torch", options.python, options))
        found["facula"].append(one_round("facula", sys.executable, options))
    where = f"{options.ranks} ranks" + (", network" if options.network else "")
    print(f"| {where} | bytes | PyTorch (gloo), ms | Facula, ms | ratio |")
    print("|---|---|---|---|---|")
    for key in found["torch"][0]:
        times = {library: statistics.median(r[key] for r in rounds) * 1e3 for library, rounds in found.items()}
        ratio = times["torch"] / times["facula"]
        print(f"| {key[0]} | {key[1]} | {times['torch']:.3f} | {times['facula']:.3f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
