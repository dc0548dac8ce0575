"""Predict the speed of GPUs that need not be present, from the machine code of kernels, and print it beside
measurements.

    python -m benchmarks.cuda.static                       # A100, H100 and H200, and all results of benchmarks/results/cuda_*/
    python -m benchmarks.cuda.static --only softmax --gpu H200 --results FILE

Needs nvidia-cuda-nvrtc and nvidia-cuda-nvdisasm from PyPI (`static-kernels` of pyproject.toml). Columns: instructions of an
element on the way that counts, loads (how many x bits), bytes in flight of a thread, registers, spilled bytes, resident warps
of an SM, kernels that the call launches; for each GPU the share of its bandwidth that is possible at most, or TFLOP/s, and
what is in the way. `of copy` is predicted and measured as benchmarks/cuda/everything.py measures; products reach 0.8 of the
bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .compiler import ROOT, Missing
from .predict import COPY, GPUS, PRODUCT, Bound
from .table import Figure, figures


def results(paths: list[Path]) -> dict[str, dict]:
    """Return what was measured, by the device's name."""
    found = {}
    for path in paths:
        data = json.loads(path.read_text())
        if isinstance(data.get("device"), dict) and "parts" in data:
            found[data["device"]["name"]] = data["parts"]
    return found


def measured(figure: Figure, bound: Bound, by_device: dict[str, dict]) -> str:
    """Return the prediction of a benchmark's row, and what the devices of this kind have shown."""
    part, _, row = figure.instance.measured.partition("/")
    if not part:
        return ""
    is_rate = bool(figure.instance.product)
    said = f"{bound.teraflops * PRODUCT:.0f} TF" if is_rate else f"{min(1, bound.share / COPY):.2f} of copy"
    for name, parts in by_device.items():
        values = (parts.get(f"own_{part}", parts.get(part, {})).get("facula") or {}).get(row, {})
        value = values.get("TFLOP_per_s", values.get("forward_TFLOP_per_s")) if is_rate else values.get("of_copy")
        if value is not None and bound.gpu.name in name:
            said += f", measured {value:.0f} TF" if is_rate else f", measured {value:.2f}"
    return f"{row}: {said}"


def line(figure: Figure, bound: Bound, by_device: dict[str, dict]) -> str:
    code, row = figure.code, figure.row
    loads = "+".join(f"{n:g}x{bits}" for bits, n in sorted(code.loads.items(), reverse=True)) or "-"
    rate = f"{bound.teraflops:4.0f} TF" if figure.instance.product else f"{bound.share:7.0%}"
    goal = figure.instance.goal
    reached = "" if goal is None else "yes" if row["instructions"] <= goal[0] and row["flight"] >= goal[1] else "no"
    return (f"{figure.instance.name:28} {bound.gpu.name:5} {row['instructions']:6.1f} {loads:>14} {row['flight']:4} "
            f"{row['registers']:4} {row['spilled']:5} {row['warps']:5} {row['kernels']:7} {rate} {bound.limit:18} {reached:4} "
            f"{measured(figure, bound, by_device)}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only instances with this text in their names")
    parser.add_argument("--gpu", choices=[g.name for g in GPUS], help="one instead of all")
    kept = sorted((ROOT / "benchmarks" / "results").glob("cuda_*/all.json"))
    parser.add_argument("--results", type=Path, nargs="*", default=kept)
    args = parser.parse_args()
    gpus = [g for g in GPUS if args.gpu in (None, g.name)]
    by_device = results(args.results)
    try:
        found = figures(args.only, tuple(sorted({g.capability for g in gpus})))
    except Missing as missing:
        print(f"{missing}: pip install $(python .ci/requirements.py static-kernels)", file=sys.stderr)
        return 1
    print(f"{'kernel':28} {'GPU':5} {'instr':>6} {'loads':>14} {'B':>4} {'regs':>4} {'spill':>5} {'warps':>5} kernels "
          f"{'bound':>7} {'limit':18} goal")  # fmt: skip
    for figure in found:
        for bound in figure.bounds:
            if bound.gpu in gpus:
                print(line(figure, bound, by_device))
    return 0


if __name__ == "__main__":
    sys.exit(main())
