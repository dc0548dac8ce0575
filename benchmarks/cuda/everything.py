"""All figures of a machine with a GPU in one go, in under ten minutes: Facula, and PyTorch where it is installed with CUDA.

    python benchmarks/cuda/everything.py                    # writes benchmarks/results/cuda_<device>.json
    FACULA_CUDA=emulated python benchmarks/cuda/everything.py --tiny --json FILE    # a test of this program, not of speed

Parts (--parts NAME,NAME): training steps of six models in float32 and bfloat16 (`models`), the host's and the whole time of
small ops (`latency`), bandwidth of element-wise ops and reductions as a share of a copy's (`bandwidth`), `matmul`, `attention`,
what the allocator asks of the driver in each iteration (`allocator`, Figure 2 of the PyTorch paper), how far the host runs
ahead of the device (`timeline`, Figure 1), functions that are written out in light ops, eager and compiled (`compiled`); those
of first_run.py; last, in the time that is left, the test suite on the driver (`tests`). Each part is a process of its own; one
that fails is reported and does not keep the others from running.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import first_run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMITS = {  # seconds
    "models": 80, "latency": 15, "bandwidth": 30, "matmul": 20, "attention": 20, "allocator": 15, "timeline": 15,
    "numerics": 30, "trace": 10, "costs": 20, "convolution": 20, "recurrent": 15, "scaling": 20, "compiled": 60, "tests": 340,
}  # fmt: skip
ALL, TINY_LIMIT = 590, 300
MODELS = ("alexnet", "vgg19", "resnet50", "mobilenet_v2", "gnmt", "ncf")
TESTS = (
    "test_cuda.py", "test_cuda_ops.py", "test_cuda_random.py", "test_cuda_random_statistics.py",
    "test_cuda_random_generators.py", "test_cuda_products.py", "test_cuda_blas.py", "test_cuda_dnn.py",
    "test_cuda_graphs.py", "test_cuda_ipc.py", "test_cuda_profiler.py", "test_cuda_index.py", "test_cuda_dtypes.py",
)  # fmt: skip
DTYPES = ("float32", "bfloat16")


class Library:
    """facula or torch as the models know it: what comes from NumPy goes to the device, in one floating dtype."""

    def __init__(self, m, dtype) -> None:
        self._m, self._dtype = m, dtype

    def __getattr__(self, name):
        return getattr(self._m, name)

    def from_numpy(self, array):
        there = self._m.from_numpy(array).cuda()
        return there.to(self._dtype) if there.is_floating_point() else there


class Clock:
    """Milliseconds of a call, by the device's clock; the least of several turns of some calls."""

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
    found = {}
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
    found, calls = {}, 10 if tiny else 500
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
    """Ops, and how many tensors of the size of x they read and write."""
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
    found = {}
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
    found = {}
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
    found = {}
    for shape in shapes:
        for dtype in DTYPES:
            for causal in (False, True):
                name = f"{'x'.join(map(str, shape))} {dtype}{' causal' if causal else ''}"
                found[name] = attend(m, shape, getattr(m, dtype), causal, Clock(m, tiny))
    return found


def allocator(m, tiny: bool) -> dict:
    """The time of each iteration from the first on, and what the driver was asked for in it."""
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
    """When the host has queued a training step, and when the device has done it."""
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
    """Functions that are written out in light ops, and how many tensors of the size of x each has to read and write."""

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
    found = {}
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


FURTHER = tuple(getattr(first_run, name) for name in ("numerics", "trace", "costs", "convolution", "recurrent", "scaling"))
PARTS = {f.__name__: f for f in (models, latency, bandwidth, matmul, attention, allocator, timeline, compiled, *FURTHER)}


# ---- running them


def run_tests(tiny: bool, seconds: float) -> dict:
    """File by file, in the order of their weight: what there is no time for is said."""
    found, end = {}, time.time() + seconds
    for name in TESTS[:1] if tiny else TESTS:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests" / name)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=max(1, end - time.time()))
        except subprocess.TimeoutExpired:
            found[name] = {"unfinished": "no time"}
            continue
        failed = re.findall(r"^FAILED (\S+)", run.stdout, re.M)
        found[name] = {"summary": " ".join(run.stdout.strip().splitlines()[-1:]), "failed": failed}
        if run.returncode:
            found[name]["error"] = f"status {run.returncode}"
    return found


def run_part(name: str, library: str, tiny: bool, seconds: float) -> dict:
    command = [sys.executable, str(Path(__file__).resolve()), "--part", name, "--library", library]
    command += ["--tiny"] if tiny else []
    start = time.time()
    try:
        if name == "tests":
            return run_tests(tiny, seconds)
        run = subprocess.run(command, capture_output=True, text=True, timeout=max(1, seconds))
        if run.returncode:
            return {"error": run.stderr.strip().splitlines()[-1:] or f"status {run.returncode}"}
        return json.loads(run.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {time.time() - start:.0f} s"}


def device_of(library: str) -> dict | None:
    """What the library says of the device; None where it has none."""
    program = (f"import {library} as m, json; p = m.cuda.get_device_properties(0); print(json.dumps({{'name': p.name, "
               "'memory': p.total_memory, 'capability': [p.major, p.minor], 'version': str(m.__version__)}))")  # fmt: skip
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1]) if run.returncode == 0 else None


def show(part: str, ours: dict, theirs: dict | None) -> None:
    for name, figures in ours.items():
        if not isinstance(figures, dict):
            same = "" if theirs is None else f"  (PyTorch {'the same' if theirs.get(name) == figures else 'others'})"
            print(f"  {part:10} {name:32} {str(figures)[:200]}{same}")
            continue
        rounded = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in figures.items()}
        said = "  ".join(f"{key} {value}" for key, value in rounded.items())
        other = (theirs or {}).get(name) or {}
        numbers = [key for key in figures if isinstance(other.get(key), float)]
        said += "".join(f"  (PyTorch {key} {other[key]:.4g})" for key in numbers)
        print(f"  {part:10} {name:32} {said}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="sizes that the emulated device can do")
    parser.add_argument("--parts", default=",".join([*PARTS, "tests"]))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--library", default="facula", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        print(json.dumps(PARTS[args.part](importlib.import_module(args.library), args.tiny)))
        return 0
    device, peer = device_of("facula"), device_of("torch")
    if not device:
        print("there is no CUDA device; FACULA_CUDA=emulated and --tiny run this program without one", file=sys.stderr)
        return 1
    start, failed = time.time(), 0
    results: dict = {"device": device, "peer": peer, "parts": {}}
    for part in args.parts.split(","):
        limit = TINY_LIMIT if args.tiny else min(LIMITS[part], start + ALL - time.time())
        ours = run_part(part, "facula", args.tiny, limit)
        theirs = run_part(part, "torch", args.tiny, limit) if peer and part != "tests" else None
        if part == "numerics" and "error" not in ours:
            ours, theirs = first_run.compared(ours, theirs), None
        results["parts"][part] = {"facula": ours, "torch": theirs}
        failed += "error" in ours or any(isinstance(row, dict) and "error" in row for row in ours.values())
        print(f"{part}, {time.time() - start:.0f} s", flush=True)
        show(part, ours, theirs)
    name = re.sub(r"\W+", "_", device["name"]).strip("_").lower()
    path = args.json or ROOT / "benchmarks" / "results" / f"cuda_{name}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{path}: {len(results['parts'])} parts, {failed} failed, {time.time() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
