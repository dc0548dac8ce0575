"""Draws docs/drawings/*.svg, boxes, arrows and a chart: `python docs/site/drawings.py`. A test checks that they are current."""

from __future__ import annotations

import json
import math
import statistics
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "drawings"
RESULTS = FOLDER.parents[1] / "benchmarks" / "results"
INK, LINE, FILLS = (
    "#22313f",
    "#7f8c8d",
    {"python": "#fdebd0", "core": "#d6eaf8", "made": "#e8daef", "device": "#d5f5e3", "plain": "#f4f6f7"},
)
FONT = 'font-family="system-ui, sans-serif"'


class Drawing:
    def __init__(self, width: int, height: int, title: str):
        self.width, self.height = width, height
        self.parts = [f"<title>{escape(title)}</title>", f'<rect width="{width}" height="{height}" fill="white"/>']

    def box(self, x: int, y: int, width: int, height: int, name: str, text: str = "", kind: str = "plain") -> None:
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{FILLS[kind]}" stroke="{LINE}"/>'
        )
        lines = text.split("\n") if text else []
        top = y + height / 2 - 8 * len(lines) + 5
        self.text(x + width / 2, top, name, bold=True)
        for at, line in enumerate(lines):
            self.text(x + width / 2, top + 17 * (at + 1), line, size=12)

    def text(self, x: float, y: float, text: str, size: int = 14, bold: bool = False, anchor: str = "middle") -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{INK}" {FONT}{weight}>'
            f"{escape(text)}</text>"
        )

    def arrow(self, x1: int, y1: int, x2: int, y2: int, label: str = "", dashed: bool = False) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="1.6"'
        self.parts.append(f'{line} marker-end="url(#tip)"{dash}/>')
        if label:
            self.text(
                (x1 + x2) / 2 + (8 if x1 == x2 else 0),
                (y1 + y2) / 2 + (4 if x1 == x2 else -6),
                label,
                12,
                anchor="start" if x1 == x2 else "middle",
            )

    def __str__(self) -> str:
        tip = (f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
               f'<path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker></defs>')  # fmt: skip
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
        return "\n".join([head, tip, *self.parts, "</svg>", ""])


def layers() -> Drawing:
    """Return the folders of src, each above those that it includes."""
    d = Drawing(760, 470, "The layers of Facula")
    d.box(20, 15, 350, 50, "facula/", "the Python package", "python")
    d.box(390, 15, 350, 50, "programs in C++, C and Rust", "include/, bindings/", "python")
    d.box(20, 90, 350, 50, "src/python", "the only code that includes Python.h", "python")
    d.box(390, 90, 350, 50, "src/cxx, src/capi, src/run", "torch:: in C++, the C interface, facula-run", "python")
    d.box(20, 165, 350, 50, "src/distributed", "stores, groups, collectives", "core")
    d.box(390, 165, 350, 50, "src/program, src/composite, src/sparse", "programs as data; ops written with ops", "core")
    d.box(
        20,
        240,
        720,
        50,
        "functions (generated from ops/)",
        "one flags word is tested: plain call, or autograd, autocast, vmap, observers",
        "made",
    )
    d.box(20, 315, 230, 50, "src/autograd", "nodes, engine, saved values", "core")
    d.box(265, 315, 230, 50, "src/observe, src/profiler", "who watches ops", "core")
    d.box(510, 315, 230, 50, "src/ops", "shapes, dtypes, kernel tables", "core")
    d.box(20, 390, 230, 50, "src/core", "tensor, storage, dtype, allocator", "core")
    d.box(265, 390, 230, 50, "src/cpu, src/cuda", "the columns of the tables", "device")
    d.box(510, 390, 230, 50, "src/kernels", "plain functions of single elements", "device")
    d.text(380, 462, "Includes point downward only; a test checks it.", 12)
    return d


def op() -> Drawing:
    """Return what happens at `a * b`."""
    d = Drawing(760, 400, "The life of a * b")
    d.box(20, 20, 200, 56, "a * b", "nb_multiply in src/python", "python")
    d.box(280, 20, 200, 56, "facula::mul", "generated; tests the flags", "made")
    d.box(540, 20, 200, 56, "ops::mul", "shape and dtype rules", "core")
    d.arrow(220, 48, 280, 48)
    d.arrow(480, 48, 540, 48, "plain")
    d.box(540, 130, 200, 56, "loop_table[mul][dtype]", "small and contiguous: one call", "device")
    d.box(540, 240, 200, 66, "the plan", "broadcast, promote,\norder and collapse dimensions", "core")
    d.arrow(640, 76, 640, 130)
    d.arrow(640, 186, 640, 240, "else")
    d.box(280, 240, 200, 66, "the device runs it", "chunks, threads;\nCPU level or CUDA kernel", "device")
    d.arrow(540, 273, 480, 273)
    d.box(280, 340, 200, 46, "kernels::mul", "x * y", "device")
    d.arrow(380, 306, 380, 340)
    d.box(20, 130, 200, 56, "the slow path", "observers, autocast, vmap", "made")
    d.arrow(330, 76, 180, 130, "a flag is set", True)
    d.box(20, 240, 200, 66, "MulBackward", "saves what the formula names;\nhangs on the result", "core")
    d.arrow(120, 186, 120, 240, "a gradient is wanted", True)
    d.arrow(220, 150, 540, 60, dashed=True)
    return d


