"""Run the rows of docs/programs.md: programs by others, unmodified, under Facula and under PyTorch, by turns.

    python benchmarks/programs --environment DIR --setup          an environment with the packages, by name, without PyTorch
    python benchmarks/programs --environment DIR --sources DIR --pytorch PYTHON [--only TEXT] [--json FILE]

`rows.toml` has the rows. Packages are installed by name into the environment; repositories are work trees at
SOURCES/OWNER/NAME, which nothing here fetches; a run works on a copy. PYTHON is an interpreter that has PyTorch; it sees the
packages of the environment behind its own. Without `--pytorch` only Facula runs, and nothing is compared.

A row passes when every command ends with status 0, prints what the row expects, and, if the row has `figures`, prints the
lines `name = numbers` that PyTorch prints, to 0.2 % plus 0.0002. The ratio is processor time of PyTorch / Facula, one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RELATIVE, ABSOLUTE = 2e-3, 2e-4
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)")


def python_of(environment):
    """Return the interpreter of an environment."""
    return str(Path(environment) / "bin" / "python")


def setup(environment, rows, common):
    """Make the environment. Packages come without what they require, as they require PyTorch; `common` is the rest."""
    if not Path(python_of(environment)).exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [python_of(environment), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *common], check=True)
    packages = sorted({name for row in rows for name in row.get("packages", [])})
    subprocess.run([*pip, "--no-deps", *packages], check=True)


def laid_out(row, sources, folder):
    """Return the folder in which a row's commands run, with a copy of its repository and the data it reads."""
    if "repository" in row:
        source = Path(sources) / row["repository"]
        if not source.is_dir():
            raise FileNotFoundError(f"{row['name']}: a work tree of {row['repository']} is needed at {source}")
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    sys.path.insert(0, str(HERE))
    import data

    for kind, where in row.get("data", {}).items():
        place = Path(folder) / where
        place.parent.mkdir(parents=True, exist_ok=True)
        getattr(data, kind)(place)
    return Path(folder) / row.get("folder", ".")


def commands_of(row):
    """Return the commands, without the interpreter; each driver is one."""
    drivers = [f"{HERE / 'drivers' / driver}" for driver in row.get("drivers", [])]
    return [*row.get("run", []), *drivers]


