"""Products, convolutions, pooling and attention on the emulated CUDA device, in sizes that samples of ops do not have: tiles
of every size, parts, windows by classes of positions, planes with many equal places."""

import os
import subprocess
import sys

import pytest

BEGIN = """
import facula as t, facula.nn.functional as F
t.manual_seed(1)
def check(f, *tensors, tolerance=1e-5, grad=True):
    results = []
    for device in ("cpu", "cuda"):
        given = [x.to(device).detach().requires_grad_(grad and x.is_floating_point()) for x in tensors]
        out = f(*given)
        if grad: (out * out).sum().backward()
        results.append([out.detach().cpu()] + [x.grad.cpu() for x in given if x.grad is not None])
    assert len(results[0]) == len(results[1])
    for a, b in zip(*results):
        assert a.shape == b.shape and a.dtype == b.dtype
        scale = max(a.double().abs().max().item(), 1e-30) if a.numel() else 1
        assert not a.numel() or (a.double() - b.double()).abs().max().item() <= tolerance * scale, f
"""

CASES = {
    "products": """
for shape in ((1500, 20, 1500), (600, 18, 300), (40, 5000, 40), (33, 17, 65), (1, 3000, 70), (70, 300, 1), (5, 0, 6)):
    m, k, n = shape
    check(lambda a, b: a @ b, t.randn(m, k), t.randn(k, n), grad=False)
    check(lambda a, b: a.t() @ b.t(), t.randn(k, m), t.randn(n, k), grad=False)
for dtype, tolerance in ((t.float16, 2e-3), (t.bfloat16, 1e-2), (t.float64, 1e-13)):
    check(lambda a, b, c: t.addmm(c, a, b, beta=0.5, alpha=2), *(t.randn(40, 40).to(dtype) for _ in range(3)),
          tolerance=tolerance)
for dtype in (t.uint8, t.int16, t.int64):
    check(lambda a, b: a @ b, *(t.randint(0, 100, (37, 37)).to(dtype) for _ in range(2)), tolerance=0, grad=False)
nan = t.full((40, 40), float("nan"), device="cuda")
assert not t.addmm(nan, t.ones(40, 8, device="cuda"), t.ones(8, 40, device="cuda"), beta=0).isnan().any().item()
""",
    "convolution": """
for channels, results, groups, stride, padding, dilation in (
    (6, 4, 2, 2, 1, 1), (16, 24, 1, (2, 1), 1, (1, 2)), (8, 8, 8, 1, 1, 1), (5, 7, 1, 3, 2, 2), (5, 6, 1, (4, 9), 0, (2, 3))):
    x, bias = t.randn(2, channels, 13, 11), t.randn(results)
    how = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    for last in (False, True):
        given = x.to(memory_format=t.channels_last) if last else x
        check(lambda x, w, b: F.conv2d(x, w, b, **how), given, t.randn(results, channels // groups, 3, 2), bias)
        check(lambda x, w, b: F.conv_transpose2d(x, w, b, **how), given, t.randn(channels, results // groups, 3, 2), bias)
check(lambda x, w: F.conv3d(x, w, stride=(1, 2, 3), padding=1, dilation=(2, 1, 1)), t.randn(1, 6, 5, 6, 7), t.randn(9, 6, 2, 3, 2))
check(lambda x, w: F.conv1d(x, w, stride=2), t.randn(3, 4, 19).half(), t.randn(6, 4, 5).half(), tolerance=1e-2)
""",
    "pooling": """
x = t.randn(2, 5, 9, 11)
x[0, 0, 4, 4] = float("inf")
for given in (x, x.to(memory_format=t.channels_last)):
    check(lambda x: F.max_pool2d(x, 3, 1, 1).clamp(max=9), given)
    check(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True).clamp(max=9), given.clamp(max=9))
    check(lambda x: F.adaptive_avg_pool2d(x, (4, 13)), given.clamp(max=9))
places = t.zeros(1, 1, 8, 8, dtype=t.int64, device="cuda")  # all in one place: sums in order, the last one stays
values = t.arange(64.0, device="cuda").reshape(1, 1, 8, 8)
assert F.max_unpool2d(values, places, 2, 2)[0, 0, 0, 0].item() == 63
try:
    F.max_unpool2d(values, places + 999, 2, 2).cpu()
    raise SystemExit("no error")
except RuntimeError as error:
    assert "max_unpool2d" in str(error) and "999" in str(error)
""",
    "attention": """
for queries, keys, size, wide, how in ((70, 70, 40, 40, {"is_causal": True}), (5, 77, 8, 150, {}), (33, 65, 130, 20, {})):
    given = t.randn(2, 3, queries, size), t.randn(2, 3, keys, size), t.randn(2, 3, keys, wide)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **how), *given, tolerance=1e-4)
    mask = t.rand(queries, keys) > 0.3
    mask[1] = False
    if not how:
        check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask.to(q.device)), *given, tolerance=1e-4)
""",
}


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("case", CASES)
def test_emulated(case, order, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FACULA_CUDA": "emulated"}
    environment["FACULA_CUDA_DISABLE"] = "cublas,cudnn"  # our own kernels
    environment["FACULA_CACHE_DIR"] = os.environ.get("FACULA_CACHE_DIR", str(tmp_path))
    if order != "forward":
        environment["FACULA_EMULATED_ORDER"] = order
    command = [sys.executable, "-c", BEGIN + CASES[case]]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
