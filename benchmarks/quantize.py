"""Measure linear layers with weights of int8: times of Facula in float32 and int8, and of PyTorch in both.

    python benchmarks/quantize.py [--threads 1] [--level v3] [--rounds 15] [--only TEXT] [--json FILE]

Needs PyTorch beside Facula. Six layers of one shape run by turns: of either library float32, dynamic int8, and static int8,
whose inputs and outputs are levels, of seven bits as observers choose them for processors without VNNI. `gain` is Facula's time
in float32 over its time in int8, `ratio` PyTorch's time in int8 over Facula's.
"""

from __future__ import annotations

import importlib
import warnings

import torch
from machine import row_options, save_rows

import facula

SHAPES = [(1, 1024, 1024), (32, 1024, 1024), (1, 4096, 1024), (128, 768, 768), (1, 128, 128), (512, 1024, 1024)]
SHORTEST = 2e-3  # seconds that one measurement lasts at least


def layers(m, rows: int, inner: int, columns: int) -> dict:
    """Return, by name, a float layer and its int8 forms, with an input of each."""
    m.manual_seed(0)
    module = m.nn.Sequential(m.nn.Linear(inner, columns)).eval()
    quantization = importlib.import_module(f"{m.__name__}.ao.quantization")
    narrow = quantization.quantize_dynamic(module, {m.nn.Linear}, dtype=m.qint8)
    x = m.randn(rows, inner)
    static = importlib.import_module(f"{m.__name__}.ao.nn.quantized").Linear(inner, columns)
    static.set_weight_bias(narrow[0].weight(), module[0].bias.detach())
    static.scale, static.zero_point = 0.05, 64
    levels = m.quantize_per_tensor(x, 0.1, 64, m.quint8)
    return {"float32": (module[0], x), "int8": (narrow[0], x), "static": (static, levels)}


def measure(calls: dict, rounds: int, clock) -> dict[str, float]:
    numbers, best = {}, {}
    for name, (layer, x) in calls.items():
        for _ in range(4):  # a weight is put in order when it is seen again
            layer(x)
        start = clock()
        layer(x)
        numbers[name] = max(1, int(SHORTEST / max(clock() - start, 1e-7)))
        best[name] = float("inf")
    for _ in range(rounds):
        for name, (layer, x) in calls.items():
            start = clock()
            for _ in range(numbers[name]):
                layer(x)
            best[name] = min(best[name], (clock() - start) / numbers[name])
    return best


def main():
    options, clock = row_options(__doc__, rounds=15)
    warnings.simplefilter("ignore")  # PyTorch announces that it will give this up
    rows = []
    for shape in SHAPES:
        name = "x".join(map(str, shape))
        if options.only not in name:
            continue
        calls = {f"{m.__name__} {kind}": call for m in (torch, facula) for kind, call in layers(m, *shape).items()}
        with torch.no_grad(), facula.no_grad():
            seconds = measure(calls, options.rounds, clock)
        for kind in ("int8", "static"):
            own = seconds[f"facula {kind}"]
            gain, ratio = seconds["facula float32"] / own, seconds[f"torch {kind}"] / own
            print(f"{name:16} {kind:7} {own * 1e6:9.1f} us  gain {gain:5.2f}  ratio {ratio:5.2f}", flush=True)
            rows.append({"name": f"{name} {kind}", "gain": round(gain, 3), "ratio": round(ratio, 3), "seconds": seconds})
    save_rows(options, rows)


if __name__ == "__main__":
    main()
