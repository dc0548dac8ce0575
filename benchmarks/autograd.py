"""Measure automatic differentiation, Facula against PyTorch, by turns.

    python benchmarks/autograd.py [--repeat 300] [--threads 1] [--json FILE]

Needs PyTorch beside Facula. Times are the minimum of processor time over many short alternating repeats in
one process, so that a busy machine does not show (use one thread); only the ratio means anything.
Peak memory is that of a process of its own per library, above what it held before: bytes of tensors as the library's own
allocator counts them where it can (Facula), and resident memory for both.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

CHAIN = 1000
LAYERS, WIDTH, BATCH = 12, 1024, 1024


def micro_cases(m):
    a, b = m.ones(4).requires_grad_(), m.ones(4)
    g = m.ones(4).requires_grad_()

    def product():
        (a * b).sum().backward()

    def scaled():
        return g * 2.0

    def added():
        return g + b

    def chain():
        y = g
        for _ in range(CHAIN // 2):
            y = y * 1.01
            y = y + b
        y.sum().backward()

    return {
        "(a*b).sum().backward()": (product, 20),
        "g*2.0 recorded": (scaled, 200),
        "g+b recorded": (added, 200),
        f"chain of {CHAIN} ops, forward and backward": (chain, 1),
    }


def network(m, layers=LAYERS, width=WIDTH):
    parts = []
    for _ in range(layers):
        parts += [m.nn.Linear(width, width), m.nn.ReLU()]
    return m.nn.Sequential(*parts)


def step_case(m, width=64, batch=32):
    m.manual_seed(0)
    net, x = network(m, 3, width), m.randn(batch, width)
    optimizer = m.optim.SGD(net.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    return step, 2


def measure(repeat, threads):
    import torch

    import facula

    for m in (torch, facula):
        m.set_num_threads(threads)
    cases = {name: {} for name in micro_cases(facula)}
    sides = {"facula": micro_cases(facula), "torch": micro_cases(torch)}
    name = "MLP step: 3 layers of 64, batch 32, SGD"
    cases[name] = {}
    sides["facula"][name], sides["torch"][name] = step_case(facula), step_case(torch)
    for case, best in cases.items():
        for _ in range(repeat):
            for side in ("facula", "torch"):
                run, number = sides[side][case]
                run()
                start = time.process_time()
                for _ in range(number):
                    run()
                seconds = (time.process_time() - start) / number
                best[side] = min(best.get(side, float("inf")), seconds * 1e9)
        best["ratio"] = best["torch"] / best["facula"]
    return cases


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_memory(library):
    """Return, of a process of its own, the highest resident memory of forward and backward of the 12-layer MLP, above that
    before."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import autograd as b; b.report_peak({library!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parent
    )
    return json.loads(done.stdout.splitlines()[-1])


def report_peak(library):
    m = __import__(library)
    m.set_num_threads(1)
    net, x = network(m), m.randn(BATCH, WIDTH)
    small, few = network(m, 1, 8), m.randn(2, 8)
    small(few).square().mean().backward()  # what a first pass loads is not the pass's memory
    Path("/proc/self/clear_refs").write_text("5")  # restarts the high-water mark
    before = resident()
    counted = None
    if hasattr(m, "cpu") and hasattr(m.cpu, "reset_peak_memory_stats"):
        m.cpu.reset_peak_memory_stats()
        counted = m.cpu.memory_allocated()
    net(x).square().mean().backward()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    result = {"resident_MiB": (int(status["VmHWM"].split()[0]) * 1024 - before) / 2**20}
    if counted is not None:
        result["tensors_MiB"] = (m.cpu.max_memory_allocated() - counted) / 2**20
    print(json.dumps(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    times = measure(options.repeat, options.threads)
    for name, row in times.items():
        print(f"{name:45} facula {row['facula']:12.0f} ns  torch {row['torch']:12.0f} ns  ratio {row['ratio']:.2f}")
    memory = {library: peak_memory(library) for library in ("facula", "torch")}
    print(f"peak memory of forward and backward, {LAYERS} layers of {WIDTH}, batch {BATCH}:", memory)
    if options.json:
        import torch

        import facula

        data = {
            "versions": {"facula": facula.__version__, "torch": torch.__version__}, "threads": options.threads,
            "repeat": options.repeat, "nanoseconds": times, "peak_memory": memory,
        }  # fmt: skip
        options.json.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
