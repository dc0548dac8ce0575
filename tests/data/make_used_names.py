"""Writes used_names.txt: which of PyTorch's names public programs use, by where the names are.

Needs PyTorch 2.13, and is run by hand: `python tests/data/make_used_names.py uses.csv`. The table has a row for each name that
the sources of 66 public repositories take from `torch`, with at least the columns `name` and `kind`: a method stands as
`Tensor.add_`, what modules and optimizers have as `Optimizer/Module.step`; names that PyTorch does not define are of the
kind `absent` and are left out, and so is what this PyTorch has no longer.
"""

import csv
import importlib
import sys
import warnings
from pathlib import Path

#: names that instances have, whose classes need not
OF_INSTANCES = {"torch.nn.Module.training", "torch.optim.Optimizer.param_groups"}


def full_name(name):
    """The name as a program would write it."""
    owner, _, last = name.rpartition(".")
    if owner.startswith("Optimizer"):
        return f"torch.optim.Optimizer.{last}"
    return name if name == "torch" or name.startswith("torch.") else f"torch.{name}"


def exists(name):
    """Whether PyTorch has it."""
    value, path = importlib.import_module("torch"), "torch"
    for part in name.split(".")[1:]:
        path += f".{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(path)
            except ImportError as error:  # of another package, which one of PyTorch's modules needs
                return name in OF_INSTANCES or not (error.name or path).startswith("torch")
    return True


def main():
    warnings.simplefilter("ignore")
    with open(sys.argv[1], newline="") as table:
        names = {full_name(row["name"]) for row in csv.DictReader(table) if row["kind"] != "absent"}
    homes = {}
    for name in sorted(filter(exists, names)):
        home, _, last = name.rpartition(".")
        homes.setdefault(home, []).append(last)
    with open(Path(__file__).with_name("used_names.txt"), "w") as file:
        file.write("# names of PyTorch that public programs use (66 repositories), by where they are; see benchmarks/names.py\n")
        for home in sorted(homes):
            file.write(f"{home}: {' '.join(homes[home])}\n")


if __name__ == "__main__":
    main()
