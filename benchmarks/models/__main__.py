"""Measure whole models, Facula against PyTorch: times, memory, page faults and processor time of a training step.

    python benchmarks/models [--threads 2] [--level v3] [--only TEXT] [--inference] [--busy] [--compile] [--json FILE]
    python benchmarks/models --framework facula     one library alone, a JSON line for each model
    python benchmarks/models --profile 15 --only gpt     where the time goes: the table of each library's profiler

Needs PyTorch beside Facula. Both run the same source in processes of their own, which are asked for steps by turns; a time is
the median over the turns, with one thread of its processor time. Before that, both do three steps from the same weights,
without dropout, and their losses are compared. The share of the limit is what the products and convolutions of a step would
take at the best rate of a square product, over the time of the step.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from machine import add_level, at_level, describe  # noqa: E402
from turns import Failed, Process, busy, by_turns, slowdowns  # noqa: E402

MODELS = (
    "alexnet", "vgg19", "resnet50", "mobilenet_v2", "efficientnet_b0", "convnext", "unet", "dcgan", "gnmt", "ncf", "gpt",
    "lstm_cell", "mlp", "reinforce",
)  # fmt: skip
TURN = 0.2  # seconds: a turn has as many steps as fit, at least one
# ratios aimed at: with AVX2, and with AVX-512 on AMD
TARGETS = {
    "alexnet": (1.8, 2.0), "vgg19": (2.9, 3.0), "resnet50": (1.7, 2.0), "mobilenet_v2": (3.6, 3.5), "gnmt": (1.6, 1.8),
    "ncf": (7, 8), "gpt": (1.35, 1.5), "lstm_cell": (11, 11), "mlp": (13, 19), "reinforce": (None, None),
    "efficientnet_b0": (1.2, 1.2), "convnext": (1.2, 1.2), "unet": (1.2, 1.2), "dcgan": (1.2, 1.2),
}  # fmt: skip
TARGET_OF_ANSWERS = 1.3


def worker_of(framework: str, name: str, threads: int, limit: float) -> Process:
    command = [sys.executable, str(HERE / "worker.py"), framework, name, str(threads)]
    return Process(command, limit, quiet=framework == "compiled")


def start(frameworks: list[str], name: str, options) -> tuple[dict[str, Process], dict[str, str]]:
    """Return the workers, and why one is missing; only compiled PyTorch may be."""
    workers, failures = {}, {}
    for framework in frameworks:
        limit = options.compile_limit if framework == "compiled" else 600
        worker = None
        try:
            worker = worker_of(framework, name, options.threads, limit)
            workers[framework] = worker
            worker.losses = worker.ask(do="losses", count=3)["losses"]
            worker.ask(do="steps", seconds=0)  # dropout is on from here: compiled again, kernels chosen
        except Failed as error:
            if framework != "compiled":
                raise
            failures[framework] = str(error)
            if workers.pop(framework, None):
                worker.end()
    return workers, failures


def difference(losses: dict[str, list[float]], step: int) -> float:
    ours, theirs = (losses[framework][step] for framework in ("facula", "torch"))
    return abs(ours - theirs) / max(abs(theirs), 1e-12) if math.isfinite(ours) else math.inf


def target_of(name: str, answers: bool, level: str | None) -> float | None:
    if answers:
        return TARGET_OF_ANSWERS
    with open("/proc/cpuinfo") as file:
        facts = file.read()
    slow = "AuthenticAMD" in facts and "avx512f" in facts and level not in ("v2", "v3")
    return TARGETS[name][slow]


def row_of(name: str, workers: dict[str, Process], answers: bool, options, rate: float) -> dict:
    module = importlib.import_module(name)
    any_worker = next(worker for framework, worker in workers.items() if framework != "compiled")
    times = by_turns(workers, options.rounds, do="answers" if answers else "steps", seconds=TURN)
    flops = any_worker.ask(do="answer_products" if answers else "products")["flops"]
    title = f"{module.NAME.split(', batch')[0]}, one answer" if answers else module.NAME
    row = {"name": title, "model": name, "target": target_of(name, answers, options.level), "threads": options.threads}
    row["flops"], row["measured"] = flops, times
    if options.busy:
        with busy(options.threads):
            row["busy"] = by_turns(workers, options.rounds, do="answers" if answers else "steps", seconds=TURN)
    for framework, worker in workers.items():
        times[framework].update(worker.ask(do="peak"), limit_share=flops / rate / times[framework]["seconds"])
        if not answers:
            times[framework]["losses"] = worker.losses
            times[framework][f"{module.UNIT} a second"] = module.ITEMS / times[framework]["seconds"]
    if {"facula", "torch"} <= workers.keys():
        ours, theirs = times["facula"], times["torch"]
        row["ratio"], row["ratio_of_minima"] = theirs["seconds"] / ours["seconds"], theirs["least"] / ours["least"]
        if not answers:
            losses = {framework: times[framework]["losses"] for framework in ("facula", "torch")}
            row["loss_differs_by"] = [difference(losses, step) for step in range(3)]
    if "compiled" in workers:
        row["ratio_compiled"] = times["compiled"]["seconds"] / times["facula"]["seconds"]
    return row


HEADING = (
    f"{'':30} {'facula':>9} {'torch':>9} {'ratio':>6} {'(min)':>6} {'target':>6} {'of limit':>9} "
    f"{'peak MiB':>13} {'faults a step':>15} {'processor ms':>15} {'loss differs by, steps 1 and 3':>20}"
)


def line_of(row: dict) -> str:
    ours, theirs = row["measured"]["facula"], row["measured"]["torch"]
    differs = row.get("loss_differs_by")
    parts = [
        f"{row['name']:30} {ours['seconds'] * 1e3:9.3f} {theirs['seconds'] * 1e3:9.3f}",
        f"{row['ratio']:6.2f} {row['ratio_of_minima']:6.2f} {row['target'] or '':>6}",
        f"{ours['limit_share']:4.0%} {theirs['limit_share']:4.0%}",
        f"{ours['peak']:6.0f} {theirs['peak']:6.0f}",
        f"{ours['faults']:7.0f} {theirs['faults']:7.0f}",
        f"{ours['processor'] * 1e3:7.1f} {theirs['processor'] * 1e3:7.1f}",
        f"{differs[0]:.1e} {differs[2]:.1e}" if differs else "",
    ]
    if "ratio_compiled" in row:
        parts.append(f"compiled {row['measured']['compiled']['seconds'] * 1e3:.3f} ms, ratio {row['ratio_compiled']:.2f}")
    parts += [f"{framework}: {why}" for framework, why in row.get("failures", {}).items()]
    return " ".join(parts) + slowdowns(row)


def measure(name: str, frameworks: list[str], options, rate: float) -> list[dict]:
    workers, failures = start(frameworks, name, options)
    try:
        if options.profile:
            for framework, worker in workers.items():
                print(f"\n{name}, {framework}\n{worker.ask(do='table', count=3, rows=options.profile)['table']}", flush=True)
            return []
        kinds = [False, True] if options.inference and hasattr(importlib.import_module(name), "inference") else [False]
        rows = [row_of(name, workers, answers, options, rate) for answers in kinds]
        for row in rows:
            row["failures"] = failures
        return rows
    finally:
        for worker in workers.values():
            worker.end()


def best_rate(framework: str, options) -> float:
    worker = worker_of(framework, "mlp", options.threads, 600)
    try:
        return worker.ask(do="rate")["rate"]
    finally:
        worker.end()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", choices=("facula", "torch"), help="this one alone; prints JSON lines")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="models whose file name contains one of these, with commas between")
    parser.add_argument("--inference", action="store_true", help="also one answer at batch 1 in inference_mode")
    parser.add_argument("--busy", action="store_true", help="also with one foreign busy thread for each of the threads")
    parser.add_argument("--compile", action="store_true", help="also PyTorch with torch.compile")
    parser.add_argument("--compile-limit", type=float, default=300, help="seconds that compiling may take")
    parser.add_argument("--profile", type=int, default=0, metavar="ROWS", help="print this many rows of the profilers instead")
    parser.add_argument("--json", help="write the figures here")
    add_level(parser)
    return parser.parse_args()


def main() -> None:
    options = parse()
    at_level(options.level)
    frameworks = [options.framework] if options.framework else ["facula", "torch"] + ["compiled"] * options.compile
    rate = best_rate(frameworks[0], options)
    if not options.framework:
        theirs = best_rate("torch", options)
        print(f"level {options.level or 'of the machine'}, {options.threads} threads, times in ms", flush=True)
        print(
            f"best rate of a square product: Facula {rate / 1e9:.0f}, PyTorch {theirs / 1e9:.0f} GFLOP/s\n{HEADING}", flush=True
        )
    rows = []
    for name in MODELS:
        if not any(part in name for part in options.only.split(",")):
            continue
        for row in measure(name, frameworks, options, rate):
            rows.append(row)
            print(json.dumps(row) if options.framework else line_of(row), flush=True)
    if options.json:
        facts = {"threads": options.threads, "machine": describe(), "date": time.strftime("%Y-%m-%d"), "rate": rate}
        with open(options.json, "w") as file:
            json.dump({**facts, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