def run(row, argument_list, paths, options):
    """Return (seconds of processor time, output, why it failed or "") of a row under one library."""
    with tempfile.TemporaryDirectory() as folder:
        where = laid_out(row, options.sources, folder)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment.update(
            PYTHONPATH=os.pathsep.join([*paths, str(HERE), folder]), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", MPLBACKEND="Agg",
            CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
            PYTHONUNBUFFERED="1", PYTHONHASHSEED="0", HOME=folder, USER="nobody",
        )  # fmt: skip
        environment.update(row.get("environment", {}))
        before, output, why = resource.getrusage(resource.RUSAGE_CHILDREN), "", ""
        for command in commands_of(row):
            try:
                done = subprocess.run(
                    [*argument_list, *shlex.split(command)], cwd=where, env=environment, timeout=row.get("limit", 300),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", stdin=subprocess.DEVNULL,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                why = f"still running after {row.get('limit', 300)} s: {command}"
                break
            output += done.stdout
            if done.returncode:
                last = [line for line in done.stdout.splitlines() if line.strip()][-1:]
                why = f"exit status {done.returncode} of {Path(shlex.split(command)[0]).name}: {' '.join(last)[:200]}"
                break
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, output, why


def unexpected(row, output):
    """Return what the output lacks."""
    for expected in row.get("expect", []):
        found = re.findall(expected["find"], output, re.MULTILINE)
        if len(found) < expected.get("times", 1):
            return f"{expected['find']!r} stands in the output {len(found)} times"
        if {"min", "max"} & expected.keys():
            number = float(found[-1])
            if not expected.get("min", number) <= number <= expected.get("max", number):
                return f"{expected['find']!r} is {number}"
    return ""


def figures(output):
    """Return {name: numbers or text} of the lines `name = ...`."""
    return dict(re.findall(r"^([\w./, -]+?) = (.+)$", output, re.MULTILINE))


def near(a, b):
    """Return whether two lists of numbers, as text, agree; other text has to be the same."""
    left, right = a.split(), b.split()
    if len(left) != len(right) or not all(NUMBER.fullmatch(word) for word in left + right):
        return a == b
    pairs = [(float(x), float(y)) for x, y in zip(left, right, strict=True)]
    return all(x == y or x != x and y != y or abs(x - y) <= ABSOLUTE + RELATIVE * abs(x) for x, y in pairs)


def difference(ours, theirs, known):
    """Return what is unlike PyTorch's figures, but for those that are `known` to differ, by name."""
    ours, theirs = figures(ours), figures(theirs)
    wrong = [name for name in theirs if name not in ours or name not in known and not near(theirs[name], ours[name])]
    if not theirs:
        return "PyTorch printed no figures"
    if not wrong:
        return ""
    return f"{len(wrong)} of {len(theirs)} figures differ: {wrong[0]} is {ours.get(wrong[0])}, PyTorch's {theirs[wrong[0]]}"


def one(row, options):
    """Return the result of a row."""
    packages = subprocess.run(
        [python_of(options.environment), "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True
    ).stdout.strip()
    started = time.time()
    facula = [python_of(options.environment), "-m", "facula"]
    seconds, output, why = run(row, facula, [str(ROOT)], options)
    why = why or unexpected(row, output)
    result = {"row": row["row"], "name": row["name"], "facula_seconds": round(seconds, 1)}
    if options.pytorch:
        theirs, reference, failed = run(row, [options.pytorch, str(HERE / "start.py"), packages], [], options)
        result.update(pytorch_seconds=round(theirs, 1), figures=len(figures(reference)))
        failed = failed or unexpected(row, reference)
        if failed:
            result["pytorch_failed"] = failed
        elif not why:
            result["ratio"] = round(theirs / seconds, 2)
            if row.get("figures"):
                why = difference(output, reference, row.get("known", {}))
            result["known"] = row.get("known", {})
    if options.logs:
        Path(options.logs).mkdir(parents=True, exist_ok=True)
        (Path(options.logs) / f"{row['name']}.facula.txt").write_text(output)
        if options.pytorch:
            (Path(options.logs) / f"{row['name']}.pytorch.txt").write_text(reference)
    return {**result, "passes": not why, "why": why, "seconds": round(time.time() - started, 1)}


def keep(file, result, pytorch):
    """Write a row's result into a file, in the place of an earlier one."""
    written = json.loads(file.read_text()) if file.exists() else {"rows": {}}
    if pytorch:
        command = [pytorch, "-c", "import importlib.metadata; print(importlib.metadata.version('torch'))"]
        written["pytorch"] = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    written["rows"][result.pop("name")] = result
    file.write_text(json.dumps(written, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", required=True)
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--sources", default=".")
    parser.add_argument("--pytorch")
    parser.add_argument("--only", default="", help="names that contain this; several, with commas")
    parser.add_argument("--json", help="a file for the results; rows that are in it already are replaced")
    parser.add_argument("--logs", help="a folder for what the programs print")
    options = parser.parse_args()
    table = tomllib.loads((HERE / "rows.toml").read_text())
    rows = [row for row in table["rows"] if any(part in row["name"] for part in options.only.split(","))]
    if options.setup:
        setup(options.environment, rows, table["common"])
        return
    passed = 0
    for row in rows:
        result = one(row, options)
        passed += result["passes"]
        ratio = f"ratio {result['ratio']:5.2f}" if "ratio" in result else " " * 11
        note = result["why"] or (f"(PyTorch: {result['pytorch_failed']})" if "pytorch_failed" in result else "")
        text = f"{'pass' if result['passes'] else 'FAIL'} {ratio} {result['name']:24} {result['facula_seconds']:6.1f} s  {note}"
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        if options.json:
            keep(Path(options.json), result, options.pytorch)
    sys.stdout.write(f"{passed} of {len(rows)} rows pass\n")


if __name__ == "__main__":
    main()
