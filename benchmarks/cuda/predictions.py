"""Predict what a device shows, and print that beside what it has shown: the end of everything.py.

Predictions come out of the machine code of kernels (benchmarks/cuda/static/table.json, which keeps the bounds that
`python -m benchmarks.cuda.static` prints), and for what no kernel of ours decides from data sheets and published figures.
Each has the reason that is looked at first where it does not come true.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from benchmarks.cuda.static.instances import INSTANCES  # noqa: E402
from benchmarks.cuda.static.predict import COPY, GPUS, PRODUCT  # noqa: E402

TABLE = ROOT / "benchmarks" / "cuda" / "static" / "table.json"
NEAR = (0.85, 1.3)  # of a prediction that has come true

#: by what limits a kernel in the prediction
REASONS = {
    "memory": "the grid (`grid_for`) or tails of few blocks; other clocks or ECC if all rows are off by one factor",
    "in flight": "Little's factor 2 of `predict.Gpu.needed`: the same factor in all rows of this kind sets it",
    "issue": "instructions of an element in the step of counters, against the table; then eligible warps",
    "sectors": "bytes of DRAM in the step of counters, against two tensors",
    "mma": "16 warps of an SM; the tensor pipe's activity in the step of counters, against 63 %",
    "shared": "conflicts of banks in the step of counters",
}


@dataclass
class Prediction:
    part: str
    row: str
    figure: str
    value: float
    reason: str
    less: bool = False  # less is better


def gpu_of(name: str, capability: list[int], said: str | None = None) -> str | None:
    """Return which of the GPUs with predictions a device is most like."""
    known = {g.name: g for g in GPUS}
    if said:
        return said
    for each in sorted(known, key=len, reverse=True):
        if each in name:
            return each
    alike = [g.name for g in GPUS if g.capability == capability[0] * 10 + capability[1]]
    return alike[0] if alike else None


def of_kernels(gpu: str) -> list[Prediction]:
    """Return the predictions of the rows that measure a kernel whose machine code is in the table."""
    found = []
    kernels = json.loads(TABLE.read_text())["kernels"]
    capability = next(g.capability for g in GPUS if g.name == gpu)
    for instance in INSTANCES:
        bound = kernels.get(instance.name, {}).get(f"sm_{capability}", {}).get("bounds", {}).get(gpu)
        if not instance.measured or bound is None:
            continue
        part, _, row = instance.measured.partition("/")
        own = f"own_{part}" if part in ("matmul", "attention") else part
        figure = "of_copy" if part == "bandwidth" else "forward_TFLOP_per_s" if part == "attention" else "TFLOP_per_s"
        value = min(1, bound["share"] / COPY) if part == "bandwidth" else bound["teraflops"] * PRODUCT
        limit = bound["limit"]
        reason = next((text for kind, text in REASONS.items() if kind in limit), f"what limits it: {limit}")
        found.append(Prediction(own, row, figure, value, reason))
    return found


def of_machines(gpu: str) -> list[Prediction]:
    """Return the predictions from data sheets and published figures, and of the host's part."""
    known = next(g for g in GPUS if g.name == gpu)
    half = 2 * known.peak * known.sms * known.clock / 1e3  # TFLOP/s
    host = "the host: processor, `FACULA_CUDA=null` beside it (benchmarks/cuda/host.py)"
    plan = "a plan not found: facula.cuda.libraries(), why_no_dnn_attention"
    return [
        Prediction("bandwidth", "copy float32", "GB_per_s", COPY * known.bandwidth, "other clocks, ECC: all shares scale"),
        Prediction("latency", "add", "host_us", 0.6, host, less=True),
        Prediction("latency", "add", "whole_us", 2.5, "launches of the driver", less=True),
        Prediction("latency", "linear", "host_us", 4.0, "the library's own preparation", less=True),
        Prediction("costs", "first kernel, cold", "ms", 110, "NVRTC's own start; what is compiled: FACULA_CUDA_LOG_KERNELS",
                   less=True),
        Prediction("costs", "first kernel, warm", "ms", 3, "the disk cache is not found: FACULA_CACHE_DIR", less=True),
        Prediction("costs", "copy to the device, pinned", "GB_per_s", 24, "the link's generation and lanes (nvidia-smi)"),
        Prediction("matmul", "8192 bfloat16", "TFLOP_per_s", 0.68 * half, plan),
        Prediction("attention", "4x16x2048x128 bfloat16", "forward_TFLOP_per_s", 0.5 * half, plan),
    ]  # fmt: skip


def predictions(gpu: str) -> list[Prediction]:
    return of_machines(gpu) + of_kernels(gpu)


def judged(p: Prediction, measured: float) -> str:
    """Return whether it came true: "yes", "better", or the reason to look at."""
    share = p.value / measured if p.less else measured / p.value
    return "yes" if NEAR[0] <= share <= NEAR[1] else "better" if share > NEAR[1] else p.reason


def table(gpu: str, parts: dict) -> list[str]:
    """Return the lines of a table in Markdown: each prediction, what was measured, and what to look at where they differ."""
    lines = [f"predictions for {gpu}", "", "| part | row | figure | predicted | measured | share | came true, or look at |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for p in predictions(gpu):
        row = (parts.get(p.part, {}).get("facula") or {}).get(p.row)
        measured = row.get(p.figure) if isinstance(row, dict) else None
        if measured is None:
            why = row.get("error", "") if isinstance(row, dict) else ""
            lines.append(f"| {p.part} | {p.row} | {p.figure} | {p.value:.3g} | - | - | not measured {why[:80]} |")
            continue
        lines.append(f"| {p.part} | {p.row} | {p.figure} | {p.value:.3g} | {measured:.3g} | {measured / p.value:.2f} | "
                     f"{judged(p, measured)} |")  # fmt: skip
    return lines
