"""Check what has to be checked once on a machine with a GPU, besides speed: parts of everything.py.

`numerics` (the same inputs and seeds in both libraries), `trace` (the memory that a fixed sequence of tensors takes), `costs`
(launches, events, the allocator, copies, the first kernel of a process), `convolution` and `recurrent` layers, and how the CPU
scales with threads (`scaling`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from parts import Rows

SHOWN = 4096  # values of each result that are compared


def least(f, wait, turns: int) -> float:
    """Return the seconds of a call and of the wait for its end; the least of several."""
    best = float("inf")
    for _ in range(turns):
        wait()
        start = time.perf_counter()
        f()
        wait()
        best = min(best, time.perf_counter() - start)
    return best


# ---- the same numbers


def computed(m) -> dict:
    """Return the results of ops on the same inputs, TF32 as PyTorch's defaults have it."""
    rng, functional = np.random.default_rng(0), m.nn.functional

    def draw(*shape, dtype=None):
        return m.from_numpy(rng.standard_normal(shape).astype("float32")).cuda().to(dtype or m.float32)

    a, b, row = draw(64, 96), draw(96, 64), draw(64)
    image, filters = draw(2, 8, 20, 20), draw(16, 8, 3, 3)
    half_a, half_b, half_row = (t.to(m.bfloat16) for t in (a, b, row))
    q = draw(2, 2, 32, 16)
    ops = {
        "matmul": lambda: a @ b, "conv2d": lambda: functional.conv2d(image, filters), "sum": lambda: a.sum(0),
        "linear bfloat16": lambda: functional.linear(half_a, half_b.t(), half_row), "var": lambda: a.var(1),
        "softmax": lambda: functional.softmax(a, 1), "sort": lambda: a.sort(1)[0],
        "cumsum": lambda: a.cumsum(1), "layer_norm": lambda: functional.layer_norm(a, (96,)), "exp": lambda: a.exp(),
        "gelu": lambda: functional.gelu(a), "gelu tanh": lambda: functional.gelu(a, approximate="tanh"),
        "attention": lambda: functional.scaled_dot_product_attention(q, q, q, is_causal=True), "rsqrt": lambda: (a * a).rsqrt(),
        "batch_norm": lambda: functional.batch_norm(image, None, None, training=True), "bmm": lambda: q[0] @ q[0].mT,
    }  # fmt: skip
    return {name: op() for name, op in ops.items()}


