"""Writes rng_golden.json: values of PyTorch's random functions for a seed, and states of its generator.

Needs PyTorch 2.13 (CPU, x86-64), and is run by hand: `ATEN_CPU_CAPABILITY=avx2 python tests/data/make_rng_golden.py`; the instruction set
is part of the values, because PyTorch computes logarithms and cosines by vectors. Where PyTorch takes a vendor's generator on some
processors, the row is the portable definition (FORMULAS), written with `units`: numbers in [0, 1) of 53 bits.
"""

import hashlib
import json
import math
from pathlib import Path

ABOUT = (
    "Values for a seed. Rows with source torch were observed with PyTorch 2.13.0 (CPU, x86-64 with AVX2); rows with source "
    "formula follow the portable definitions, because PyTorch itself differs between processors there. first: up to eight "
    "elements, each as the bytes in memory; sha256: of all bytes in logical order."
)
FLOATING = ("float32", "float64", "float16", "bfloat16")
EACH_FLOATING = [f"torch.rand({n}, dtype=torch.{dtype})" for dtype in FLOATING for n in (5, 1000)]
# Normal numbers are drawn in pairs of blocks from 16 elements on.
NORMAL = [f"torch.randn({n})" for n in (1, 5, 15, 16, 20, 1000)]
NORMAL += [f"torch.randn({n}, dtype=torch.float64)" for n in (5, 16, 20, 1000)]
RANDOM = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
INTEGER = """
torch.randint(0, 2, (1000,))
torch.randint(0, 10, (1000,))
torch.randint(-5, 100, (1000,))
torch.randint(0, (1 << 28) - 1, (1000,))
torch.randint(0, 1 << 28, (1000,))
torch.randint(5, 1 << 33, (1000,))
torch.randint(-(1 << 40), 1 << 62, (1000,))
torch.randint(0, 100, (1000,), dtype=torch.int32)
torch.randint(0, 100, (1000,), dtype=torch.uint8)
torch.randint(0, 100, (1000,), dtype=torch.float32)
"""
PERMUTATION = """
torch.empty(100, dtype=torch.int64).random_(-2**63, None)
torch.randperm(1)
torch.randperm(10)
torch.randperm(1000)
torch.randperm(10, dtype=torch.int32)
"""
LAYOUT = """
torch.empty(10, 4).t().normal_(1.3, 0.7)
torch.empty(20, 2)[:, 0].normal_(1.3, 0.7)
torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last).uniform_()
"""
OTHER = """
torch.normal(torch.arange(20.0), torch.full((20,), 2.0))
torch.normal(0.0, 2.0, (20,))
torch.bernoulli(torch.full((100,), 0.3, dtype=torch.float32))
torch.bernoulli(torch.full((100,), 0.3, dtype=torch.float64))
torch.multinomial(torch.tensor([0.1, 0.2, 0.3, 0.4]), 20, replacement=True)
torch.multinomial(torch.tensor([[0.1, 0.2, 0.3, 0.4], [4.0, 0.0, 1.0, 2.0]]), 9, replacement=True)
torch.nn.Linear(4, 3).weight.detach()
torch.nn.Embedding(5, 3).weight.detach()
"""


def lines(text):
    return text.strip().splitlines()


def filled(count, dtypes, methods):
    return [f"torch.empty({count}, dtype=torch.{dtype}).{method}" for dtype in dtypes for method in methods]


CALLS = [  # seed, calls
    (0, EACH_FLOATING + NORMAL),
    (42, EACH_FLOATING + NORMAL),
    (3, [f"torch.randn({n}, dtype=torch.{dtype})" for dtype in ("float16", "bfloat16") for n in (5, 20, 1000)]),
    (3, [f"torch.randn({n}, dtype=torch.{dtype})" for dtype in ("complex64", "complex128") for n in (5, 20)]),
    ((1 << 40) + 7, ["torch.rand(5)"]),
    (-1, ["torch.rand(5)"]),
    (1, lines(INTEGER) + filled(100, RANDOM, ["random_()"]) + lines(PERMUTATION)),
    (7, filled(1000, FLOATING, ["uniform_(-0.1, 0.3)", "normal_(1.3, 0.7)"]) + lines(LAYOUT)),
    (7, filled(100, FLOATING[:2], ["cauchy_(1.5, 2.5)", "log_normal_(1.0, 0.5)", "geometric_(0.3)"]) + lines(OTHER)),
]  # fmt: skip

