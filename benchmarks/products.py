"""Measure matrix products by dtype, transposition and shape: ratio of times PyTorch / Facula, and the rate.

    python benchmarks/products.py [--threads 1] [--level v3] [--rounds 9] [--only TEXT] [--json FILE]

Needs PyTorch beside Facula. NN is a @ b of two matrices as they are made; NT has the second one transposed, as a linear
layer's forward; TN the first one, as the gradient of its weight. A shape is batch x rows x columns x inner.
"""

from __future__ import annotations

import statistics

import torch
from machine import row_options, save_rows

import facula

SHORTEST = 1e-3  # seconds that one measurement lasts at least
DTYPES = ("float32", "bfloat16", "float16", "float64")
KINDS = ("NN", "NT", "TN")
SHAPES = {  # batch, rows, columns, inner
    "square": [(1, 64, 64, 64), (1, 128, 128, 128), (1, 256, 256, 256), (1, 512, 512, 512), (1, 1024, 1024, 1024)],
    "skinny": [(1, 1, 1024, 1024), (1, 4, 1024, 1024), (1, 8, 1024, 1024), (1, 32, 1024, 1024), (1, 32, 4096, 256)],
    "tall": [(1, 4096, 64, 64), (1, 2048, 768, 192), (1, 1024, 16, 1024), (1, 64, 64, 8192)],
    "batched": [(64, 8, 8, 8), (64, 32, 32, 32), (16, 128, 128, 64), (32, 128, 64, 128), (512, 4, 64, 64)],
}


def operands(m, dtype: str, kind: str, shape: tuple[int, ...]):
    batch, rows, columns, inner = shape
    m.manual_seed(0)

    def matrix(turned: bool, first: int, second: int):
        sizes = (second, first) if turned else (first, second)
        made = m.randn(*((batch, *sizes) if batch > 1 else sizes)).to(getattr(m, dtype))
        return made.transpose(-2, -1) if turned else made

    return matrix(kind[0] == "T", rows, inner), matrix(kind[1] == "T", inner, columns)


def measure(pairs: dict, rounds: int, clock) -> dict[str, float]:
    numbers, best = {}, {}
    for side, (a, b) in pairs.items():
        a @ b
        start = clock()
        a @ b
        numbers[side] = max(1, int(SHORTEST / max(clock() - start, 1e-7)))
        best[side] = float("inf")
    for _ in range(rounds):
        for side, (a, b) in pairs.items():
            start = clock()
            for _ in range(numbers[side]):
                a @ b
            best[side] = min(best[side], (clock() - start) / numbers[side])
    return best


def main():
    options, clock = row_options(__doc__, rounds=9)
    rows = []
    for dtype in DTYPES:
        for group, shapes in SHAPES.items():
            for shape in shapes:
                for kind in KINDS:
                    name = f"{dtype} {kind} {'x'.join(map(str, shape))}"
                    if options.only not in f"{group}: {name}":
                        continue
                    pairs = {side: operands(m, dtype, kind, shape) for side, m in (("torch", torch), ("facula", facula))}
                    seconds = measure(pairs, options.rounds, clock)
                    ratio = seconds["torch"] / seconds["facula"]
                    rate = 2e-9 * shape[0] * shape[1] * shape[2] * shape[3] / seconds["facula"]
                    print(f"{name:36} {seconds['facula'] * 1e6:10.1f} us {rate:7.1f} GFLOP/s {ratio:6.2f}", flush=True)
                    facts = {"name": name, "group": group, "rate": round(rate, 1), "ratio": round(ratio, 3)}
                    rows.append(facts | {"seconds": seconds})
    for dtype in DTYPES:
        ratios = [row["ratio"] for row in rows if row["name"].startswith(dtype)]
        if ratios:
            median, slower = statistics.median(ratios), sum(ratio < 1 for ratio in ratios)
            print(f"{dtype}: median {median:.2f}, lowest {min(ratios):.2f}, below 1: {slower} of {len(ratios)}")
    save_rows(options, rows)


if __name__ == "__main__":
    main()
