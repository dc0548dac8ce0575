"""Measure Fourier transforms against PyTorch's (MKL), by turns in one process: lengths, dtypes, one line and many.

    python benchmarks/fft.py [--threads 1] [--level v3] [--rounds 9] [--only TEXT] [--json FILE]

Needs PyTorch beside Facula. Rows are named by what is transformed: `rfft f32 93x1409` are 93 lines of 1409 real numbers.
A time is the minimum over alternating slices; only the ratio (PyTorch's time over Facula's) means anything.
"""

from __future__ import annotations

import statistics
import timeit

import torch
from machine import row_options, save_rows

import facula

SLICE = 0.004  # seconds: short enough that both sides see the same load

LENGTHS = {
    "powers of two": [2**k for k in range(3, 21)],
    "mixed": [12, 60, 100, 360, 1000, 1200, 1536, 5000, 10_000, 44_100, 48_000, 100_000, 1_000_000],
    "primes": [31, 127, 1009, 10_007, 65_537, 1_000_003],
}
POINTS = 1 << 17  # of many lines together
DTYPES = {"f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}


def rows() -> list[dict]:
    table = []
    for group, lengths in LENGTHS.items():
        for n in lengths:
            for lines in dict.fromkeys([1, max(1, POINTS // n)]):
                for name, dtype in [("fft", "c64"), ("fft", "c128"), ("rfft", "f32"), ("irfft", "c64"), ("rfft", "f64")]:
                    table.append({"group": group, "op": name, "dtype": dtype, "lines": lines, "n": n, "dims": [-1]})
    for name, dtype in [("fft", "f32"), ("fft", "f64"), ("irfft", "c128")]:
        for n in (64, 1000, 1024, 1009, 65_536):
            table.append({"group": "real", "op": name, "dtype": dtype, "lines": max(1, POINTS // 2 // n), "n": n, "dims": [-1]})
    for name, dtype in [("fft", "c64"), ("fft", "c128"), ("rfft", "f32"), ("irfft", "c64")]:
        for n in (64, 1000, 1024):  # along the first dimension
            table.append({"group": "columns", "op": name, "dtype": dtype, "lines": POINTS // n, "n": n, "dims": [0]})
        for shape in ((512, 512), (360, 480)):
            table.append({"group": "planes", "op": name, "dtype": dtype, "lines": shape[0], "n": shape[1], "dims": [0, 1]})
    return table


def row_name(row: dict) -> str:
    where = {(-1,): "", (0,): " dim 0", (0, 1): " 2-D"}[tuple(row["dims"])]
    return f"{row['op']} {row['dtype']} {row['lines']}x{row['n']}{where}"


def call_of(module, row: dict):
    """Return a call without arguments, the same in both libraries."""
    shape = [row["n"], row["lines"]] if row["dims"] == [0] else [row["lines"], row["n"]]
    n = row["n"]
    if row["op"] == "irfft":
        last = shape.index(n) if row["dims"] == [0] else 1
        shape[last] = n // 2 + 1
    x = module.ones(shape, dtype=getattr(module, DTYPES[row["dtype"]]))
    if row["lines"] == 1:
        x = x.reshape(-1)
    f = getattr(module.fft, row["op"] + ("2" if len(row["dims"]) == 2 else ""))
    if len(row["dims"]) == 2:
        return lambda: f(x)
    dim = row["dims"][0]
    return (lambda: f(x, n, dim)) if row["op"] == "irfft" else (lambda: f(x, None, dim))


def measure(calls: dict, rounds: int, clock) -> dict[str, float]:
    """Return the seconds per call of both sides."""
    timers = {side: timeit.Timer(call, timer=clock) for side, call in calls.items()}
    counts, best = {}, dict.fromkeys(timers, float("inf"))
    for side, timer in timers.items():
        timer.timeit(2)
        counts[side] = max(1, int(SLICE / max(timer.timeit(1), 1e-7)))
    for _ in range(rounds):
        for side, timer in timers.items():
            best[side] = min(best[side], timer.timeit(counts[side]) / counts[side])
    return best


def summary(result: list[dict]) -> None:
    groups = dict.fromkeys(r["group"] for r in result)
    for group in [*groups, None] if groups else []:
        ratios = sorted(r["ratio"] for r in result if group in (None, r["group"]))
        print(f"{group or 'all':14} {len(ratios):4} rows: median {statistics.median(ratios):6.2f}, lowest {ratios[0]:6.2f}")


def main():
    options, clock = row_options(__doc__, rounds=9)
    result = []
    print(f"{'':34} {'facula us':>11} {'torch us':>11} {'ratio':>7}")
    for row in rows():
        name = row_name(row)
        if options.only not in name and options.only != row["group"]:
            continue
        seconds = measure({"facula": call_of(facula, row), "torch": call_of(torch, row)}, options.rounds, clock)
        ratio = seconds["torch"] / seconds["facula"]
        print(f"{name:34} {seconds['facula'] * 1e6:11.2f} {seconds['torch'] * 1e6:11.2f} {ratio:7.2f}", flush=True)
        result.append({"name": name, **row, "seconds": seconds, "ratio": ratio})
    summary(result)
    save_rows(options, result)


if __name__ == "__main__":
    main()
