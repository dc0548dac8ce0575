"""Explain what each benchmark measures, and run all of them one after the other.

    python -m benchmarks              explains
    python -m benchmarks --all        runs all and writes a result file for each that can; takes hours on two cores
    python -m benchmarks --all --level v3 --only micro,models --out FOLDER

The benchmarks are programs of their own: this runs them as processes, one after the other.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Benchmark:
    program: str
    measures: str
    minutes: int  # an estimate
    levels: bool = False  # takes --level
    writes: bool = True  # takes --json


BENCHMARKS = (
    Benchmark("micro.py", "ops on four elements, large element-wise ops, products, one-image training steps", 3, levels=True),
    Benchmark("models", "training steps of fourteen whole networks: time, memory, page faults, processor", 14, levels=True),
    Benchmark("applications", "unchanged programs on packages: language, pictures, science, tables", 15, levels=True),
    Benchmark("sweep.py", "the public ops in three sizes, forwards and backwards: what to look at", 9, levels=True),
    Benchmark("products.py", "matrix products by dtype, transposition and shape", 2, levels=True),
    Benchmark("generation.py", "a decoder's answers token by token, as a share of the rate of memory", 2, levels=True),
    Benchmark("fft.py", "Fourier transforms by length, dtype and number of lines", 2, levels=True),
    Benchmark("training.py", "training steps of small networks, optimizers, data loading, checkpoints", 8),
    Benchmark("autograd.py", "recording and walking graphs, peak memory", 3),
    Benchmark("interop.py", "exchange with NumPy and DLPack at 1 KB and 1 GB", 2),
    Benchmark("profiler.py", "what watching costs: an op with an observer, a ResNet-18 step with the profiler", 2),
    Benchmark("examples.py", "the examples, whole processes", 10, writes=False),
)
OTHERS = {
    "table1": "Table 1 of the PyTorch paper, on the CPU: Facula, PyTorch, JAX, TensorFlow, PaddlePaddle, MXNet; some 10 min",
    "rpc.py": "remote calls between two processes",
    "plot.py": "draws what benchmarks/results holds, a picture for each file",
}


def explain() -> None:
    print(__doc__)
    print("All need PyTorch beside Facula and compare by turns; a ratio is PyTorch's time over Facula's. Each takes --help.")
    print("The minutes are estimates for two cores that have nothing else to do.\n")
    for benchmark in BENCHMARKS:
        level = "  (takes --level)" if benchmark.levels else ""
        print(f"  {benchmark.program:12} about {benchmark.minutes:2} min   {benchmark.measures}{level}")
    for program, measures in OTHERS.items():
        print(f"  {program:12} {'not in --all':>12}   {measures}")


def command(benchmark: Benchmark, level: str | None, out: Path) -> list[str]:
    name = Path(benchmark.program).stem
    words = [sys.executable, str(HERE / benchmark.program)]
    if level and benchmark.levels:
        words += ["--level", level]
        name += f"_{level}"
    if benchmark.writes:
        words += ["--json", str(out / f"{name}_here.json")]
    return words


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="run them; without it, only explain")
    parser.add_argument("--only", default="", help="of all, those whose name contains one of these, with commas between")
    parser.add_argument("--level", choices=("v2", "v3", "v4"), help="for those that take it")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the result files")
    options = parser.parse_args(arguments)
    if not options.all:
        explain()
        return 0
    failed = []
    for benchmark in BENCHMARKS:
        if not any(part in benchmark.program for part in options.only.split(",")):
            continue
        words, start = command(benchmark, options.level, options.out), time.perf_counter()
        print(f"\n==== {' '.join(words[1:])}", flush=True)
        if subprocess.run(words).returncode:
            failed.append(benchmark.program)
        print(f"==== {(time.perf_counter() - start) / 60:.1f} min", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
