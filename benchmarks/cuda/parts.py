"""Define the parts of everything.py that measure speed: (the library, whether sizes are tiny) -> {name: figures}.

A row is printed as soon as it is there, so that a part that ends early leaves those that it has.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("alexnet", "vgg19", "resnet50", "mobilenet_v2", "gnmt", "ncf")
DTYPES = ("float32", "bfloat16")


class Rows(dict):
    """Hold figures by name, and print each when it comes."""

    def __setitem__(self, name, figures) -> None:
        super().__setitem__(name, figures)
        print(json.dumps({"row": name, "figures": figures}), flush=True)


class Library:
    """Adapt facula or torch for the models: tensors from NumPy go to the device, in one floating dtype."""

    def __init__(self, m, dtype) -> None:
        self._m, self._dtype = m, dtype

    def __getattr__(self, name):
        return getattr(self._m, name)

    def from_numpy(self, array):
        there = self._m.from_numpy(array).cuda()
        return there.to(self._dtype) if there.is_floating_point() else there


class Clock:
    """Measure the milliseconds of a call by the device's clock: the least of several turns of some calls."""

    def __init__(self, m, tiny: bool) -> None:
        self.m, self.seconds, self.turns = m, 0.001 if tiny else 0.05, 2 if tiny else 7

    def __call__(self, f) -> float:
        for _ in range(3):
            f()
        self.m.cuda.synchronize()
        start = time.perf_counter()
        f()
        self.m.cuda.synchronize()
        calls = max(1, min(1000, int(self.seconds / (time.perf_counter() - start))))
        best = float("inf")
        for _ in range(self.turns):
            begin, end = (self.m.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(calls):
                f()
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end) / calls)
        return best


# ---- the parts: (the library, whether sizes are tiny) -> {name: figures}


def model_step(m, name: str, dtype):
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "models")]
    from common import fill

    m.set_default_device("cuda")  # of the zeros and ones that a step makes
    m.set_default_dtype(dtype)
    module, library = importlib.import_module(name), Library(m, dtype)
    model = module.network(library).cuda().to(dtype)
    fill(library, model)
    return module, module.training(library, model)


def models(m, tiny: bool) -> dict:
    found = Rows()
    for name in ("mlp", "lstm_cell") if tiny else MODELS:
        for dtype in DTYPES:
            try:
                module, step = model_step(m, name, getattr(m, dtype))
                milliseconds = Clock(m, tiny)(step)
                rate = module.ITEMS / milliseconds * 1e3
                found[f"{name} {dtype}"] = {"ms": milliseconds, "per_second": rate, "unit": module.UNIT}
            except Exception as error:  # noqa: BLE001 - one model that fails is reported
                found[f"{name} {dtype}"] = {"error": f"{type(error).__name__}: {error}"[:300]}
            m.cuda.empty_cache()
    return found


def latency(m, tiny: bool) -> dict:
    functional = m.nn.functional
    x, y, row = (m.ones(*shape, device="cuda") for shape in ((16, 16), (16, 16), (16,)))
    image, filters = m.ones(1, 4, 8, 8, device="cuda"), m.ones(4, 4, 3, 3, device="cuda")
    ops = {
        "add": lambda: x + y, "mul number": lambda: x * 2.0, "add row": lambda: x + row, "relu": lambda: m.relu(x),
        "sum": lambda: x.sum(), "softmax": lambda: functional.softmax(x, 1), "linear": lambda: functional.linear(x, y, row),
        "layer_norm": lambda: functional.layer_norm(x, (16,), row, row), "matmul": lambda: x @ y,
        "conv2d": lambda: functional.conv2d(image, filters),
        "cat": lambda: m.cat([x, y]), "copy": lambda: x.clone(), "empty": lambda: m.empty(16, 16, device="cuda"),
    }  # fmt: skip
    found, calls = Rows(), 10 if tiny else 500
    for name, op in ops.items():
        queued = whole = float("inf")
        for _ in range(2 if tiny else 10):
            op()
            m.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                op()
            queued = min(queued, (time.perf_counter() - start) / calls)
            m.cuda.synchronize()
            whole = min(whole, (time.perf_counter() - start) / calls)
        found[name] = {"host_us": queued * 1e6, "whole_us": whole * 1e6}
    return found


def moving_ops(m, x, y, row) -> dict:
    """Return the ops, and how many tensors of the size of x they read and write."""
    functional = m.nn.functional
    return {
        "copy": (lambda: y.copy_(x), 2), "add": (lambda: x + y, 3), "add_": (lambda: y.add_(x), 3),
        "mul number": (lambda: x * 2.0, 2), "gelu": (lambda: functional.gelu(x), 2), "relu": (lambda: m.relu(x), 2),
        "exp": (lambda: m.exp(x), 2), "add row": (lambda: x + row, 2), "sum": (lambda: x.sum(), 1),
        "sum of rows": (lambda: x.sum(1), 1), "sum of columns": (lambda: x.sum(0), 1),
        "softmax": (lambda: functional.softmax(x, 1), 2), "transpose": (lambda: x.t().contiguous(), 2),
        "layer_norm": (lambda: functional.layer_norm(x, (1024,), row, row), 2),
    }  # fmt: skip


def bandwidth(m, tiny: bool) -> dict:
    found = Rows()
    for dtype in DTYPES:
        size = m.tensor([], dtype=getattr(m, dtype)).element_size()
        rows = (1 << 16 if tiny else 256 << 20) // (1024 * size)
        x, y = (m.ones(rows, 1024, dtype=getattr(m, dtype), device="cuda") for _ in range(2))
        clock, copy = Clock(m, tiny), None
        for name, (op, tensors) in moving_ops(m, x, y, x[0].clone()).items():
            rate = tensors * x.numel() * size / clock(op) / 1e6
            copy = copy or rate
            found[f"{name} {dtype}"] = {"GB_per_s": rate, "of_copy": rate / copy}
    return found


