"""Reproduce table 1 of the PyTorch paper (Paszke et al. 2019) on the CPU: how many items six networks train on in a
second.

    python benchmarks/table1 --prepare              makes a virtual environment for each framework; needs the network
    python benchmarks/table1 --json FILE            measures and prints the table
    python benchmarks/table1 --only alexnet --frameworks facula,jax --steps 1 --torch PYTHON

Facula has to be where this program's Python finds it; the others are installed by pip, each in an environment of its own.
One process for each framework holds the network; they are asked for steps by turns and stopped in between, so that no
thread that waits takes a processor from the next. The first step, which compiles, is not counted; of the others the median
is. All are float32 on the same shapes, with SGD with momentum on images and Adam for the other two.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environments import Missing, last_line, python_of, run

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
sys.path[1:1] = [str(MODELS), str(HERE.parent)]

from machine import describe  # noqa: E402

NETWORKS = ("alexnet", "vgg19", "resnet50", "mobilenet_v2", "gnmt", "ncf")
FRAMEWORKS = {  # its name, the package that has its version, what to know of its row
    "facula": ("Facula", "facula", "eager; the networks of `benchmarks/models`"),
    "torch": ("PyTorch", "torch", "eager; the networks of `benchmarks/models`"),
    "jax": ("JAX", "jax", "`jit`; Flax has no stock networks: all written here"),
    "tensorflow": ("TensorFlow", "tensorflow-cpu", "`train_on_batch`; `keras.applications`, but AlexNet and NCF written here"),
    "paddle": ("PaddlePaddle", "paddlepaddle", "eager; `paddle.vision.models`, but NCF written here"),
    "mxnet": ("MXNet", "mxnet", "hybridized; Gluon's model zoo, but NCF written here"),
}  # fmt: skip
NO_GNMT = "not written: neither stock nor in few lines"
TURN = 0.2  # seconds: a turn has as many steps as fit, at least one
LONGEST = 240  # seconds for loading and compiling, and for a turn
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "FLAGS_paddle_num_threads",
)  # fmt: skip


class Process:
    """Run one network in one framework; the process is stopped while it has no command."""

    def __init__(self, framework: str, python: Path, name: str, threads: int) -> None:
        ours = framework in ("facula", "torch")
        words = [python, MODELS / "worker.py" if ours else HERE / "peer.py", framework, name, threads]
        variables = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), "TF_CPP_MIN_LOG_LEVEL": "2"}
        if framework != "facula":
            variables.pop("PYTHONPATH", None)
        self.errors = tempfile.TemporaryFile("w+")
        self.folder = tempfile.TemporaryDirectory()  # Paddle leaves a log where it is started
        self.process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=variables,
            cwd=None if ours else self.folder.name,
        )  # fmt: skip

    def read(self) -> dict:
        if not select.select([self.process.stdout], [], [], LONGEST)[0]:
            raise Missing(f"no answer within {LONGEST} s")
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        status = self.process.wait()
        self.errors.seek(0)
        raise Missing(f"status {status}: {last_line(self.errors.read())}")

    def begin(self) -> float:
        """Load, compile, and do the first step, whose loss this is."""
        self.read()
        return self.ask("losses", count=1)["losses"][0]

    def ask(self, do: str, **how) -> dict:
        self.process.send_signal(signal.SIGCONT)
        print(json.dumps({"do": do, **how}), file=self.process.stdin, flush=True)
        answer = self.read()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            file.close()
        self.folder.cleanup()


def begin(process: Process, cell: dict) -> None:
    cell["first_loss"] = process.begin()
    if not math.isfinite(cell["first_loss"]):
        raise Missing(f"the loss of the first step is {cell['first_loss']}")
    process.ask("steps", seconds=0)  # with dropout, which Facula and PyTorch begin without


def turn(process: Process, cell: dict) -> None:
    cell["turns"].append(process.ask("steps", seconds=TURN)["seconds"])


def asked(do, framework: str, processes: dict[str, Process], cells: dict[str, dict]) -> None:
    """Ask; who fails says why in its cell and is asked no more."""
    try:
        do(processes[framework], cells[framework])
    except (Missing, OSError) as error:
        cells[framework]["why_not"] = str(error)
        processes.pop(framework).end()


def measure(name: str, pythons: dict[str, Path], options, seconds: float) -> dict:
    """Measure one network in all frameworks: as many rounds as asked for, or as the seconds allow, at least one."""
    module, began = importlib.import_module(name), time.perf_counter()
    row = {"name": module.NAME, "model": name, "unit": module.UNIT, "threads": options.threads}
    row["measured"] = cells = {framework: {"turns": []} for framework in pythons}
    processes = {}
    try:
        for framework, python in pythons.items():
            if name == "gnmt" and framework not in ("facula", "torch"):
                cells[framework]["why_not"] = NO_GNMT
                continue
            processes[framework] = Process(framework, python, name, options.threads)
            asked(begin, framework, processes, cells)
        for _ in range(options.steps):
            round_began = time.perf_counter()
            for framework in list(processes):
                asked(turn, framework, processes, cells)
            now = time.perf_counter()
            if now - began + (now - round_began) > seconds:
                break
    finally:
        for process in processes.values():
            process.end()
    for framework in processes:
        cell = cells[framework]
        cell["seconds"] = statistics.median(cell["turns"])
        cell["per_second"] = module.ITEMS / cell["seconds"]
    if {"facula", "torch"} <= processes.keys():
        row["ratio"] = cells["torch"]["seconds"] / cells["facula"]["seconds"]
    return row


def interpreters(options) -> tuple[dict[str, Path], dict[str, str], dict[str, str]]:
    """Return, of each framework, its Python and its version, or why it has none."""
    pythons, versions, missing = {}, {}, {}
    for framework, (_, package, _) in FRAMEWORKS.items():
        if framework not in options.frameworks.split(","):
            continue
        given = {"facula": sys.executable, "torch": options.torch}.get(framework)
        try:
            python = Path(given) if given else python_of(framework, options.environments)
            if framework != "facula":
                ask = f"from importlib.metadata import version; print(version({package!r}))"
                versions[framework] = last_line(run(python, "-c", ask))
            pythons[framework] = python
        except (Missing, OSError) as error:
            missing[framework] = str(error)
    return pythons, versions, missing


def cell_text(cell: dict, best: bool) -> str:
    if "per_second" not in cell:
        return "-"
    digits = 0 if cell["per_second"] >= 100 else 1
    text = f"{cell['per_second']:,.{digits}f}"
    return f"**{text}**" if best else text


def markdown(result: dict) -> str:
    """Return a table: frameworks down, networks across, as in the paper; the best of a network in bold."""
    rows = result["rows"]
    lines = ["| " + " | ".join(["framework", *(f"{row['name']} ({row['unit']}/s)" for row in rows), "how"]) + " |"]
    lines += ["|---" * (len(rows) + 2) + "|"]
    for framework, (title, _, how) in FRAMEWORKS.items():
        if framework in result["missing"]:
            lines.append(f"| {title} |" + " - |" * len(rows) + f" not installed: {result['missing'][framework]} |")
        if framework not in result["frameworks"]:
            continue
        cells, notes = [], [how]
        for row in rows:
            cell = row["measured"][framework]
            best = max(other.get("per_second", 0) for other in row["measured"].values())
            cells.append(cell_text(cell, cell.get("per_second") == best))
            if "why_not" in cell:
                notes.append(f"{row['name'].split(',')[0]}: {cell['why_not']}")
        name = f"{title} {result['versions'].get(framework, '')}".strip()
        lines.append("| " + " | ".join([name, *cells, "; ".join(notes)]) + " |")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="of each framework, on as many processors")
    parser.add_argument("--steps", type=int, default=5, help="turns of each framework; the median counts")
    parser.add_argument("--minutes", type=float, default=8, help="give up turns, not rows, for this")
    parser.add_argument("--only", default="", help="networks whose file name contains one of these, with commas between")
    parser.add_argument("--frameworks", default=",".join(FRAMEWORKS), help="these, with commas between")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "facula-table1", metavar="FOLDER")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch, instead of an environment")
    parser.add_argument("--prepare", action="store_true", help="only make the environments")
    parser.add_argument("--json", help="write the figures here")
    return parser.parse_args()


def main() -> None:
    options = parse()
    pythons, versions, missing = interpreters(options)
    for framework, why in missing.items():
        print(f"{framework}: {why}", flush=True)
    if options.prepare:
        return
    # the one limit that all obey; XLA knows no other
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    end, rows = time.perf_counter() + options.minutes * 60, []
    networks = [name for name in NETWORKS if any(part in name for part in options.only.split(","))]
    for i, name in enumerate(networks):
        share = (end - time.perf_counter()) / (len(networks) - i)
        rows.append(measure(name, pythons, options, share))
        rates = {framework: cell.get("per_second", cell.get("why_not")) for framework, cell in rows[-1]["measured"].items()}
        print(name, {f: round(r, 1) if isinstance(r, float) else r for f, r in rates.items()}, flush=True)
    machine = {**describe(), "pytorch": versions.get("torch", "none")}
    result = {"threads": options.threads, "machine": machine, "date": time.strftime("%Y-%m-%d"), "versions": versions}
    result |= {"frameworks": list(pythons), "missing": missing, "rows": rows}
    print("\n" + markdown(result))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
