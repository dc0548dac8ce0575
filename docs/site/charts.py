"""The page of charts: what benchmarks/results holds, drawn while the site is built."""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_HEAD = """# Charts

Each chart is one file of `benchmarks/results`: PyTorch's time over Facula's for one statement on the same data. Bars to
the right of 1 are cases where Facula takes less time; a mark on a bar is the ratio that the project aims at. Of more
than forty cases the chart shows the sorted ratios as one curve. What the files mean, and how to measure it yourself:
[performance](performance.md).

"""


def plotter():
    """Return benchmarks/plot.py as a module."""
    spec = importlib.util.spec_from_file_location("plot", ROOT / "benchmarks" / "plot.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["plot"] = module
    spec.loader.exec_module(module)
    return module


def machine_of(data: dict) -> str:
    """Return what the file says of where it was measured."""
    machine = data.get("machine")
    parts = (
        [str(machine.get("cpu")), f"{machine.get('cores')} cores"]
        if isinstance(machine, dict)
        else [str(data.get("cpu") or machine or "")]
    )
    if isinstance(machine, dict):
        parts += [f"instructions {machine['level']}"] if machine.get("level") else []
        parts += [f"PyTorch {machine['pytorch']}"] if machine.get("pytorch", "none") != "none" else []
    parts += [f"{data['threads']} thread{'s' * (data['threads'] != 1)}"] if data.get("threads") else []
    parts += [data["date"]] if data.get("date") else []
    return ", ".join(filter(None, parts))


def write(folder: Path) -> None:
    """Write charts.md, and a drawing for each file of results."""
    plot = plotter()
    results = ROOT / "benchmarks" / "results"
    files = plot.read(results)
    lines = ["| file | cases | median | least | greatest |", "|---|---|---|---|---|"]
    for stem, cases in files.items():
        ratios = [case.ratio for case in cases]
        found = f"{statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.4g}"
        lines.append(f"| [`{stem}`](#{stem.replace('_', '-')}) | {len(cases)} | {found} |")
    (folder / "charts").mkdir(exist_ok=True)
    for stem, cases in files.items():
        plot.draw(stem, cases, folder / "charts" / f"{stem}.svg")
        where = machine_of(json.loads((results / f"{stem}.json").read_text()))
        lines += [
            "",
            f"({stem.replace('_', '-')})=",
            f"## {stem}",
            "",
            *([f"{where}.", ""] if where else []),
            f"![Ratios of {stem}](charts/{stem}.svg)",
        ]
    (folder / "charts.md").write_text(_HEAD + "\n".join(lines) + "\n")