FORMULA_SEED = 9
FORMULAS = {  # call: what it is
    **{f"torch.empty(100, dtype=torch.{dtype}).bernoulli_(0.3)": f"(units(100) < 0.3).to(torch.{dtype})"
       for dtype in ("float32", "float64", "int64", "bool")},
    "torch.nn.functional.dropout(torch.ones(100), 0.25)": "(units(100) < 0.75).float() / 0.75",
    "torch.nn.functional.dropout(torch.arange(100.0), 0.3)": "torch.arange(100.0) * ((units(100) < 0.7).float() / 0.7)",
    "torch.nn.functional.dropout2d(torch.ones(1, 6, 2, 2), 0.5)": "(units(1, 6, 1, 1).expand(1, 6, 2, 2) < 0.5).float() / 0.5",
    **{f"torch.empty(100, dtype=torch.{dtype}).exponential_(1.5)": f"waits(1.5, 100).to(torch.{dtype})" for dtype in FLOATING},
    # a race: the largest of weight / waiting time
    **{f"torch.multinomial(torch.tensor([0.1, 0.2, 0.3, 0.4]), {k})":
       f"(torch.tensor([0.1, 0.2, 0.3, 0.4]) / waits(1.0, 4).float()).topk({k}).indices" for k in (3, 1)},
    "torch.multinomial(torch.arange(1.0, 101.0).expand(2, 100), 10)":
        "(torch.arange(1.0, 101.0) / waits(1.0, 2, 100).float()).topk(10).indices",
}  # fmt: skip
STATES = [  # seed, call; a state holds 624 words, and whether a normal number is left
    (5, ""), (5, "torch.randn(3)"), (5, "torch.rand(624)"), (5, "torch.rand(625)"),
    ((1 << 40) + 7, "torch.randn(20)"), (-1, "torch.randperm(1000)"),
]  # fmt: skip


def evaluate(seed, call):
    import torch

    def units(*shape):
        return torch.rand(*shape, dtype=torch.float64)

    def waits(rate, *shape):
        """Exponential numbers, each logarithm the C library's: that of a vector differs in the last place."""
        return -1.0 / rate * (-units(*shape)).apply_(math.log1p)

    torch.manual_seed(seed)
    return eval(call, {"torch": torch, "units": units, "waits": waits}) if call else None


def row(seed, call, source, definition):
    import torch

    result = evaluate(seed, definition).contiguous()
    bits = result.view(torch.int16) if result.dtype == torch.bfloat16 else result
    data, size = bits.numpy().tobytes(), result.element_size()
    first = [data[i * size : (i + 1) * size].hex() for i in range(min(8, result.numel()))]
    found = {"seed": seed, "call": call, "dtype": str(result.dtype).removeprefix("torch."), "shape": list(result.shape)}
    found |= {"first": first, "source": source}
    return found | ({"sha256": hashlib.sha256(data).hexdigest()} if result.numel() > len(first) else {})


def state(seed, call):
    import torch

    evaluate(seed, call)
    return {"seed": seed, "call": call, "sha256": hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()}


def block(rows):
    return "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]"


def main():
    values = [row(seed, call, "torch", call) for seed, calls in CALLS for call in calls]
    values += [row(FORMULA_SEED, call, "formula", definition) for call, definition in FORMULAS.items()]
    states = [state(seed, call) for seed, call in STATES]
    text = f'{{\n"about": {json.dumps(ABOUT)},\n"values": {block(values)},\n"states": {block(states)}\n}}\n'
    Path(__file__).with_name("rng_golden.json").write_text(text)


if __name__ == "__main__":
    main()
