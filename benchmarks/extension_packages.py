"""Build packages with extensions in C++ from their unmodified checkouts, and run their own tests on the CPU.

    python -m benchmarks.extension_packages CHECKOUT ... [--json FILE] [--jobs 2] [--select EXPRESSION]

Each checkout is built by `python -m facula setup.py build_ext --inplace`, then its tests (in `test` or `tests`) run under
`python -m facula -m pytest`; `--select` is pytest's -k.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(command: list[str], folder: Path, jobs: int) -> tuple[int, str]:
    """Return the status and output."""
    paths = [str(ROOT), str(folder), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "MAX_JOBS": str(jobs), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


def measured(folder: Path, options: argparse.Namespace) -> dict:
    asked = ["git", "-C", folder, "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    status, output = run(["-m", "facula", "setup.py", "build_ext", "--inplace"], folder, options.jobs)
    if status:
        return {"commit": commit, "built": False, "why": re.findall(r".*error:.*", output)[:5] or output[-500:]}
    tests = next(name for name in ("test", "tests") if (folder / name).is_dir())
    select = ["-k", options.select] if options.select else []
    pytest = ["-m", "facula", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    _, output = run([*pytest, tests, *select], folder, options.jobs)
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|skipped|errors?|deselected)", output)}
    failures = [line.replace(str(folder), "") for line in re.findall(r"^(?:FAILED|ERROR) (.*)", output, re.M)]
    return {"commit": commit, "built": True, "tests": counts, "failures": failures[:20]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="extension_packages", description=__doc__)
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--select")
    options = parser.parse_args()
    found = {folder.name: measured(folder.resolve(), options) for folder in options.checkouts}
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps({"what": (__doc__ or "").partition("\n")[0], "packages": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
