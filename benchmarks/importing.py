"""Measure what importing costs: processor time and memory of a new interpreter that imports Facula, NumPy or PyTorch, and the
size of the installed package.

    python benchmarks/importing.py [--pytorch /path/to/python] [--rounds 15] [--json FILE]

Interpreters start by turns; the smallest of each is kept, so what Python compiles on the first import does not count.
`--pytorch` names the interpreter of an environment with PyTorch, where that is another one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from machine import describe

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
PROGRAM = "import {}, resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def measure(python: str, module: str) -> tuple[float, float]:
    """Return (seconds of processor time, MB at the most) of one interpreter."""
    before = os.times()
    command = [python, "-c", PROGRAM.format(module)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, int(said) / 1000


def installed(python: str, module: str) -> float:
    """Return the MB of a package's folder, without what Python compiles."""
    program = f"import importlib.util; print(importlib.util.find_spec({module!r}).submodule_search_locations[0])"
    folder = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout.strip()
    files = [os.path.join(at, name) for at, _, names in os.walk(folder) if not at.endswith("__pycache__") for name in names]
    return sum(os.path.getsize(file) for file in files) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pytorch", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    pythons = {"facula": sys.executable, "numpy": sys.executable, "torch": options.pytorch}
    found: dict[str, list[tuple[float, float]]] = {module: [] for module in pythons}
    for _ in range(options.rounds):
        for module, python in pythons.items():
            found[module].append(measure(python, module))
    rows = {
        module: {"processor s": round(min(s for s, _ in each), 3), "MB": round(min(mb for _, mb in each), 1)}
        for module, each in found.items()
    }
    for module, python in pythons.items():
        rows[module]["installed MB"] = round(installed(python, module), 1)
    rows["torch over facula"] = round(rows["torch"]["processor s"] / rows["facula"]["processor s"], 1)
    for name, row in rows.items():
        print(name, row)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": describe(), "rounds": options.rounds, **rows}, file, indent=1)


if __name__ == "__main__":
    main()
