"""Count how many of the names that public programs use exist, and how many a test calls: `python benchmarks/names.py`.

The names are those of `tests/data/used_names.txt`: everything that 66 public repositories use of PyTorch, found in
their source. Names that `facula/compat/not_here.py` lists for devices and services that cannot exist here, or as
removed by PyTorch, do not count. A name is called by a test if it is an op that `tests/test_ops.py` calls, or if its
last part occurs in a file of tests/ (`tests/data` does not count), which is weaker than it sounds for names such as
`add`. The result goes to benchmarks/results/names.json.
"""

import importlib
import json
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: reasons in not_here.py that no amount of work here takes away
CANNOT = frozenset({"devices", "cuda", "vendor"})
#: what instances have, and their classes need not
OF_INSTANCES = {
    "torch.nn.Module.training": "torch.nn.Module()",
    "torch.optim.Optimizer.param_groups": "torch.optim.SGD([torch.ones(1)], lr=1)",
}  # fmt: skip


def names():
    """Return the full names of the list."""
    lines = (ROOT / "tests" / "data" / "used_names.txt").read_text().splitlines()[1:]
    return [f"{home}.{last}" for home, _, rest in (line.partition(": ") for line in lines) for last in rest.split()]


def found(full, torch):
    """Return the object that a name means; an exception where there is none."""
    if full in OF_INSTANCES:
        return getattr(eval(OF_INSTANCES[full], {"torch": torch}), full.rpartition(".")[2])
    value, path = torch, "torch"
    for part in full.split(".")[1:]:
        path += f".{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(path)
    return value


def survey():
    """Return {"here": names, "missing": {name: reason}, "cannot": names}, in this process, where `torch` becomes Facula."""
    from facula.compat import install, not_here
    from facula.compat.placeholders import Unsupported

    install()
    import torch

    def missing(value):
        whole = isinstance(value, types.ModuleType) and value.__name__ in not_here.REASON_OF_MODULE
        function = getattr(value, "_function", None)  # an operator that is refused when it is called
        if getattr(getattr(function, "func", None), "__name__", "") == "_refuse":
            return True
        return isinstance(value, Unsupported) or hasattr(value, "_facula_missing") or whole and not hasattr(value, "__file__")

    result = {"here": [], "missing": {}, "cannot": []}
    for full in names():
        reason = not_here.reason_of(full)
        try:
            absent = missing(found(full, torch))
        except Exception as error:  # noqa: BLE001 - whatever keeps a program from getting the name
            absent, reason = True, reason or type(error).__name__
        if not absent:
            result["here"].append(full)
        elif reason in CANNOT or full in not_here.REMOVED:
            result["cannot"].append(full)
        else:
            result["missing"][full] = reason
    return result


def called(full):
    """Return the names whose last part stands in a test."""
    sys.path.append(str(ROOT / "tests"))
    from op_samples import all_ops, has_samples

    ops = {op.name for op in all_ops() if has_samples(op)}  # which tests/test_ops.py calls, in place, too
    words = ops | {f"{name}_" for name in ops}
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        words.update(re.findall(r"\w+", text))
        words.update(f"__{name}__" for name in re.findall(r"operator\.(\w+)", text))
    return [name for name in full if name.rpartition(".")[2] in words]


def main():
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT))
    result = survey()
    here, cannot = result["here"], result["cannot"]
    counted = len(here) + len(result["missing"])
    tested = called(here)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    summary = {
        "names": counted, "here": len(here), "here_percent": round(100 * len(here) / counted, 1),
        "here_and_in_a_test": len(tested), "here_and_in_a_test_percent": round(100 * len(tested) / counted, 1),
        "cannot_be_here": len(cannot), "commit": commit, "missing": result["missing"],
        "in_no_test": sorted(set(here) - set(tested)),
    }  # fmt: skip
    (ROOT / "benchmarks" / "results" / "names.json").write_text(json.dumps(summary, indent=1) + "\n")
    sys.stdout.write("\n".join(f"{key} {summary[key]}" for key in list(summary)[:6]) + "\n")


if __name__ == "__main__":
    main()
