"""Measure what programs cost: exporting, running them, starting `facula-run`, and hooks and libraries around a small a
+ b.

    PYTHONPATH=. python benchmarks/program_times.py [--build build/dev] [--json benchmarks/results/program_times.json]

Needs a build folder with the C++ tests. Times of short runs are the smallest of many, taken in turn, so that other programs
on the machine hardly matter; those of processes are the processor's, with the shortest elapsed one beside them.

- interpreter: nanoseconds that an op takes in a program, over the same call in C++ (`test_program time`)
- export: milliseconds for models of 70 to 80 nodes, with fixed sizes and with a batch that varies
- facula-run: a network of three layers, from the start of the process to the result
- calls: a + b of four elements in C++ with hooks that nobody uses, without them, and through libfacula.so
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import describe

import facula
from facula import export, nn
from facula.export import Dim

ROOT = Path(__file__).resolve().parent.parent


class Block(nn.Module):
    """Define a block of a transformer, of about 17 nodes."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).chunk(3, 2)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(nn.functional.gelu(self.wide(self.after(x))))


def images():
    """Return a residual network of about seventy nodes."""

    class Residual(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
            self.na, self.nb = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

        def forward(self, x):
            return nn.functional.relu(x + self.nb(self.b(nn.functional.relu(self.na(self.a(x))))))

    layers = [nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), *(Residual(8) for _ in range(10))]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


def exports():
    models = {
        "transformer": (nn.Sequential(*(Block() for _ in range(4))), facula.randn(3, 12, 32)),
        "images": (images(), facula.randn(3, 3, 24, 24)),
    }
    found = {}
    for name, (model, x) in models.items():
        model.eval()
        for kind, shapes in (("fixed", None), ("batch varies", ({0: Dim("batch", min=2, max=64)},))):
            best = wall = 1e9
            for _ in range(15):
                begin, started = time.process_time(), time.perf_counter()
                exported = export.export(model, (x,), dynamic_shapes=shapes)
                best, wall = min(best, time.process_time() - begin), min(wall, time.perf_counter() - started)
            nodes = len(exported.program.nodes)
            found[f"{name}, {kind}"] = {
                "nodes": nodes, "processor ms": round(best * 1e3, 2), "elapsed ms": round(wall * 1e3, 2),
            }  # fmt: skip
    return found


def interpreter(build):
    """Return, by op, (direct, interpreted), the smallest of five runs."""
    found = {}
    for _ in range(5):
        lines = subprocess.run([build / "test_program", "time"], capture_output=True, text=True, check=True).stdout
        for line in lines.splitlines():
            words = line.split()
            best = found.setdefault(words[0], [1e9, 1e9])
            found[words[0]] = [min(best[0], float(words[2])), min(best[1], float(words[5]))]
    return {
        op: {"direct ns": a, "interpreted ns": b, "more ns": round(b - a, 1)} for op, (a, b) in found.items()
    }


STARTER = """
import os, sys, time
best = wall = memory = 1e9
for _ in range(30):
    started = time.perf_counter()
    _, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
    wall = min(wall, time.perf_counter() - started)
    assert status == 0
    best, memory = min(best, usage.ru_utime + usage.ru_stime), min(memory, usage.ru_maxrss)
print(best, wall, memory)
"""


def command(build):
    """Return the processor time, elapsed time and memory of facula-run, of thirty processes."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    x = facula.randn(2, 16)
    with tempfile.TemporaryDirectory() as folder:
        export.save(export.export(model, (x,)), f"{folder}/m.pt2")
        np.save(f"{folder}/x.npy", x.numpy())
        words = [str(build / "facula-run"), f"{folder}/m.pt2", "--input", f"{folder}/x.npy", "--output", f"{folder}/y.npz"]
        # of a small process: Linux counts the memory of the one that starts another for that one, too
        starter = [sys.executable, "-I", "-S", "-c", STARTER]
        done = subprocess.run([*starter, *words], capture_output=True, text=True, check=True)
        best, wall, memory = map(float, done.stdout.split())
        found = np.load(f"{folder}/y.npz")
        np.testing.assert_allclose(found[found.files[0]], model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    return {"processor ms": round(best * 1e3, 2), "elapsed ms": round(wall * 1e3, 2), "MB": round(memory / 1024, 1)}


def objects_of(build):
    """Return the objects that test_program is linked of, but its own."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "inputs", "test_program"], capture_output=True, text=True, check=True)
    return [str(build / n) for n in listed.stdout.split() if n.endswith(".o") and "test_program" not in n]


def calls(build):
    """Return the nanoseconds of a + b: linked with the objects, with and without hooks, and with libfacula.so."""
    folders = [str(f) for f in (ROOT / "src", build / "gen", ROOT / "include")]
    flags = ["-std=c++20", "-O3", "-fopenmp", "-fno-plt", *(f"-I{f}" for f in folders)]
    source = str(ROOT / "benchmarks" / "call_times.cpp")
    with tempfile.TemporaryDirectory() as folder:
        static, shared = f"{folder}/static", f"{folder}/shared"
        compile_it = ["c++", *flags, source]
        subprocess.run([*compile_it, "-DFACULA_WITHOUT_HOOKS", *objects_of(build), "-ldl", "-o", static], check=True)
        library = build / "lib"
        subprocess.run([*compile_it, "-L", library, "-lfacula", f"-Wl,-rpath,{library}", "-o", shared], check=True)
        best = {static: [1e9, 1e9], shared: [1e9, 1e9]}
        for _ in range(7):
            for program, times in best.items():
                line = subprocess.run([program], capture_output=True, text=True, check=True).stdout
                best[program] = [min(a, float(b)) for a, b in zip(times, line.split())]
    (hooks, without), (library_call, _) = best[static], best[shared]
    return {
        "a + b ns": hooks, "without hooks ns": without, "hooks ns": round(hooks - without, 2),
        "through libfacula.so ns": library_call, "libfacula.so more ns": round(library_call - hooks, 2),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--json", help="a file for the results")
    options = parser.parse_args()
    facula.set_num_threads(1)
    build = options.build.resolve()
    result = {"machine": describe()}
    for name, part in (("interpreter", interpreter), ("facula-run", command), ("calls", calls)):
        result[name] = part(build)
        print(name, json.dumps(result[name], indent=1), flush=True)
    result["export"] = exports()
    print("export", json.dumps(result["export"], indent=1))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