def drawn(m, n: int) -> dict:
    """Return random numbers after one seed each; large sizes take more than one round of a device's threads."""
    found, d = {}, "cuda"
    rates = m.tensor([0.5, 3.0, 20.0, 60.0, 5000.0], device=d).repeat(200)
    draws = {
        "rand": lambda: m.rand(n, device=d), "rand float64": lambda: m.rand(n, dtype=m.float64, device=d),
        "randn": lambda: m.randn(n, device=d), "randn bfloat16": lambda: m.randn(n, dtype=m.bfloat16, device=d),
        "randint": lambda: m.randint(0, 1000, (n,), device=d), "randint 64": lambda: m.randint(0, 1 << 40, (n,), device=d),
        "randperm": lambda: m.randperm(n // 16, device=d), "randperm small": lambda: m.randperm(6, device=d),
        "bernoulli": lambda: m.bernoulli(m.full((n,), 0.3, device=d)),
        "bernoulli_": lambda: m.empty(n, device=d).bernoulli_(0.3),
        "dropout": lambda: m.nn.functional.dropout(m.ones(n, device=d), 0.3),
        "dropout bfloat16": lambda: m.nn.functional.dropout(m.ones(n, dtype=m.bfloat16, device=d), 0.3),
        "dropout odd": lambda: m.nn.functional.dropout(m.ones(n + 1, device=d), 0.3),
        "exponential": lambda: m.empty(n, device=d).exponential_(), "cauchy": lambda: m.empty(n, device=d).cauchy_(),
        "log_normal": lambda: m.empty(n, device=d).log_normal_(), "geometric": lambda: m.empty(n, device=d).geometric_(0.2),
        "rrelu": lambda: m.nn.functional.rrelu(-m.ones(n, device=d), training=True),
        "poisson": lambda: m.poisson(rates), "gamma": lambda: m._standard_gamma(rates / 10),
        "dirichlet": lambda: m._sample_dirichlet(rates.reshape(-1, 5)),
        "binomial": lambda: m.binomial(rates.clamp(max=100).floor(), m.full_like(rates, 0.4)),
        "multinomial": lambda: m.multinomial(rates, 500, True), "multinomial once": lambda: m.multinomial(rates, 500),
    }  # fmt: skip
    for name, draw in draws.items():
        m.manual_seed(1234)
        found[name] = draw()
        offset = int.from_bytes(bytes(m.cuda.get_rng_state().tolist()[8:]), "little")
        found[f"{name}, offset"] = m.tensor([offset])
    return found


def numerics(m, tiny: bool) -> dict:
    found = {**computed(m), **drawn(m, 1 << (13 if tiny else 20))}
    some = {name: t.flatten()[:: max(1, t.numel() // (64 if tiny else SHOWN))] for name, t in found.items()}
    return {name: {"values": t.double().cpu().tolist()} for name, t in some.items()}


def compared(ours: dict, theirs: dict | None) -> dict:
    """Return, in the place of the values, how many there are, what share is equal to the peer's, and the largest difference."""
    found = {}
    for name, row in ours.items():
        a, b = np.asarray(row["values"]), np.asarray(((theirs or {}).get(name) or {}).get("values", []))
        found[name] = {"values": len(a)}
        if len(a) == len(b) and len(a):
            equal, apart = (a == b) | (np.isnan(a) & np.isnan(b)), np.abs(a - b)[np.isfinite(a) & np.isfinite(b)]
            found[name] |= {"equal": float(np.mean(equal)), "largest_difference": float(apart.max(initial=0))}
    return found


# ---- memory and costs


def trace(m, tiny: bool) -> dict:
    """Return the bytes of tensors and of the driver after each step of the same random sequence; the rows have to be
    PyTorch's."""
    rng, kept, rows = np.random.default_rng(1), [], []
    m.cuda.empty_cache()
    begin = m.cuda.memory_allocated()
    for step in range(30 if tiny else 300):
        if kept and rng.random() < 0.45:
            kept.pop(int(rng.integers(len(kept))))
        else:
            kept.append(m.empty(int(2 ** rng.uniform(1, 16 if tiny else 26)), dtype=m.uint8, device="cuda"))
        if step % 100 == 99:
            m.cuda.empty_cache()
        rows.append([m.cuda.memory_allocated() - begin, m.cuda.memory_reserved()])
    return {"allocated": [row[0] for row in rows], "reserved": [row[1] for row in rows]}


FIRST = """
import sys, time, {library} as m
x = m.ones(100, device="cuda")
m.cuda.synchronize()
start = time.perf_counter()
y = x.atan2(x)
m.cuda.synchronize()
print((time.perf_counter() - start) * 1e3)
"""


def first_kernels(library: str) -> dict:
    """Return the milliseconds of the first kernel of its kind in a process; with an empty and with a full folder of kernels."""
    found = Rows()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first kernel, cold", "first kernel, warm"):
            command = [sys.executable, "-c", FIRST.format(library=library)]
            run = subprocess.run(command, env={**os.environ, "FACULA_CACHE_DIR": folder}, capture_output=True, text=True)
            found[name] = {"ms": float(run.stdout)} if run.returncode == 0 else {"error": run.stderr.strip()[-300:]}
    return found


def costs(m, tiny: bool) -> dict:
    wait, turns, calls = m.cuda.synchronize, 2 if tiny else 20, 5 if tiny else 500
    x, event = m.ones(64, device="cuda"), m.cuda.Event()
    found = Rows()
    for name, op in {
        "launch (add_)": lambda: x.add_(1), "empty, cached": lambda: m.empty(1000, device="cuda"), "event record": event.record,
        "event record and query": lambda: (event.record(), event.query()), "current_stream": m.cuda.current_stream,
    }.items():  # fmt: skip
        found[name] = {"host_us": least(lambda op=op: [op() for _ in range(calls)], wait, turns) / calls * 1e6}

    def miss():
        m.cuda.empty_cache()
        m.empty(1 << 20, device="cuda")

    found["empty, from the driver"] = {"host_us": least(miss, wait, turns) * 1e6}
    size = 1 << (16 if tiny else 28)
    there, pageable = m.empty(size, dtype=m.uint8, device="cuda"), m.ones(size, dtype=m.uint8)
    pinned, other = pageable.pin_memory(), m.empty_like(there)
    for name, copy in {
        "to the device, pageable": lambda: there.copy_(pageable), "to the host, pageable": lambda: pageable.copy_(there),
        "to the device, pinned": lambda: there.copy_(pinned, non_blocking=True),
        "to the host, pinned": lambda: pinned.copy_(there, non_blocking=True), "on the device": lambda: other.copy_(there),
    }.items():  # fmt: skip
        found[f"copy {name}"] = {"GB_per_s": size / least(copy, wait, min(turns, 5)) / 1e9}
    return {**found, **first_kernels(m.__name__)}


# ---- layers by libraries


def convolution(m, tiny: bool) -> dict:
    shapes = {"3x3": (2, 4, 8, 4, 3)} if tiny else {
        "3x3": (64, 64, 56, 64, 3), "1x1": (64, 256, 56, 64, 1), "3x3 deep": (64, 512, 7, 512, 3), "7x7": (64, 3, 224, 64, 7),
    }  # fmt: skip
    found = Rows()
    for name, (batch, channels, size, outputs, kernel) in shapes.items():
        for dtype in ("float32", "bfloat16"):
            x, w = (m.ones(s, dtype=getattr(m, dtype), device="cuda").requires_grad_()
                    for s in ((batch, channels, size, size), (outputs, channels, kernel, kernel)))  # fmt: skip
            flops = 2 * batch * size * size * channels * outputs * kernel * kernel

            def forward(x=x, w=w, pad=kernel // 2):
                return m.nn.functional.conv2d(x, w, padding=pad)

            grad = m.ones_like(forward())
            turns, wait = 2 if tiny else 10, m.cuda.synchronize
            ahead = least(forward, wait, turns)
            both = least(lambda f=forward, g=grad: f().backward(g), wait, turns)
            rates = {"forward_TFLOP_per_s": flops / ahead / 1e12, "both_TFLOP_per_s": 3 * flops / both / 1e12}
            found[f"{name} {dtype}"] = rates
    return found


def recurrent(m, tiny: bool) -> dict:
    found = Rows()
    for dtype in ("float32", "bfloat16"):
        length, batch, width = (3, 2, 8) if tiny else (128, 64, 512)
        layer = m.nn.LSTM(width, width, 1 if tiny else 2).cuda().to(getattr(m, dtype))
        x = m.ones(length, batch, width, dtype=getattr(m, dtype), device="cuda")
        seconds = least(lambda layer=layer, x=x: layer(x)[0].sum().backward(), m.cuda.synchronize, 2 if tiny else 5)
        found[f"LSTM {dtype}"] = {"ms": seconds * 1e3, "steps_per_second": length * batch / seconds}
    return found


# ---- the CPU of that machine


def scaling(m, tiny: bool) -> dict:
    """Return the milliseconds of ops on the CPU, by the number of threads."""
    n = 64 if tiny else 1024
    a, image, filters = m.ones(n, n), m.ones(2 if tiny else 16, 16, 32, 32), m.ones(16, 16, 3, 3)
    numbers = m.from_numpy(np.random.default_rng(2).standard_normal(1000 if tiny else 1 << 22).astype("float32"))
    functional = m.nn.functional
    ops = {
        "matmul": lambda: a @ a, "conv2d": lambda: functional.conv2d(image, filters, padding=1),
        "add": lambda: numbers + numbers,
        "exp": lambda: numbers.exp(), "sum": lambda: numbers.sum(), "softmax": lambda: functional.softmax(a, 1),
        "layer_norm": lambda: functional.layer_norm(a, (n,)), "sort": lambda: numbers.sort(), "cumsum": lambda: a.cumsum(0),
        "index": lambda: a[a.argsort(1)[0]],
    }  # fmt: skip
    most, before = os.cpu_count() or 1, m.get_num_threads()
    threads = [1 << k for k in range(most.bit_length()) if 1 << k <= most]
    found = {name: {} for name in ops}
    for count in threads[:2] if tiny else threads:
        m.set_num_threads(count)
        for name, op in ops.items():
            op()
            found[name][f"ms_{count}_threads"] = least(op, lambda: None, 2 if tiny else 7) * 1e3
    m.set_num_threads(before)
    return found
