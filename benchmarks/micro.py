"""Measure Facula against PyTorch, one row per stated speed target, by turns in one process.

    python benchmarks/micro.py [--threads 1] [--level v3] [--rounds 15] [--only TEXT] [--json FILE]

Needs PyTorch beside Facula. Every row runs in short slices, Facula and PyTorch alternately; a time is the minimum over the
slices. Times depend on the machine and its load, only ratios (PyTorch's time over Facula's) mean anything.
"""

from __future__ import annotations

import dataclasses
import statistics
import timeit

import torch
from machine import row_options, save_rows

import facula

SLICE = 0.004  # seconds: short enough that both sides see the same load


POSITIVE = ("log", "log1p", "sqrt", "rsqrt")  # functions whose arguments are positive here


@dataclasses.dataclass(frozen=True)
class Row:
    statement: str
    target: float | None = None
    setup: str = "four"
    group: str = "small"
    name: str = ""


# Each makes the names of one group of statements from a module `m`, which is facula or torch.
SETUPS = {
    "four": "a, b, M = m.ones(4), m.ones(4), m.ones(4, 4); g = m.ones(4, requires_grad=True); empty = m.empty; mm = m.mm",
    "few": (
        "F = m.nn.functional; a, b, M, v = m.ones(4), m.ones(4), m.ones(4, 4), m.ones(4); c = a > 0; pair = [M, M];"
        "numbers = [1.0, 2.0, 3.0, 4.0]; W, w = m.ones(4, 4, requires_grad=True), m.ones(4, requires_grad=True);"
        "i = m.tensor([1, 2]); labels = m.tensor([0, 1, 2, 3]); one = m.ones(()); tensor, cat, stack = m.tensor, m.cat, m.stack"
    ),
    "list": (
        "m.manual_seed(0); F = m.nn.functional; a, one, M = m.ones(4), m.ones(()), m.randn(4, 4);"
        "B = m.randn(16, 16); c = B > 0; i, j, k = m.randint(0, 16, (16, 16)), m.randint(0, 16, (16,)), m.tensor([0, 1, 2, 3]);"
        "z, b = m.zeros(16, 16), m.randn(4, 8, 8);"
        "x, y = m.randn(1, 3, 8, 8), m.randn(2, 8, 16, 16); w, q = m.randn(4, 3, 3, 3), m.randn(1, 2, 8, 16);"
        "r, v, g = m.zeros(8), m.ones(8), m.ones(8)"
    ),
    "cells": (
        "m.manual_seed(0); nn = m.nn; lstm, gru, rnn = nn.LSTMCell(64, 64), nn.GRUCell(64, 64), nn.RNNCell(64, 64);"
        "x, h, c = m.randn(1, 64), m.zeros(1, 64), m.zeros(1, 64); no = m.no_grad"
    ),
    "large": "a, b = m.ones(1 << 24), m.ones(1 << 24)",
    "million": (
        "m.manual_seed(0); x = m.randn(1 << 20); p = m.rand(1 << 20) + 0.01; X = x.view(1024, 1024); c = x > 0;"
        "i = m.randint(0, 1024, (1024,)); j = m.randint(0, 1 << 20, (1 << 20,)); z = m.zeros(1 << 20); s = p.double()"
    ),
    "matrices": (
        "m.manual_seed(0); A, B = m.randn(1024, 1024), m.randn(1024, 1024); D, E = A.double(), B.double();"
        "H, K = A.bfloat16(), B.bfloat16(); S = m.randn(256, 256)"
    ),
    "linear": "l = m.nn.Linear(4, 4); l8 = m.nn.Linear(64, 64); x = m.ones(1, 4); x8 = m.ones(32, 64); no = m.no_grad",
    "sgd": "net = mlp(m); params = list(net.parameters()); opt = m.optim.SGD(params, 1e-6); mse = m.nn.functional.mse_loss;"
    "x, y = m.ones(1, 4), m.ones(1, 2); x32, y32 = m.ones(32, 4), m.ones(32, 2); step = train(net, opt, mse)",
    "adam": "net = mlp(m); params = list(net.parameters()); opt = m.optim.Adam(params, 1e-6); mse = m.nn.functional.mse_loss;"
    "x, y = m.ones(1, 4), m.ones(1, 2); x32, y32 = m.ones(32, 4), m.ones(32, 2); step = train(net, opt, mse)",
    "step sgd": "params = parameters(m); opt = m.optim.SGD(params, 1e-6, fused=True); l = [p.grad for p in params]",
    "step adam": "params = parameters(m); opt = m.optim.Adam(params, 1e-6, fused=True); l = [p.grad for p in params]",
}


def mlp(m):
    nn = m.nn
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def parameters(m):
    """Return 25.6 M values in 161 tensors, as in a ResNet-50, with gradients."""
    sizes = [159_000] * 161
    params = [m.nn.Parameter(m.ones(n)) for n in sizes]
    for p in params:
        p.grad = m.full_like(p, 0.01)
    return params