def matmul(m, tiny: bool) -> dict:
    found = Rows()
    for n in (64,) if tiny else (1024, 4096, 8192):
        for dtype, tf32 in (("float32", False), ("float32", True), ("bfloat16", False), ("float16", False)):
            m.backends.cuda.matmul.allow_tf32 = tf32
            a, b = (m.ones(n, n, dtype=getattr(m, dtype), device="cuda") for _ in range(2))
            found[f"{n} {'tf32' if tf32 else dtype}"] = {"TFLOP_per_s": 2 * n**3 / Clock(m, tiny)(lambda a=a, b=b: a @ b) / 1e9}
    m.backends.cuda.matmul.allow_tf32 = False
    return found


def attend(m, shape: tuple[int, ...], dtype, causal: bool, clock: Clock) -> dict:
    batch, heads, length, width = shape
    q, k, v = (m.ones(shape, dtype=dtype, device="cuda").requires_grad_() for _ in range(3))
    fixed, grad = [t.detach() for t in (q, k, v)], m.ones(shape, dtype=dtype, device="cuda")
    attention = m.nn.functional.scaled_dot_product_attention
    flops = 4 * batch * heads * length**2 * width * (0.5 if causal else 1)
    forward = clock(lambda: attention(*fixed, is_causal=causal))
    both = clock(lambda: attention(q, k, v, is_causal=causal).backward(grad))
    return {"forward_TFLOP_per_s": flops / forward / 1e9, "both_TFLOP_per_s": 3.5 * flops / both / 1e9}


def attention(m, tiny: bool) -> dict:
    shapes = ((1, 2, 16, 8),) if tiny else ((8, 16, 1024, 64), (4, 16, 4096, 64), (4, 16, 2048, 128))
    found = Rows()
    for shape in shapes:
        for dtype in DTYPES:
            for causal in (False, True):
                name = f"{'x'.join(map(str, shape))} {dtype}{' causal' if causal else ''}"
                found[name] = attend(m, shape, getattr(m, dtype), causal, Clock(m, tiny))
    return found


def allocator(m, tiny: bool) -> dict:
    """Return the time of each iteration from the first on, and what the driver was asked for in it."""
    _, step = model_step(m, "mlp" if tiny else "resnet50", m.float32)
    rows = []
    for _ in range(6):
        before = m.cuda.memory_stats()
        start = time.perf_counter()
        step()
        m.cuda.synchronize()
        after = m.cuda.memory_stats()
        counters = ("num_device_alloc", "num_device_free", "segment.all.allocated")
        asked = {key: after.get(key, 0) - before.get(key, 0) for key in counters}
        rows.append({"ms": (time.perf_counter() - start) * 1e3, **asked, "reserved": m.cuda.memory_reserved()})
    return {"iterations": rows}


def timeline(m, tiny: bool) -> dict:
    """Return when the host has queued a training step, and when the device has done it."""
    _, step = model_step(m, "mlp" if tiny else "resnet50", m.float32)
    rows = []
    for _ in range(6):
        m.cuda.synchronize()
        start = time.perf_counter()
        step()
        queued = time.perf_counter() - start
        m.cuda.synchronize()
        rows.append({"queued_ms": queued * 1e3, "done_ms": (time.perf_counter() - start) * 1e3})
    return {"steps": rows}


def chains(m, x, y, row) -> dict:
    """Return the functions that are written out in light ops, and how many tensors of the size of x each has to read and
    write."""

    def softmax(x):
        e = (x * 0.125 - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    def adam(p, g):
        first = p * 0.9 + g * 0.1
        second = g * 0.999 + g * g * 0.001
        return p - 0.01 * first / (second.abs().sqrt() + 1e-8)

    return {
        "arith": (lambda x, y: ((x * y + 1.5) * 0.5 - x) * y + x * 0.25, (x, y), 3),
        "gelu": (lambda x: 0.5 * x * (1 + m.tanh(0.7978845608 * (x + 0.044715 * x * x * x))), (x,), 2),
        "rows": (lambda x, row: m.relu(x * row + 1) * row - x, (x, row), 2),
        "rms norm": (lambda x, row: x * m.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * row, (x, row), 2),
        "softmax": (softmax, (x,), 2),
        "adam": (adam, (x, y), 3),
    }


def compiled(m, tiny: bool) -> dict:
    found = Rows()
    for dtype in DTYPES:
        size = m.tensor([], dtype=getattr(m, dtype)).element_size()
        rows = (1 << 16 if tiny else 64 << 20) // (1024 * size)
        x, y = (m.ones(rows, 1024, dtype=getattr(m, dtype), device="cuda") for _ in range(2))
        clock = Clock(m, tiny)
        for name, (function, arguments, tensors) in chains(m, x, y, x[0].clone()).items():
            fast = m.compile(function)
            for _ in range(4 if tiny else 8):  # until kernels are asked for
                fast(*arguments)
            if m.__name__ == "facula":
                m._C._cuda_finish_groups()
            eager, whole = clock(lambda f=function, a=arguments: f(*a)), clock(lambda f=fast, a=arguments: f(*a))
            rate = tensors * x.numel() * size / whole / 1e6
            found[f"{name} {dtype}"] = {"eager_ms": eager, "compiled_ms": whole, "times": eager / whole, "GB_per_s": rate}
    return found
