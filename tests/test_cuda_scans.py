"""Scans on CUDA: lines that kernels take different ways for, and parts of lines whose totals the last block scans; histograms beside them."""

import subprocess
import sys

import cuda_kernels
import pytest
from cuda_environment import environment, run_emulated

BEGIN = """
import zlib, numpy as np, facula as t
rng = np.random.default_rng(3)
bits = 0
def numbers(dtype, *shape):
    # whose sums are exact in float32 and float64, and small enough for narrow dtypes where lines are short
    if dtype == t.bool:
        return t.tensor(rng.integers(0, 2, shape)).to(dtype)
    made = rng.integers(0 if dtype == t.uint8 else -4, 5, shape)
    return t.tensor(made + 1j * rng.integers(-4, 5, shape) if dtype.is_complex else made).to(dtype)
def on_device(x):
    # which lies there as it does here
    whole = t.empty(x.untyped_storage().nbytes() // x.element_size(), dtype=x.dtype)
    whole.untyped_storage().copy_(x.untyped_storage())
    return whole.cuda().as_strided(x.shape, x.stride(), x.storage_offset())
def lines(dtype):
    for n in (0, 1, 3, 4, 5, 31, 128, 500, 512, 513, 1000, 1024, 1025, 4096, 5001):
        yield numbers(dtype, 3, n), 1
    for n in (7, 33333, 65536):  # in one part, and in several
        yield numbers(dtype, n), 0
        yield numbers(dtype, n + 1)[1:], 0
        yield numbers(dtype, n, 2)[:, 1], 0
    for shape in ((5, 64), (40, 33), (400, 48), (3, 1100), (2000, 3), (700, 300)):
        yield numbers(dtype, *shape), 0
    yield numbers(dtype, 3, 200, 40), 1
    yield numbers(dtype, 3, 9, 7), 1
    yield numbers(dtype, 50, 60).t(), 1
    yield numbers(dtype), 0
def check(name, f, kind, exact=True, **more):
    global bits
    for x, dim in lines(kind):
        got, wanted = f(on_device(x), dim, **more), f(x, dim, **more)
        for a, b in zip(got, wanted) if isinstance(got, tuple) else ((got, wanted),):
            a = a.cpu()
            assert a.dtype == b.dtype and a.shape == b.shape
            if not a.dtype.is_complex: bits = zlib.crc32(a.contiguous().view(-1).view(t.uint8).numpy().tobytes(), bits) if a.numel() else bits
            same = t.equal(a, b) if exact else t.allclose(a, b, rtol=1e-4 if kind != t.float16 else 1e-2, atol=1e-4, equal_nan=True)
            if not same: print(name, kind, tuple(x.shape), dim)
"""

SUMS = """
for dtype in (t.float32, t.float64, t.int64, t.int32, t.int8, t.uint8, t.bool, t.complex64, t.complex128):
    check("cumsum", t.cumsum, dtype)
check("cumsum", t.cumsum, t.bfloat16, dtype=t.float32)
check("cumsum", t.cumsum, t.float32, dtype=t.int32)
check("cumsum", t.cumsum, t.float16, exact=False)
for dtype in (t.float32, t.bfloat16, t.int32, t.int8):
    check("cummax", t.cummax, dtype)
check("cummin", t.cummin, t.float64)
"""
OTHERS = """
def signs(dtype, *shape): return t.tensor(rng.choice([1, -1, -1, 1], shape)).to(dtype)
def small(dtype, *shape): return t.tensor(rng.standard_normal(shape)).to(dtype)
numbers = signs
for dtype in (t.float32, t.bfloat16, t.int16):
    check("cumprod", t.cumprod, dtype)
numbers = small
check("logcumsumexp", t.logcumsumexp, t.float32, exact=False)
check("logcumsumexp", t.logcumsumexp, t.float16, exact=False)
"""
PARTS = """
lines = lambda dtype: [(numbers(dtype, *shape), dim) for shape, dim in (((33333,), 0), ((2, 70000), 1), ((700, 30), 0), ((2, 300, 40), 1))]
check("cumsum", t.cumsum, t.float32)
check("cummax", t.cummax, t.float32)
x = t.tensor(rng.standard_normal((2, 70000))).float().cuda()  # whose sums are rounded
bits = zlib.crc32(t.cat([x.cumsum(1).flatten(), x.view(700, 200).cumsum(0).flatten()]).cpu().numpy().tobytes(), bits)
"""
ORDERS = [{"FACULA_EMULATED_ORDER": order} for order in ("reverse", "random")]
FENCES = {"FACULA_EMULATED_FENCES": "1", "FACULA_EMULATED_ORDER": "random", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "FACULA_CUDA_POISON": "1"}


def command(program):
    return [sys.executable, "-c", f"{BEGIN}{program}\nprint(bits)"]


def checksum(done):
    """What a program prints where nothing differs."""
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().isdigit(), done.stdout[:3000]
    return done.stdout


@pytest.mark.parametrize("program", [pytest.param(SUMS, id="sums"), pytest.param(OTHERS, id="others")])
def test_scans_are_those_of_the_cpu(program):
    checksum(cuda_kernels.run(command(program)))


def test_bits_do_not_depend_on_the_block_that_comes_last():
    wanted = checksum(cuda_kernels.run(command(PARTS)))
    for more in (*ORDERS, FENCES):
        done = subprocess.run(command(PARTS), env=environment(FACULA_CUDA="emulated", **more), capture_output=True, text=True)
        assert checksum(done) == wanted, more


def test_parts_are_two_launches():
    names = [kernel[1] for kernel in cuda_kernels.listed(command("""
for shape, dim in (((33333,), 0), ((700, 40), 0), ((40, 1000), 1)):
    t.zeros(*shape, device="cuda", dtype=t.bfloat16).cumsum(dim)
"""))]
    scans = sorted(name.replace("facula::cuda::", "").split("<")[0] for name in names if "scan" in name)
    assert scans == ["scan", "scan", "scan", "scan_totals", "scan_totals_of_columns"], names


def test_special_numbers():
    run_emulated("""
import facula as t
nan, inf = float("nan"), float("inf")
for n in (5, 600, 33333):
    for at in (0, n // 2, n - 1):
        for value in (nan, inf, -inf, -0.0):
            x = t.arange(n).float() % 7 - 3
            x[at] = value
            for f in (t.cumsum, t.cummax, t.cummin, t.logcumsumexp):
                got, wanted = f(x.cuda(), 0), f(x, 0)
                for a, b in zip(got, wanted) if isinstance(got, tuple) else ((got, wanted),):
                    assert t.allclose(a.cpu().double(), b.double(), rtol=1e-5, equal_nan=True), (f, n, at, value)
""")


def test_histograms():
    run_emulated("""
import facula as t
t.manual_seed(2)
for n in (0, 1, 7, 1000, 40001):
    for bins in (1, 10, 300, 10000):
        for dtype in (t.float32, t.float64):
            x = t.randn(n + 1).to(dtype)
            x[::97] = float("nan")
            for y, z in ((x[:n], x.cuda()[:n]), (x[1:], x.cuda()[1:])):
                assert t.equal(t.histc(z, bins, -2, 2).cpu(), t.histc(y, bins, -2, 2)), (n, bins, dtype)
    for kinds in (3, 9000):
        x = t.randint(0, kinds, (n + 1,))
        for y, z in ((x[:n], x.cuda()[:n]), (x[1:], x.cuda()[1:])):
            assert t.equal(t.bincount(z, minlength=2).cpu(), t.bincount(y, minlength=2)), (n, kinds)
""")
