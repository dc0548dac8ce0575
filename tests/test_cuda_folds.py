"""Folds on CUDA: layouts that kernels take different ways for, and blocks that finish what others have begun."""

import subprocess
import sys
from pathlib import Path

import cuda_kernels
import pytest
from cuda_environment import environment, run_emulated

WORKER = str(Path(__file__).resolve().parent / "cuda_folds_worker.py")
LAYOUTS = ("full", "rows", "columns")
#: how blocks come, and what they see of each other
ORDERS = [{"FACULA_EMULATED_ORDER": "reverse"}, {"FACULA_EMULATED_ORDER": "random"}]
FENCES = {"FACULA_EMULATED_FENCES": "1", "FACULA_EMULATED_ORDER": "random", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "FACULA_CUDA_POISON": "1"}


def checksum(done):
    """What the worker prints where nothing differs."""
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().isdigit(), done.stdout[:3000]
    return done.stdout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folds_are_those_of_the_cpu(layout):
    checksum(cuda_kernels.run([sys.executable, WORKER, layout, "sums", "others", "extrema", "truth"]))


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_folds_of_other_dtypes(layout):
    checksum(cuda_kernels.run([sys.executable, WORKER, layout, "more sums", "more others", "more extrema", "more truth"]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_do_not_depend_on_the_block_that_comes_last(layout):
    wanted = checksum(cuda_kernels.run([sys.executable, WORKER, layout, "one"]))
    for more in (*ORDERS, FENCES):
        env = environment(FACULA_CUDA="emulated", **more)
        done = subprocess.run([sys.executable, WORKER, layout, "one"], env=env, capture_output=True, text=True)
        assert checksum(done) == wanted, more


def test_special_numbers():
    run_emulated("""
import facula
nan, inf = float("nan"), float("inf")
for n in (5, 100, 1500, 40000):
    for at in (0, n // 2, n - 1):
        for values in ([nan], [inf], [-inf], [inf, -inf], [nan, inf], [-0.0]):
            x = facula.zeros(3, n) - 0.0
            for k, v in enumerate(values):
                x[1, (at + k) % n] = v
            y = x.cuda()
            for f in (facula.sum, facula.amax, facula.amin, facula.argmax, facula.argmin, facula.nansum):
                for dim in (0, 1):
                    assert facula.allclose(f(y, dim=dim).cpu().double(), f(x, dim=dim).double(), equal_nan=True), (f, n, at, values, dim)
    low = facula.full((2, n), -inf)
    assert facula.argmax(low.cuda(), 1).tolist() == [0, 0] and facula.argmin(-low.cuda(), 0).sum().item() == 0
""")


def test_variances_that_are_hard():
    """Far from zero, of equal elements, of numbers whose squares are too large, and with one element apart, also as the first."""
    run_emulated("""
import facula
facula.manual_seed(1)
for shape, dim in (((70001,), 0), ((5, 33333), 1), ((7, 1000), 1), ((3000, 40), 0), ((300, 3), 0), ((5, 70, 48), 1)):
    x = facula.randn(shape)
    apart = x.clone()
    apart.select(dim, 0).fill_(3e4)
    for y in (x, x + 1000, x * 1e-3 + 1, apart):
        got, wanted = facula.var(y.cuda(), dim).cpu().double(), facula.var(y.double(), dim)
        # what float32 keeps of elements that are far from zero is theirs
        assert ((got - wanted).abs() / wanted).max().item() < 1e-4, (shape, ((got - wanted).abs() / wanted).max().item())
    for value in (0.1, 3e20, -1e-30):
        assert facula.std(facula.full(shape, value).cuda(), dim).abs().sum().item() == 0, (shape, value)
    inf = x.clone()
    inf.flatten()[5] = float("inf")
    got, wanted = facula.var(inf.cuda(), dim).cpu(), facula.var(inf.double(), dim)
    assert facula.equal(got.isnan(), wanted.isnan())
assert facula.ones(3, 1).cuda().var(1).isnan().all() and facula.ones(3, 0).cuda().var(1, correction=0).isnan().all()
""")


def test_one_launch():
    lines = run_emulated("""
import facula, tempfile, os
from facula import profiler
x = facula.ones(3000, 40, device="cuda")
for call in (lambda y: y.sum(), lambda y: y.sum(0), lambda y: y.var(), lambda y: y.std(0), lambda y: y.var(1), lambda y: y.flatten()[:100000].view(2, -1).sum(1), lambda y: y.flatten().argmax(), lambda y: y.amax(0)):
    for y in (x, x.bfloat16()):
        call(y)
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as p:
            call(y)
            facula.cuda.synchronize()
        print(sum("fold" in e.name for e in p.events()), sum("pointwise" in e.name for e in p.events()))
""").stdout.split("\n")
    assert lines[:-1] == ["1 0"] * 16


def test_streams_and_graphs_have_tickets_of_their_own():
    run_emulated("""
import facula
from facula import cuda
x = facula.arange(100000, device="cuda").float() % 7
wanted = x.sum().item()
streams = [cuda.Stream() for _ in range(4)]
sums = []
for _ in range(5):
    for s in streams:
        s.wait_stream(cuda.current_stream())
        with cuda.stream(s):
            sums.append(x.sum())
cuda.synchronize()
assert all(s.item() == wanted for s in sums)
graphs = []
for _ in range(2):
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            a = x.sum()
        b, c = (x * 2).sum(), x.view(100, -1).sum(0)
        cuda.current_stream().wait_stream(side)
    graphs.append((g, a, b, c))
for round in range(3):
    x += round
    for s, (g, *_) in zip(streams, graphs):
        s.wait_stream(cuda.current_stream())
        with cuda.stream(s):
            g.replay()
            sums.append(x.sum())
    cuda.synchronize()
    for g, a, b, c in graphs:
        assert a.item() == x.sum().item() and b.item() == 2 * a.item() and c.sum().item() == a.item()
""", FACULA_EMULATED_ORDER="random", FACULA_EMULATED_JITTER="200")
