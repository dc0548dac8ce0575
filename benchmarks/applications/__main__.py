"""Measure whole programs as users have them, Facula against PyTorch: a unit of work of each, by turns.

    python benchmarks/applications [--threads 2] [--level v3] [--only TEXT] [--rounds 7] [--json FILE]
    python benchmarks/applications --busy          with one foreign busy thread for each core beside it

Needs PyTorch beside Facula, and the packages of requirements.txt. The programs import `torch`; one process runs them under
PyTorch, the other under `python -m facula`. A time is the median over the turns; `differs` compares the first results of those
whose numbers do not depend on each library's own random ones.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from machine import add_level, at_level, describe  # noqa: E402
from turns import Failed, Process, busy, by_turns, slowdowns  # noqa: E402

KINDS = ("language", "pictures", "science", "tables")
TURN = 0.5  # seconds
LIMIT = 300  # seconds that one answer may take


def programs() -> list[tuple[str, str, str, bool]]:
    """Return kind, name, description and exactness of all, read from the files without running them."""
    found = []
    for kind in KINDS:
        for node in ast.parse((HERE / f"{kind}.py").read_text()).body:
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "application":
                    found.append((kind, node.name, mark.args[0].value, not mark.keywords))
    return found


def measure(kind: str, name: str, about: str, exact: bool, options) -> dict:
    worker = [str(HERE / "worker.py"), kind, name, str(options.threads)]
    commands = {"facula": [sys.executable, "-m", "facula", *worker], "torch": [sys.executable, *worker]}
    workers: dict[str, Process] = {}
    try:
        for framework, command in commands.items():
            workers[framework] = Process(command, LIMIT, quiet=True)
        by_turns(workers, 1, seconds=0)
        row = {"name": about, "application": name, "threads": options.threads}
        row["measured"] = by_turns(workers, options.rounds, seconds=TURN)
        if options.busy:
            with busy(options.threads):
                row["busy"] = by_turns(workers, options.rounds, seconds=TURN)
    finally:
        for process in workers.values():
            process.end()
    ours, theirs = row["measured"]["facula"], row["measured"]["torch"]
    row["ratio"], row["ratio_of_minima"] = theirs["seconds"] / ours["seconds"], theirs["least"] / ours["least"]
    results = [workers[framework].first["result"] for framework in commands]
    row["differs"] = abs(results[0] - results[1]) / max(abs(results[1]), 1e-12) if exact else None
    return row


def line_of(row: dict) -> str:
    measured = row["measured"]
    parts = [
        f"{row['name']:78}",
        *(f"{measured[framework]['seconds'] * 1e3:9.2f}" for framework in ("facula", "torch")),
        f"{row['ratio']:6.2f} {row['ratio_of_minima']:6.2f}",
        f"{'' if row['differs'] is None else format(row['differs'], '.1e'):>8}",
    ]
    return " ".join(parts) + slowdowns(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="programs whose name contains one of these, with commas between")
    parser.add_argument("--busy", action="store_true", help="also with one foreign busy thread for each core")
    parser.add_argument("--json", help="write the figures here")
    add_level(parser)
    options = parser.parse_args()
    at_level(options.level)
    print(f"{'times in ms':78} {'facula':>9} {'torch':>9} {'ratio':>6} {'(min)':>6} {'differs':>8}", flush=True)
    rows = []
    for kind, name, about, exact in programs():
        if not any(part in name for part in options.only.split(",")):
            continue
        try:
            rows.append(measure(kind, name, about, exact, options))
            print(line_of(rows[-1]), flush=True)
        except Failed as failure:
            print(f"{about:78} {failure}", flush=True)
    if rows:
        ratios = [row["ratio"] for row in rows]
        print(f"median {statistics.median(ratios):.2f}, least {min(ratios):.2f}")
    if options.json:
        facts = {"threads": options.threads, "machine": describe(), "date": time.strftime("%Y-%m-%d"), "rows": rows}
        with open(options.json, "w") as file:
            json.dump(facts, file, indent=1)


if __name__ == "__main__":
    main()
