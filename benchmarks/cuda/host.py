"""Measure what an op on CUDA costs the host before the device begins, with a driver that does nothing, so that no GPU
is needed.

    python benchmarks/cuda/host.py [--only TEXT] [--json FILE]

Facula runs on FACULA_CUDA=null, whose launches return at once; beside it, in the same process and by turns, PyTorch runs the
same op on tiny tensors of the CPU: its dispatch is the yardstick. A time is the minimum over slices. Then the first kernel of a
process: compiled by NVRTC (where FACULA_CUDA_LIBRARIES or pip has it), and read from the disk cache by a process with the
emulated device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = 3.0  # PyTorch's time over Facula's
SLICE = 0.003  # seconds

SETUP = """
x, y, row = m.ones(4, 4, device=d), m.ones(4, 4, device=d), m.ones(4, device=d)
i, c = m.zeros(4, dtype=m.int64, device=d), m.ones(4, 4, device=d) > 0
image, filters = m.ones(1, 4, 4, 4, device=d), m.ones(4, 4, 3, 3, device=d)
F = m.nn.functional
"""
STATEMENTS = (
    "x + y", "x * 2.0", "x + row", "x.add_(y)", "m.relu(x)", "m.exp(x)", "x > y", "m.where(c, x, y)", "m.addcmul(x, x, y)",
    "x.sum()", "x.sum(1)", "x.mean(-1)", "x.argmax(1)", "x.cumsum(0)", "F.softmax(x, 1)", "F.layer_norm(x, (4,), row, row)",
    "x @ y", "F.linear(x, y, row)", "F.conv2d(image, filters, padding=1)", "F.max_pool2d(image, 2)", "F.cross_entropy(x, i)",
    "x.clone()", "x.t().contiguous()", "x.to(m.bfloat16)", "m.cat([x, y])", "x[i]", "F.embedding(i, x)",
    "m.empty(4, 4, device=d)", "m.zeros(4, 4, device=d)", "x.view(16)",
)  # fmt: skip

FIRST_COMPILED = """
import time
from facula import _C
start = time.perf_counter()
_C._cuda_compile({source!r}, {expression!r}, 90)
print((time.perf_counter() - start) * 1e3)
"""
FIRST_CACHED = """
import time
import facula as m
x = m.ones(4, 4).cuda()
m.cuda.synchronize()
start = time.perf_counter()
y = x + x
print((time.perf_counter() - start) * 1e3)
m.cuda.synchronize()
"""


def measure(only: str) -> list[dict[str, object]]:
    import torch

    import facula

    sides = []
    for module, device in ((facula, "cuda"), (torch, "cpu")):
        module.set_num_threads(1)
        side: dict[str, object] = {"m": module, "d": device}
        exec(SETUP, side)
        sides.append(side)
    rows = []
    for statement in STATEMENTS:
        if only not in statement:
            continue
        timers = [timeit.Timer(statement, globals=side) for side in sides]
        counts = [max(1, int(SLICE / (timer.timeit(200) / 200))) for timer in timers]
        best = [float("inf")] * 2
        for _ in range(15):
            for k, (timer, count) in enumerate(zip(timers, counts)):
                best[k] = min(best[k], timer.timeit(count) / count)
        ours, theirs = (1e6 * t for t in best)
        ratio = round(theirs / ours, 2)
        rows.append({"name": statement, "facula_us": round(ours, 3), "torch_cpu_us": round(theirs, 3), "ratio": ratio,
                     "target": TARGET})  # fmt: skip
        print(f"{statement:38} {ours:7.2f} us   PyTorch's CPU {theirs:7.2f} us   {theirs / ours:5.2f} x", flush=True)
    return rows


def child(program: str, **environment: str) -> float | None:
    clean = {name: value for name, value in os.environ.items() if name != "FACULA_CUDA"}
    clean["PYTHONPATH"] = os.pathsep.join([*sys.path, str(ROOT)])
    run = subprocess.run([sys.executable, "-c", program], env={**clean, **environment}, capture_output=True, text=True)
    return float(run.stdout.split()[-1]) if run.returncode == 0 else None


def first_kernel() -> dict[str, float | None]:
    """Return the milliseconds until the first kernel of a process is queued: compiled, and from the disk."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "kernels.jsonl"
        emulated = {"FACULA_CUDA": "emulated", "FACULA_CACHE_DIR": folder}
        child(FIRST_CACHED, **emulated, FACULA_CUDA_LOG_KERNELS=str(log))
        source, expression = json.loads(log.read_text().splitlines()[-1])[:2]
        times = {
            "nvrtc_ms": [child(FIRST_COMPILED.format(source=source, expression=expression)) for _ in range(3)],
            "cached_ms": [child(FIRST_CACHED, **emulated) for _ in range(3)],
        }
    return {name: min((t for t in each if t is not None), default=None) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    os.environ["FACULA_CUDA"] = "null"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FACULA_CACHE_DIR"] = folder
        rows = measure(args.only)
    first = first_kernel()
    ratios = [row["ratio"] for row in rows]
    reached = sum(r >= TARGET for r in ratios)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f} x, {reached} of {len(ratios)} at least {TARGET} x")
    said = [f"{name} {value:.2f}" if value else f"{name} not measured" for name, value in first.items()]
    print("first kernel:", ", ".join(said))
    if args.json:
        args.json.write_text(json.dumps({"rows": rows, "first_kernel": first}, indent=1) + "\n")


if __name__ == "__main__":
    main()