def train(net, opt, mse):
    def step(x, y):
        opt.zero_grad()
        loss = mse(net(x), y)
        loss.backward()
        opt.step()

    return step


def rows() -> list[Row]:
    """Return the figures of the two tables of targets, and what explains them."""
    table = [
        Row("a + b", 8), Row("a * 2.0", 8), Row("a[0]", 8), Row("a.view(2, 2)", 8), Row("a.sum()", 8), Row("empty(4)", 8),
        Row("mm(M, M)", 8, name="mm 4x4"),
        Row("M + a", name="(4,4) + (4,)"), Row("M.t()"), Row("m.relu(a)"), Row("g * 2.0", name="g * 2.0 recorded"),
        Row("g + b", name="g + b recorded"), Row("(g * b).sum().backward()"),
        Row("a + b", 5, "large", "large", "a + b, 16 M float32, fresh output"),
    ]  # fmt: skip
    for name, statement in {
        "tensor(list of 4)": "tensor(numbers)", "softmax 4": "m.softmax(a, 0)", "softmax 4x4": "m.softmax(M, 1)",
        "log_softmax 4x4": "m.log_softmax(M, 1)", "cat 4x4": "cat(pair)", "cat 4x4, dim 1": "cat(pair, 1)",
        "stack 4x4": "stack(pair)",
        "add_ 4": "v.add_(b)", "mul_ 4 by a number": "v.mul_(1.0)", "F.linear 4x4": "F.linear(a, M, b)",
        "F.linear 4x4 recorded": "F.linear(a, W, w)", "matmul 4x4": "M @ M", "mean 4": "a.mean()", "sum(0) 4x4": "M.sum(0)",
        "max 4": "a.max()", "argmax 4": "a.argmax()", "cumsum 4": "a.cumsum(0)", "split 4x4": "M.split(2)",
        "where 4": "m.where(c, a, b)", "to(float64) 4": "a.to(m.float64)", "item": "one.item()", "zeros(4)": "m.zeros(4)",
        "randn(4)": "m.randn(4)", "embedding of 2": "F.embedding(i, M)", "cross_entropy 4x4": "F.cross_entropy(M, labels)",
        "layer_norm 4x4": "F.layer_norm(M, (4,), a, b)", "dropout 4": "F.dropout(a, 0.5)", "gelu 4": "F.gelu(a)",
    }.items():  # fmt: skip
        table.append(Row(statement, 8, "few", "few", name))
    for name, statement in {
        "numpy()": "M.numpy()", "tolist": "B.tolist()", "m[:, 0] = 1": "M[:, 0] = 1", "m[:, :8].clone()": "B[:, :8].clone()",
        "max_pool2d 8x8": "F.max_pool2d(x, 2)", "max_pool2d 16x16": "F.max_pool2d(y, 2)",
        "avg_pool2d 8x8": "F.avg_pool2d(x, 2)", "adaptive_avg_pool2d to 1": "F.adaptive_avg_pool2d(y, 1)",
        "scaled_dot_product_attention": "F.scaled_dot_product_attention(q, q, q)", "conv2d 8x8": "F.conv2d(x, w)",
        "batch_norm 16x16": "F.batch_norm(y, r, v, g, r)", "group_norm 16x16": "F.group_norm(y, 2, g, r)",
        "interpolate 8x8": "F.interpolate(x, scale_factor=2.0)", "pad replicate 8x8": "F.pad(x, (1, 1, 1, 1), 'replicate')",
        "nll_loss 4x4": "F.nll_loss(M, k)", "cross_entropy 16x16": "F.cross_entropy(B, j)",
        "topk 16x16": "B.topk(3)", "sort 16x16": "B.sort(1)", "argmax(1) 16x16": "B.argmax(1)", "min(0) 16x16": "B.min(0)",
        "amax(1) 16x16": "B.amax(1)", "cumsum(0) 16x16": "B.cumsum(0)", "softmax 16x16": "m.softmax(B, 1)",
        "layer_norm 16x16": "F.layer_norm(B, (16,))", "scatter_ 16x16": "z.scatter_(1, i, B)",
        "gather 16x16": "m.gather(B, 1, i)", "index_select": "m.index_select(B, 0, j)",
        "masked_fill 16x16": "B.masked_fill(c, 0.0)", "nonzero 16x16": "c.nonzero()",
        "where 16x16": "m.where(c, B, 0.0)", "one_hot": "F.one_hot(k, 4)", "einsum": "m.einsum('ij,jk->ik', M, M)",
        "bmm 8x8": "m.bmm(b, b)", "outer": "m.outer(a, a)", "tril": "M.tril()", "m * column": "M * M[:, :1]",
        "a * 0-d": "a * one", "expand + m": "a.expand(4, 4) + M", "t() + m": "M.t() + M",
    }.items():  # fmt: skip
        table.append(Row(statement, 6, "list", "list", name))
    for name in ("lstm", "gru", "rnn"):
        states = "(h, c)" if name == "lstm" else "h"
        table.append(Row(f"{name}(x, {states})", 8, "cells", "few", f"{name.upper()}Cell(64, 64), batch 1"))
    for f in ("exp", "log", "tanh", "erf", "sin", "cos", "sigmoid", "log1p", "expm1", "sqrt", "rsqrt", "neg"):
        operand, target = "p" if f in POSITIVE else "x", 2.5 if f in ("exp", "log", "tanh", "erf", "sin") else None
        table.append(Row(f"m.{f}({operand})", target, "million", "math", f"{f}, 1 M float32"))
    for f in ("exp", "log", "sin", "tanh"):
        table.append(Row(f"m.{f}(s)", None, "million", "math", f"{f}, 1 M float64"))
    for name, statement in {
        "sort": "m.sort(x)", "cumsum": "m.cumsum(x, 0)", "index_select": "m.index_select(X, 0, i)",
        "gather": "m.gather(x, 0, j)",
        "scatter_add": "m.scatter_add(z, 0, j, x)", "cat": "m.cat([x, x])", "transpose copy": "X.t().contiguous()",
        "where": "m.where(c, x, p)", "argmax": "m.argmax(x)",
    }.items():  # fmt: skip
        table.append(Row(statement, 1, "million", "million", f"{name}, 1 M"))
    table += [
        Row("m.mm(A, B)", 1, "matrices", "matmul", "matmul 1024 float32"),
        Row("m.mm(D, E)", None, "matrices", "matmul", "matmul 1024 float64"),
        Row("m.mm(H, K)", None, "matrices", "matmul", "matmul 1024 bfloat16"),
        Row("m.mm(S, S)", None, "matrices", "matmul", "matmul 256 float32"),
        Row("l(x)", 5, "linear", "modules", "Linear(4, 4), batch 1, recorded"),
        Row("l8(x8)", None, "linear", "modules", "Linear(64, 64), batch 32, recorded"),
        Row("step(x, y)", 10, "sgd", "modules", "MLP 4-64-64-2, batch 1, SGD"),
        Row("step(x32, y32)", None, "sgd", "modules", "MLP 4-64-64-2, batch 32, SGD"),
        Row("step(x, y)", 8, "adam", "modules", "MLP 4-64-64-2, batch 1, Adam"),
        Row("opt.step()", 1, "step sgd", "optimizers", "SGD step, 25.6 M parameters (PyTorch: fused)"),
        Row("opt.step()", 1, "step adam", "optimizers", "Adam step, 25.6 M parameters (PyTorch: fused)"),
    ]
    return [dataclasses.replace(row, name=row.name or row.statement) for row in table]


