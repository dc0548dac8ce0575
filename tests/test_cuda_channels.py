"""Pooling by small windows, scatters of sorted keys, gathering of neighbors and normalizations of channels on the CUDA device, in the
sizes and layouts at which their kernels change."""

import sys

import pytest
from cuda_kernels import run

BEGIN = """
import os
import numpy as np
import facula as t, facula.nn.functional as F
t.manual_seed(1)
nan, inf = float("nan"), float("inf")
lists = os.environ["FACULA_CUDA"] == "null"  # which kernels there are: results are none
def same(a, b, tolerance):
    a, b = a.detach().cpu().double().numpy(), b.detach().cpu().double().numpy()
    assert a.shape == b.shape, (a.shape, b.shape)
    scale = max(np.abs(a[np.isfinite(a)]).max(initial=0), 1e-30)
    np.testing.assert_allclose(b, a, rtol=0, atol=tolerance * scale, equal_nan=True)
def check(f, *tensors, tolerance=1e-5, grad=True, exact=()):
    made = []
    for device in ("cpu", "cuda", "cuda"):
        given = [x.to(device).detach() for x in tensors]
        given = [x.requires_grad_() if grad and x.is_floating_point() else x for x in given]
        out = f(*given)
        out = out if isinstance(out, tuple) else (out,)
        if grad: (out[0].float() * t.arange(out[0].numel(), dtype=t.float32).cos().reshape(out[0].shape).to(device)).sum().backward()
        made.append([*out, *(x.grad for x in given if x.grad is not None)])
    for k, (a, b, again) in enumerate(zip(*made, strict=True) if not lists else ()):
        assert a.dtype == b.dtype
        same(a, b, 0 if k in exact or a.dtype == t.int64 else tolerance)
        bits = [x.detach().cpu().contiguous().numpy().tobytes() if x.dtype != t.bfloat16 else x.detach().cpu().float().numpy().tobytes()
                for x in (b, again)]
        assert bits[0] == bits[1]
def last(x): return x.to(memory_format=t.channels_last)
"""

