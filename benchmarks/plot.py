"""Draw the contents of benchmarks/results: how many times faster Facula is than PyTorch, a panel for each file.

    python benchmarks/plot.py [--out docs/performance.svg]

Needs Matplotlib, not PyTorch. A bar to the right of the line at 1 is a case where Facula takes less time; a mark on a bar
is the ratio that the project aims at. Of more than forty cases, it shows the sorted ratios as one curve.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

HERE = Path(__file__).parent
FASTER, SLOWER, INK, MUTED = "#2e86c1", "#c0392b", "#22313f", "#8395a7"
MOST_BARS = 40


@dataclass(frozen=True)
class Case:
    name: str
    ratio: float  # PyTorch's time over Facula's
    target: float | None = None


def cases_of(data: dict) -> list[Case]:
    """Return the cases of one result file, whichever benchmark wrote it; without those that have no ratio."""
    rows = data.get("rows") or data.get("cases")
    if isinstance(rows, list):
        cases = [Case(name_of(row), row["ratio"], row.get("target")) for row in rows if "ratio" in row]
    else:
        table = data.get("nanoseconds", data)
        timed = [(name, t) for name, t in table.items() if isinstance(t, dict) and {"torch", "facula"} <= t.keys()]
        cases = [Case(name, times["torch"] / times["facula"]) for name, times in timed]
    return [case for case in cases if math.isfinite(case.ratio) and case.ratio > 0]


def name_of(row: dict) -> str:
    name = next(row[key] for key in ("name", "row", "case", "statement") if row.get(key))
    return f"{name}, {row['threads']} threads" if row.get("threads", 1) != 1 else name


def draw_bars(axes, cases: list[Case]) -> None:
    places = range(len(cases))
    colors = [FASTER if case.ratio >= 1 else SLOWER for case in cases]
    axes.barh(places, [case.ratio - 1 for case in cases], left=1, color=colors, height=0.62)
    for place, case in zip(places, cases):
        inside = {"ha": "left" if case.ratio >= 1 else "right", "xytext": (4 if case.ratio >= 1 else -4, 0)}
        axes.annotate(f"{case.ratio:.3g}", (case.ratio, place), textcoords="offset points", va="center", fontsize=8, **inside)
        if case.target:
            axes.plot([case.target] * 2, [place - 0.4, place + 0.4], color=INK, linewidth=1.4)
    axes.set_yticks(places, [case.name for case in cases], fontsize=8)
    axes.set_ylim(-0.7, len(cases) - 0.3)


def draw_curve(axes, cases: list[Case]) -> None:
    ratios = [case.ratio for case in cases]
    places = range(len(cases))
    axes.fill_betweenx(places, 1, ratios, where=[r >= 1 for r in ratios], color=FASTER, linewidth=0, step="mid")
    axes.fill_betweenx(places, 1, ratios, where=[r < 1 for r in ratios], color=SLOWER, linewidth=0, step="mid")
    axes.set_yticks([])
    slower = sum(ratio < 1 for ratio in ratios)
    text = f"{len(cases)} cases, sorted\nmedian {statistics.median(ratios):.2f}\n{slower} slower than PyTorch"
    axes.annotate(text, (0.97, 0.06), xycoords="axes fraction", ha="right", fontsize=9)


def panel(axes, title: str, cases: list[Case]) -> None:
    cases = sorted(cases, key=lambda case: case.ratio)
    (draw_curve if len(cases) > MOST_BARS else draw_bars)(axes, cases)
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_xscale("log")
    low, high = min(0.8, cases[0].ratio / 1.3), max(2, cases[-1].ratio * 1.5)
    axes.set_xlim(low, high)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color=MUTED, alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.set_title(title, loc="left", fontsize=10)


def read(results: Path) -> dict[str, list[Case]]:
    """Return the cases of every result file that has some, by the file's name."""
    files = {path.stem: cases_of(json.loads(path.read_text())) for path in sorted(results.glob("*.json"))}
    return {stem: cases for stem, cases in files.items() if cases}


def draw(stem: str, cases: list[Case], out: Path) -> None:
    """Write a drawing of one result file, as SVG."""
    settings = {
        "svg.hashsalt": "facula", "svg.fonttype": "none", "font.family": "sans-serif", "text.color": INK, "xtick.color": INK,
        "ytick.color": INK, "axes.edgecolor": MUTED, "axes.spines.top": False, "axes.spines.right": False,
        "axes.spines.left": False,
    }  # fmt: skip
    with plt.rc_context(settings):
        height = 0.24 * len(cases) + 0.9 if len(cases) <= MOST_BARS else 4.5
        figure, axes = plt.subplots(figsize=(8, height), layout="constrained")
        panel(axes, f"{stem}: time of PyTorch over time of Facula", cases)
        figure.savefig(out, metadata={"Date": None}, facecolor="white")
        plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the result files")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "plots", help="folder for the drawings")
    options = parser.parse_args(arguments)
    files = read(options.results)
    if not files:
        parser.error(f"no result files in {options.results}")
    options.out.mkdir(parents=True, exist_ok=True)
    for stem, cases in files.items():
        draw(stem, cases, options.out / f"{stem}.svg")
    print(f"wrote {options.out}: {sum(map(len, files.values()))} cases of {len(files)} files")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