def scope(module, setup: str) -> dict:
    names = {"m": module, "mlp": mlp, "train": train, "parameters": parameters}
    exec(SETUPS[setup], names)
    return names


def measure(row: Row, scopes: dict[str, dict], rounds: int, clock) -> dict[str, float]:
    """Return the seconds per statement of both sides."""
    timers = {side: timeit.Timer(row.statement, globals=names, timer=clock) for side, names in scopes.items()}
    counts, best = {}, {}
    for side, timer in timers.items():
        timer.timeit(2)
        once = timer.timeit(1)
        counts[side] = max(1, int(SLICE / max(once, 1e-7)))
        best[side] = float("inf")
    for _ in range(rounds):
        for side, timer in timers.items():
            # The sides take turns, so that a change of the machine's load meets both.
            best[side] = min(best[side], timer.timeit(counts[side]) / counts[side])
    return best


def show(name: str, target: float | None, seconds: dict[str, float]) -> None:
    ratio = seconds["torch"] / seconds["facula"]
    verdict = "" if target is None else f"{target:7.1f} {'ok' if ratio >= target else 'MISSED'}"
    print(f"{name:46} {seconds['facula'] * 1e6:11.3f} {seconds['torch'] * 1e6:11.3f} {ratio:7.2f} {verdict}", flush=True)


def main():
    options, clock = row_options(__doc__, rounds=15)
    chosen = [r for r in rows() if options.only in r.name or options.only == r.group]
    result, scopes, made = [], {}, None
    print(f"{'':46} {'facula us':>11} {'torch us':>11} {'ratio':>7} {'target':>7}")
    for row in chosen:
        if made != row.setup:
            scopes = {"facula": scope(facula, row.setup), "torch": scope(torch, row.setup)}
            made = row.setup
        seconds = measure(row, scopes, options.rounds, clock)
        show(row.name, row.target, seconds)
        result.append({**dataclasses.asdict(row), "seconds": seconds, "ratio": seconds["torch"] / seconds["facula"]})
    small = [r["ratio"] for r in result if r["group"] == "small" and r["target"]]
    if small:
        print(f"small tensors: median of the ratios {statistics.median(small):.1f} (target 10)")
    save_rows(options, result)


if __name__ == "__main__":
    main()
