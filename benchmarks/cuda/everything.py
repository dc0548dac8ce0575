"""Measure everything in the first ten minutes on a machine with a GPU, with one command, and print it beside the
predictions.

    python benchmarks/cuda/everything.py                    # 560 s at most; writes benchmarks/results/cuda_<device>/
    FACULA_CUDA=emulated python benchmarks/cuda/everything.py --tiny --out FOLDER    # a test of this program, not of speed

Steps come in the order in which they may fail: the machine, one call of each library and of each kind of kernel, the same
numbers as PyTorch's, bandwidth, costs, our own products and the libraries', layers, models, counters, PyTorch for comparison
where it is installed with CUDA, tests. Each has a limit of its own and writes NN_<step>.json as soon as it is done, one
whose time is up the rows that it has; all.json and table.md (prediction, measured, reason) are written anew after each step,
so that what comes after an early end is all that is lost. Each part runs in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import first_run
import libraries
import parts
import predictions

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ALL, TINY_LIMIT = 560, 300
FURTHER = tuple(getattr(first_run, name) for name in ("numerics", "trace", "costs", "convolution", "recurrent", "scaling"))
FAST = ("models", "latency", "bandwidth", "matmul", "attention", "allocator", "timeline", "compiled")
PARTS = {f.__name__: f for f in (libraries.libraries, *(getattr(parts, name) for name in FAST), *FURTHER)}
TESTS = (
    "test_cuda_ops.py", "test_cuda.py", "test_cuda_products.py", "test_cuda_random.py", "test_cuda_random_statistics.py",
    "test_cuda_random_generators.py", "test_cuda_blas.py", "test_cuda_dnn.py",
    "test_cuda_graphs.py", "test_cuda_ipc.py", "test_cuda_profiler.py", "test_cuda_index.py", "test_cuda_dtypes.py",
)  # fmt: skip
OWN = {"FACULA_CUDA_DISABLE": "cublas,cudnn"}
SMI = ("nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current,"
       "pcie.link.gen.max,pcie.link.width.max", "--format=csv")  # fmt: skip
METRICS = "smsp__inst_executed.sum,dram__bytes.sum,gpu__time_duration.sum,launch__registers_per_thread"
COUNTERS = ("ncu", "--metrics", METRICS, "--launch-count", "60", "--csv", sys.executable, str(HERE / "everything.py"), "--part",
            "bandwidth", "--tiny")  # fmt: skip


@dataclass(frozen=True)
class Step:
    """Run a part for a library, or a command whose output is saved."""

    name: str
    limit: int  # seconds
    part: str = ""
    library: str = "facula"
    variables: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()


def of(part: str, limit: int, name: str = "", **variables: str) -> Step:
    return Step(name or part, limit, part, variables=tuple(variables.items()))


def peer(part: str, limit: int) -> Step:
    return Step(f"torch_{part}", limit, part, library="torch")


STEPS = (
    Step("machine", 10, command=SMI), of("libraries", 45), of("numerics", 25), peer("numerics", 15), of("bandwidth", 45),
    of("latency", 12), of("costs", 20), of("matmul", 20, "own_matmul", **OWN), of("attention", 20, "own_attention", **OWN),
    of("matmul", 20), of("attention", 20), of("convolution", 15), of("recurrent", 12), of("models", 70), of("compiled", 30),
    of("allocator", 10), of("timeline", 10), of("trace", 8), Step("counters", 30, command=COUNTERS),
    peer("bandwidth", 20), peer("matmul", 12), peer("attention", 15), peer("latency", 10), peer("models", 45), peer("trace", 8),
    of("scaling", 12), Step("tests", 540),
)  # fmt: skip


# ---- running a step


def output_of(command: list[str], seconds: float, variables: dict[str, str]) -> tuple[list[str], str, int | None]:
    """Run a program; its lines so far, its errors, and its status, None where its time was up."""
    environment = {**os.environ, **variables}
    lines: list[str] = []
    try:
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    except OSError as error:
        return [], str(error), 127
    assert run.stdout and run.stderr
    errors: list[str] = []
    readers = [threading.Thread(target=to.extend, args=(pipe,), daemon=True)
               for to, pipe in ((lines, run.stdout), (errors, run.stderr))]  # fmt: skip
    for reader in readers:
        reader.start()
    try:
        status: int | None = run.wait(max(1, seconds))
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()
        status = None
    for reader in readers:
        reader.join(5)
    for pipe in (run.stdout, run.stderr):
        pipe.close()
    return lines, "".join(errors), status


def figures_of(lines: list[str]) -> dict:
    """Return the rows that a part has printed, or all that it returned."""
    found = {}
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if "all" in said:
            return said["all"]
        if "row" in said:
            found[said["row"]] = said["figures"]
    return found


def run_part(step: Step, tiny: bool, seconds: float) -> dict:
    command = [sys.executable, str(Path(__file__).resolve()), "--part", step.part, "--library", step.library]
    start = time.time()
    lines, errors, status = output_of(command + ["--tiny"] * tiny, seconds, dict(step.variables))
    found = figures_of(lines)
    if status is None:
        return {**found, "error": f"not done after {time.time() - start:.0f} s"}
    if status:
        return {**found, "error": "".join(errors.strip().splitlines()[-1:]) or f"status {status}"}
    return found


def run_command(step: Step, seconds: float) -> dict:
    lines, errors, status = output_of(list(step.command), seconds, dict(step.variables))
    found: dict = {"lines": [line.rstrip() for line in lines][:2000]}
    if status != 0:  # a machine may not have the tool, or not give the right to use it: the rest stands
        found["refused"] = "its time was up" if status is None else f"status {status}: {errors.strip()[-300:]}"
    return found


def run_tests(tiny: bool, seconds: float) -> dict:
    """Run file by file, in the order of their weight: what there is no time for is said."""
    found, end = {}, time.time() + seconds
    for name in TESTS[1:2] if tiny else TESTS:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(ROOT / "tests" / name)]
        if time.time() > end - 2:
            found[name] = {"unfinished": "no time"}
            continue
        lines, _, status = output_of(command, end - time.time(), {})
        text = "".join(lines)
        if status is None:
            found[name] = {"unfinished": "no time", "so_far": text.strip()[-200:]}
            continue
        found[name] = {"summary": " ".join(text.strip().splitlines()[-1:]), "failed": re.findall(r"^FAILED (\S+)", text, re.M)}
        if status:
            found[name]["error"] = f"status {status}"
    return found


def run_step(step: Step, tiny: bool, seconds: float) -> dict:
    if step.name == "tests":
        return run_tests(tiny, seconds)
    return run_command(step, seconds) if step.command else run_part(step, tiny, seconds)


# ---- what is kept of it


def device_of(library: str) -> dict | None:
    """Return what the library says of the device; None where it has none."""
    program = (f"import {library} as m, json; p = m.cuda.get_device_properties(0); print(json.dumps({{'name': p.name, "
               "'memory': p.total_memory, 'capability': [p.major, p.minor], 'version': str(m.__version__)}))")  # fmt: skip
    try:
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(run.stdout.splitlines()[-1]) if run.returncode == 0 else None


class Results:
    """Hold the files of a run."""

    def __init__(self, folder: Path, device: dict, peer: dict | None, gpu: str | None) -> None:
        self.folder, self.gpu = folder, gpu
        self.all: dict = {"device": device, "peer": peer, "gpu": gpu, "parts": {}}
        self.failed, self.count = 0, 0
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, step: Step, found: dict, seconds: float) -> None:
        self.count += 1
        rows = [row for row in found.values() if isinstance(row, dict)]
        self.failed += "error" in found or any("error" in row for row in rows)
        one = {"step": step.name, "seconds": round(seconds, 1), "figures": found}
        (self.folder / f"{self.count:02}_{step.name}.json").write_text(json.dumps(one, indent=1) + "\n")
        name = step.part if step.library == "torch" else step.name
        part = self.all["parts"].setdefault(name, {"facula": None, "torch": None})
        part[step.library] = found
        if step.part == "numerics" and step.library == "torch":
            part["compared"] = first_run.compared(part["facula"] or {}, found)
        self.write()

    def table(self) -> list[str]:
        if self.gpu is None:
            return ["no predictions for this device"]
        return predictions.table(self.gpu, self.all["parts"])

    def write(self) -> None:
        kept = {**self.all, "parts": {name: dict(part) for name, part in self.all["parts"].items()}}
        if "compared" in kept["parts"].get("numerics", {}):  # the values themselves are in the files of the steps
            kept["parts"]["numerics"] = {"facula": kept["parts"]["numerics"]["compared"], "torch": None}
        (self.folder / "all.json").write_text(json.dumps(kept, indent=1) + "\n")
        (self.folder / "table.md").write_text("\n".join(self.table()) + "\n")


def show(step: Step, found: dict) -> None:
    if step.part == "numerics":
        return
    for name, figures in found.items():
        if isinstance(figures, dict):
            rounded = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in figures.items()}
            print(f"  {step.name:14} {name:32} {'  '.join(f'{key} {value}' for key, value in rounded.items())[:200]}")
        else:
            print(f"  {step.name:14} {name:32} {str(figures)[:200]}")


def wanted(steps: str, has_peer: bool) -> list[Step]:
    names = [name for name in steps.split(",") if name]
    unknown = set(names) - {step.name for step in STEPS}
    if unknown:
        raise SystemExit(f"--steps: of {', '.join(step.name for step in STEPS)}, got {', '.join(sorted(unknown))}")
    return [step for step in STEPS if (not names or step.name in names) and (has_peer or step.library == "facula")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="sizes that the emulated device can do")
    parser.add_argument("--steps", default="", help="some of them, divided by commas")
    parser.add_argument("--out", type=Path, help="the folder of the results")
    parser.add_argument("--like", choices=[g.name for g in predictions.GPUS], help="whose predictions are shown")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--library", default="facula", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        print(json.dumps({"all": PARTS[args.part](importlib.import_module(args.library), args.tiny)}))
        return 0
    start = time.time()
    device = device_of("facula")
    if not device:
        print("there is no CUDA device; FACULA_CUDA=emulated and --tiny run this program without one", file=sys.stderr)
        return 1
    name = re.sub(r"\W+", "_", device["name"]).strip("_").lower()
    has_peer = device_of("torch")
    results = Results(args.out or ROOT / "benchmarks" / "results" / f"cuda_{name}", device, has_peer,
                      predictions.gpu_of(device["name"], device["capability"], args.like))  # fmt: skip
    for step in wanted(args.steps, has_peer is not None):
        left = start + ALL - time.time()
        if left < 3 and not args.tiny:
            print(f"{step.name}: no time is left")
            continue
        begin = time.time()
        found = run_step(step, args.tiny, TINY_LIMIT if args.tiny else min(step.limit, left))
        results.add(step, found, time.time() - begin)
        print(f"{step.name}, {time.time() - start:.0f} s", flush=True)
        show(step, found)
    print("\n".join(results.table()))
    print(f"{results.folder}: {results.count} steps, {results.failed} failed, {time.time() - start:.0f} s")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
