"""Cost of an op from Python on tensors of 4 elements: Facula against PyTorch, by turns in one process, one thread.

    python benchmarks/micro.py [--repeat 7] [--json FILE]

Needs PyTorch beside Facula. Times are the minimum over alternating repeats; only the ratio means anything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import timeit

import torch

import facula

CASES = {
    "a+b": "a + b",
    "a*2.0": "a * 2.0",
    "a[0]": "a[0]",
    "a.view": "a.view(2, 2)",
    "a.sum()": "a.sum()",
    "empty(4)": "m.empty(4)",
    "mm 4x4": "m.mm(M, M)",
    "M+a (broadcast)": "M + a",
    "a.t() 4x4": "M.t()",
    "relu": "m.relu(a)",
    "g*2.0 recorded": "g * 2.0",
    "g+b recorded": "g + b",
    "(g*b).sum().backward()": "(g * b).sum().backward()",
}


def environment(module):
    g = module.ones(4)
    g.requires_grad_()
    return {"m": module, "a": module.ones(4), "b": module.ones(4), "g": g, "M": module.ones(4, 4)}


def measure(repeat: int) -> dict[str, dict[str, float]]:
    facula.set_num_threads(1)
    torch.set_num_threads(1)
    sides = {"facula": environment(facula), "torch": environment(torch)}
    best: dict[str, dict[str, float]] = {name: {} for name in CASES}
    for _ in range(repeat):
        for name, statement in CASES.items():
            number = 4000 if "backward" in name else 20000
            for side, scope in sides.items():
                try:
                    seconds = timeit.timeit(statement, globals=scope, number=number) / number
                except (AttributeError, NotImplementedError):
                    continue
                best[name][side] = min(best[name].get(side, float("inf")), seconds * 1e9)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", help="write the figures here")
    options = parser.parse_args()
    best = measure(options.repeat)
    ratios = []
    print(f"{'op':28} {'facula ns':>10} {'torch ns':>10} {'ratio':>7}")
    for name, times in best.items():
        if len(times) < 2:
            print(f"{name:28} missing")
            continue
        ratio = times["torch"] / times["facula"]
        ratios.append(ratio)
        print(f"{name:28} {times['facula']:10.1f} {times['torch']:10.1f} {ratio:7.1f}")
    print(f"median ratio {statistics.median(ratios):.1f}, lowest {min(ratios):.1f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(best, file, indent=1)


if __name__ == "__main__":
    main()