def backward() -> Drawing:
    """Return what happens at `loss.backward()`."""
    d = Drawing(760, 210, "The life of loss.backward()")
    names = ["loss", "MeanBackward", "PowBackward", "SubBackward", "MmBackward"]
    for at, name in enumerate(names):
        d.box(15 + 148 * at, 30, 122, 46, name, "", "core" if at else "plain")
        if at:
            d.arrow(137 + 148 * (at - 1), 53, 15 + 148 * at, 53)
    d.box(607, 130, 122, 46, "weight.grad", "added up", "plain")
    d.arrow(668, 76, 668, 130)
    d.box(
        15, 110, 270, 70, "the engine", "counts edges, then runs a node when all\nof them have delivered, latest first", "made"
    )
    d.box(
        311, 110, 270, 70, "between nodes", "gradients are made to fit the output:\nbroadcasting undone, dtype restored", "made"
    )
    return d


def generated() -> Drawing:
    """Return what codegen makes of a statement."""
    d = Drawing(760, 330, "What is made from a statement in ops/")
    d.box(20, 120, 190, 80, "ops/<topic>.yaml", "signature, kind, dtypes,\ngrad, doc, example", "plain")
    d.box(270, 120, 140, 80, "codegen/", "emit_*.py", "made")
    d.arrow(210, 160, 270, 160)
    results = [
        ("functions and nodes of C++", "core"), ("Python: signatures, help, stubs", "python"),
        ("rules for vmap and autocast", "core"),
        ("tables of kernels", "device"), ("schema.json: C, Rust, programs", "core"),
        ("pages of this site", "python"), ("rows of the tests", "python"),
    ]  # fmt: skip
    for at, (name, kind) in enumerate(results):
        y = 10 + 45 * at
        d.box(470, y, 270, 36, name, "", kind)
        d.arrow(410, 160, 470, y + 18)
    return d


def measured() -> dict[str, list[tuple[str, float]]]:
    """Return how many times as much PyTorch takes, in groups, from benchmarks/results."""

    def read(stem: str) -> dict:
        return json.loads((RESULTS / f"{stem}.json").read_text())

    importing = read("importing_2core_amd")
    small = {row["name"]: row["ratio"] for row in read("micro_v3_2core_amd")["rows"]}
    sizes = {"small": "ops on some 250 elements", "middle": "ops on 65,536 elements", "large": "ops on a million elements"}
    cases = read("sweep_v3_1t_2core_amd")["cases"]
    ratios = {size: [case["ratio"] for case in cases if case["size"] == size] for size in sizes}
    speeds = {row["name"].partition(",")[0]: row["measured"] for row in read("table1_2t_2core_amd")["rows"]}
    steps = {row["name"]: row["ratio"] for row in read("models_v3_2t_2core_amd")["rows"]}
    models = ("NCF", "MobileNet v2", "AlexNet", "ResNet-50")
    return {
        "starting": [
            ("processor time of the import", importing["torch"]["processor s"] / importing["facula"]["processor s"]),
            ("size of the package", importing["torch"]["installed MB"] / importing["facula"]["installed MB"]),
            ("memory after the import", importing["torch"]["MB"] / importing["facula"]["MB"]),
        ],
        "ops": [
            ("a + b of four elements", small["a + b"]),
            *((f"{text}, median", statistics.median(ratios[size])) for size, text in sizes.items()),
        ],
        "training": [
            *((f"{name}", speeds[name]["facula"]["per_second"] / speeds[name]["torch"]["per_second"]) for name in models),
            ("a small GPT", steps["GPT, batch 8"]),
        ],
    }  # fmt: skip


def ratios() -> Drawing:
    """Return the chart of README: bars on a logarithmic scale from 1 to 30."""
    groups = measured()
    height = 62 + sum(26 * len(rows) + 14 for rows in groups.values())
    d = Drawing(760, height, "How many times as much PyTorch takes as Facula")
    left, width = 300, 400

    def place(ratio: float) -> float:
        return left + width * math.log(ratio) / math.log(30)

    y = 46
    for tick in (1, 2, 5, 10, 20):
        x = place(tick)
        d.parts.append(f'<line x1="{x:.1f}" y1="34" x2="{x:.1f}" y2="{height - 12}" stroke="{LINE}" stroke-width="0.5"/>')
        d.text(x, 28, f"{tick}x", 12)
    d.text(16, 28, "PyTorch's time, size or memory over Facula's", 12, anchor="start")
    for (name, rows), color in zip(groups.items(), ("#8e63ce", "#2f80d0", "#2a9d5c"), strict=True):
        d.text(16, y + 15, name, 13, bold=True, anchor="start")
        for label, ratio in rows:
            end = place(ratio)
            d.parts.append(f'<rect x="{left}" y="{y + 3}" width="{end - left:.1f}" height="16" rx="2" fill="{color}"/>')
            d.text(left - 8, y + 15, label, 12, anchor="end")
            d.text(end + 6, y + 15, f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}", 12, anchor="start")
            y += 26
        y += 14
    return d


DRAWINGS = {"layers": layers, "op": op, "backward": backward, "generated": generated, "ratios": ratios}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(str(draw()))
