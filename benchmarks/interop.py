"""Share memory with NumPy and through DLPack: Facula against PyTorch, by turns in one process, one thread.

    python benchmarks/interop.py [--repeat 7] [--bytes 1024 1000000000] [--json FILE]

Needs PyTorch beside Facula. Every case makes a tensor or an array on memory that exists already, so its time should not
depend on the size: `growth` is Facula's time for the largest size over that for the smallest. Times are the minimum over
alternating repeats; only ratios mean anything.
"""

from __future__ import annotations

import argparse
import json
import timeit

import numpy as np
import torch

import facula

CASES = {
    "from_numpy": "m.from_numpy(array)",
    "as_tensor(array)": "m.as_tensor(array)",
    "asarray(array)": "m.asarray(array)",
    "frombuffer": "m.frombuffer(buffer, dtype=m.float32)",
    ".numpy()": "tensor.numpy()",
    "numpy.asarray": "np.asarray(tensor)",
    "from_dlpack(array)": "m.from_dlpack(array)",
    "numpy.from_dlpack": "np.from_dlpack(tensor)",
    "from_dlpack(other library)": "m.from_dlpack(other)",
}


def scopes(nbytes: int):
    """Return what the statements see, per library; all of them on one array of zeros that is never touched."""
    array = np.zeros(nbytes // 4, np.float32)
    found = {}
    for module, other in ((facula, torch), (torch, facula)):
        found[module.__name__] = {
            "m": module, "np": np, "array": array, "buffer": memoryview(array).cast("B"),
            "tensor": module.from_numpy(array), "other": other.from_numpy(array),
        }  # fmt: skip
    return found


def check_sharing(scope):
    """Check that a write through the result is seen in the array: nothing here may copy."""
    for statement in CASES.values():
        result = eval(statement, scope)
        for value in (1.0, 0.0):
            result[0] = value
            assert scope["array"][0] == value, f"{statement} copies"


def measure(sizes: list[int], repeat: int, number: int = 2000):
    """Return the nanoseconds by case, size and library."""
    best = {name: {size: {} for size in sizes} for name in CASES}
    everything = {size: scopes(size) for size in sizes}
    for by_library in everything.values():
        for scope in by_library.values():
            check_sharing(scope)
    for _ in range(repeat):
        for name, statement in CASES.items():
            for size, by_library in everything.items():
                for library, scope in by_library.items():
                    seconds = timeit.timeit(statement, globals=scope, number=number) / number
                    best[name][size][library] = min(best[name][size].get(library, float("inf")), seconds * 1e9)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--bytes", type=int, nargs="+", default=[1024, 1_000_000_000])
    parser.add_argument("--json")
    options = parser.parse_args()
    best = measure(sorted(options.bytes), options.repeat)
    smallest, largest = min(options.bytes), max(options.bytes)
    print(f"{'case':28}{'bytes':>12}{'facula ns':>11}{'torch ns':>10}{'ratio':>7}{'growth':>8}")
    for name, by_size in best.items():
        growth = by_size[largest]["facula"] / by_size[smallest]["facula"]
        for size, t in by_size.items():
            print(f"{name:28}{size:12}{t['facula']:11.0f}{t['torch']:10.0f}{t['torch'] / t['facula']:7.2f}{growth:8.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(best, file, indent=1)


if __name__ == "__main__":
    main()