CASES = {
    "pooling": """
plain = t.randn(2, 8, 9, 11)
odd = t.randn(1, 3, 6, 7)
strange = plain.clone()
strange[0, 0, 4, 4], strange[0, 1, 2, 2:5], strange[0, 2], strange[0, 3], strange[0, 4, ::2] = nan, nan, -inf, inf, -0.0
strange[0, 5] = 0.0
windows = [(3, 2, 1, False), (2, 2, 0, False), (2, 2, 1, True), (3, 1, 1, False), (3, 3, 0, True), ((3, 2), (1, 3), (1, 0), True), (1, 2, 0, False)]
for k, (size, stride, padding, ceil) in enumerate(windows):
    for x in (plain, last(plain), odd, last(odd)) if k < 2 else (plain, last(odd)):
        check(lambda x: F.max_pool2d(x, size, stride, padding, ceil_mode=ceil, return_indices=True), x, exact=(0,))
        for include, divisor in ((True, None), (False, None), (True, 7)):
            check(lambda x: F.avg_pool2d(x, size, stride, padding, ceil, include, divisor), x)
    for x in (strange, last(strange)):
        check(lambda x: F.max_pool2d(x, size, stride, padding, ceil_mode=ceil, return_indices=True), x, exact=(0,), grad=False)
for dtype, tolerance in ((t.float16, 2e-3), (t.bfloat16, 1e-2), (t.float64, 1e-13)):
    for x in (plain.to(dtype), last(plain.to(dtype))):
        check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x, exact=(0,), tolerance=tolerance)
        check(lambda x: F.avg_pool2d(x, 3, 2, 1), x, tolerance=tolerance)
whole = t.randint(-9, 9, (2, 4, 8, 8))
for x in (whole, whole.to(t.uint8), last(whole.to(t.int16))):
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x, grad=False, exact=(0,))
check(lambda x: F.avg_pool2d(x, 2), whole, grad=False, exact=(0,))
check(lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), t.randn(3, 2, 65))
check(lambda x: F.avg_pool1d(x, 3, 1, 1), t.randn(3, 2, 65))
check(lambda x: F.max_pool2d(x, 2, 2, dilation=2, return_indices=True), plain)
check(lambda x: F.max_pool2d(x, 5, 2, 2, return_indices=True), plain)
check(lambda x: F.max_pool3d(x, 2, return_indices=True), t.randn(1, 2, 4, 6, 6))
check(lambda x: F.max_pool2d(x[:, :, 1:, 1:], 3, 2, 1), t.randn(2, 4, 9, 9))
check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), t.randn(1, 1, 1, 1))
x = t.randn(0, 3, 8, 8, device="cuda", requires_grad=True)
F.max_pool2d(x, 3, 2, 1).sum().backward()
assert x.grad.shape == x.shape
twice = t.randn(1, 2, 7, 7, dtype=t.float64, requires_grad=True, device="cuda")
assert lists or t.autograd.gradcheck(lambda x: F.max_pool2d(x, 3, 2, 1), (twice,))
""",
    "scatters": """
rng = np.random.default_rng(0)
def keys(kind, count, size):
    return {"equal": np.full(count, size - 1), "different": np.arange(count) % size, "few": rng.integers(0, 3, count) % size,
            "random": rng.integers(0, size, count), "long": np.minimum(np.arange(count) // 37, size - 1)}[kind]
for count, size, inner in ((1, 5, 4), (33, 5, 8), (300, 40, 1), (1025, 1100, 3), (4100, 7, 4), (0, 3, 4), (700, 9, 130)):
    for kind in ("equal", "different", "few", "random", "long"):
        at = keys(kind, count, size)
        values = rng.integers(-9, 9, (count, inner)).astype("float32")
        expected = np.ones((size, inner), "float32")
        np.add.at(expected, at, values)
        made = t.ones(size, inner, device="cuda").index_add(0, t.tensor(at, device="cuda"), t.tensor(values, device="cuda"))
        assert lists or np.array_equal(made.cpu().numpy(), expected), (count, size, inner, kind)
at = t.tensor(keys("random", 515, 6))
for dtype in (t.float64, t.float16, t.bfloat16, t.int32, t.uint8, t.complex64):
    x, values = (t.tensor(rng.integers(0, 2, (n, 16))).to(dtype) for n in (6, 515))
    check(lambda x, at, v: x.index_add(0, at, v), x, at, values, grad=False, tolerance=1e-2 if dtype in (t.float16, t.bfloat16) else 0)
# a place is written once, with all that its keys bring: in bfloat16 less than 256 at a time would leave 65536 as it is
large = t.full((3, 8), 65536.0, dtype=t.bfloat16, device="cuda")
made = large.index_add(0, t.ones(5000, dtype=t.int64, device="cuda"), t.ones(5000, 8, dtype=t.bfloat16, device="cuda"))
assert lists or made.cpu().float().tolist() == [[65536.0] * 8, [70656.0] * 8, [65536.0] * 8]
x, values = t.randn(7, 6, 12), t.randn(7, 515, 12)
check(lambda x, at, v: x.index_add(1, at, v), x, at, values, tolerance=1e-4)
check(lambda x, at, v: x.transpose(0, 1).index_add(0, at, v.transpose(0, 1)), x, at, values, tolerance=1e-4)
check(lambda x, at, v: x[:, :, 1:].index_add(1, at, v[:, :, 1:]), x, at, values, tolerance=1e-4)
full = t.tensor(rng.integers(0, 6, (5, 400)))
for name in ("sum", "prod", "amax", "amin", "mean"):
    check(lambda x, at, v: x.scatter_reduce(1, at, v, name), t.rand(5, 6) + 0.9, full, t.rand(5, 400) * 0.01 + 0.99, grad=False, tolerance=1e-4)
values = t.randn(5, 400)
values[0, 3], values[1, 4], values[2] = nan, inf, -0.0
check(lambda x, at, v: x.scatter_reduce(1, at, v, "amax"), t.zeros(5, 6), full, values, grad=False, tolerance=0)
check(lambda x, at, v: x.scatter_add(1, at, v), -t.zeros(5, 6), full, values, grad=False)
tokens = t.tensor(rng.integers(0, 50, (4, 160)))
tokens[:, 100:] = 3
for width in (1, 8, 33, 64):
    check(lambda w: F.embedding(tokens.to(w.device), w), t.randn(50, width), tolerance=1e-4)
    check(lambda w: F.embedding(tokens.to(w.device), w, padding_idx=3), t.randn(50, width), tolerance=1e-4)
check(lambda w: F.embedding(tokens.to(w.device), w), t.randn(50, 16).bfloat16(), tolerance=2e-2)
check(lambda x: x.index_put((tokens.to(x.device) % 5,), t.ones(3, device=x.device), accumulate=True), t.randn(5, 3), tolerance=1e-5)
""",
    "gathers": """
rng = np.random.default_rng(0)
for dtype in (t.float32, t.float64, t.bfloat16, t.uint8, t.complex128):
    for rows, columns in ((3, 16), (5, 7), (4, 64)):
        x = t.tensor(rng.integers(0, 99, (rows, columns))).to(dtype)
        for dim in (0, 1):
            at = t.tensor(rng.integers(0, x.shape[dim], (rows, columns)))
            check(lambda x, at: x.gather(dim, at), x, at, grad=False, tolerance=0)
            check(lambda x, at: x.t().gather(1 - dim, at.t()), x, at, grad=False, tolerance=0)
            own = at.argsort(dim)
            check(lambda x, at, v: x.scatter(dim, at, v), x, own, x.flip(0), grad=False, tolerance=0)
        check(lambda x, at: x[at], x, t.tensor(rng.integers(-rows, rows, 40)), grad=False, tolerance=0)
        check(lambda x, at: x[:, at], x, t.tensor(rng.integers(-columns, columns, 40)), grad=False, tolerance=0)
        check(lambda x, at: x.take(at), x, t.tensor(rng.integers(0, rows * columns, 48)), grad=False, tolerance=0)
wide = t.randn(3, 1, 4, 1, 5, 2, 16)
at = t.tensor(rng.integers(0, 4, (3, 1, 4, 1, 5, 2, 16)))
check(lambda x, at: x.gather(2, at), wide, at, grad=False, tolerance=0)
check(lambda x, at: x.permute(6, 4, 2, 0, 1, 5, 3).gather(2, at.permute(6, 4, 2, 0, 1, 5, 3)), wide, at, grad=False, tolerance=0)
check(lambda x, at: x[1:].gather(0, at[1:] % 3), t.randn(1025), t.tensor(rng.integers(0, 4, 1025)), grad=False, tolerance=0)
table, at = t.arange(64.0, device="cuda"), t.arange(64, device="cuda")
at[37] = 64
for f in () if lists else (lambda: table.gather(0, at), lambda: t.zeros(64, device="cuda").scatter_(0, at, table)):
    made = f()
    try:
        made.cpu()
        raise SystemExit("no error")
    except Exception as error:
        assert "64" in str(error), error
    good = [k for k in range(64) if k != 37]
    assert made[good].tolist() == table[good].tolist() and made[37].item() == 0  # the others are as they should be
""",
    "windows": """
x, odd = t.randn(2, 12, 9, 11), t.randn(1, 3, 6, 7)
for given in (x, last(x), odd):
    for size in ((18, 22), (5, 30), (9, 4)):
        for mode in ("nearest", "bilinear", "bicubic", "area"):
            check(lambda x: F.interpolate(x, size, mode=mode), given)
    check(lambda x: F.interpolate(x, (4, 5), mode="bilinear", antialias=True), given)
check(lambda x: F.interpolate(x, 33, mode="linear"), t.randn(3, 4, 16))
check(lambda x: F.interpolate(x, (4, 7, 8), mode="trilinear"), t.randn(2, 3, 5, 4, 8))
for dtype, tolerance in ((t.bfloat16, 2e-2), (t.float64, 1e-12)):
    check(lambda x: F.interpolate(x, (18, 22), mode="bilinear"), x.to(dtype), tolerance=tolerance)
check(lambda x: F.interpolate(x, (18, 22)), x.to(t.uint8), grad=False, tolerance=0)
for how in (dict(kernel_size=3, padding=1), dict(kernel_size=(2, 3), stride=(1, 2), dilation=(2, 1)), dict(kernel_size=1, stride=3)):
    for given in (x, odd, last(x), x.double(), x[:, :, 1:]):
        check(lambda x: F.unfold(x, **how), given)
    columns = F.unfold(x, **how)
    check(lambda c: F.fold(c, (9, 11), **how), columns)
    check(lambda c: F.fold(c, (9, 11), **how), columns.bfloat16(), tolerance=3e-2)
""",
    "channels": """
def norm(x, weight, bias, mean, var, training):
    return F.batch_norm(x, mean, var, weight, bias, training, 0.1, 1e-5)
shapes = [(2, 3, 8, 8), (3, 5, 7, 7), (2, 4, 33), (5, 16, 40, 36), (40, 7), (64, 32), (9, 3, 5), (4, 72, 3, 3), (1, 2, 60, 60)]
for k, shape in enumerate(shapes):
    x = t.randn(*shape) * 3 + 50
    more = [t.randn(shape[1]) for _ in range(2)]
    for given in (x, last(x)) if x.dim() == 4 else (x,):
        for training in (True, False) if k < 3 else (True,):
            check(lambda x, w, b: norm(x, w, b, t.ones(shape[1], device=x.device), t.full((shape[1],), 2.0, device=x.device), training),
                  given, *more, tolerance=2e-4)
x = t.randn(6, 16, 10, 8)
for dtype, tolerance in ((t.float16, 5e-3), (t.bfloat16, 3e-2), (t.float64, 1e-11)):
    for given in (x.to(dtype), last(x.to(dtype)), x.to(dtype)[:, :, 1:, 1:]):
        check(lambda x: norm(x, None, None, None, None, True), given, tolerance=tolerance)
check(lambda x, w: F.group_norm(x, 4, w), last(x), t.randn(16), tolerance=2e-4)
check(lambda x: norm(x[1:].reshape(13, 16, 3), None, None, None, None, True), t.randn(1 + 13 * 16 * 3), tolerance=2e-4)
bad = x.clone()
bad[0, 0, 0, 0], bad[1, 1, 1, 1] = nan, inf
for given in (bad, last(bad)):
    made = norm(given.cuda(), None, None, None, None, True).cpu()
    assert lists or made[:, :2].isnan().all().item() and made[:, 2:].isfinite().all().item()
large = t.randn(4, 2, 600, 40) + 1000  # many parts, far from zero
for given in (large, last(large)):
    check(lambda x: norm(x, None, None, None, None, True), given, tolerance=1e-3)
""",
}


@pytest.mark.parametrize("order", ["forward", "random"])
@pytest.mark.parametrize("case", CASES)
def test_as_on_the_cpu(case, order):
    done = run([sys.executable, "-c", BEGIN + CASES[case]], FACULA_CUDA_DISABLE="cublas,cudnn", FACULA_EMULATED_ORDER=order)
    assert done.returncode == 0, done.stderr[-3000:]
