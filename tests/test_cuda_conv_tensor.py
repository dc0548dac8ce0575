"""Convolutions by the tensor cores on the emulated device, where cuDNN is not there: against those of the CPU in double precision."""

import json
import sys

import cuda_kernels
import pytest

BEGIN = """
import ctypes, json
import facula as t, facula.nn.functional as F
from cuda_stand_in import stand_in
t.manual_seed(1)
def conflicts():
    if not hasattr(stand_in, "facula_emulated_bank_conflicts"): return 0
    t.cuda.synchronize()
    stand_in.facula_emulated_bank_conflicts.restype = ctypes.c_longlong
    return stand_in.facula_emulated_bank_conflicts()
def report(name, error): print(json.dumps({"name": name, "error": error}))
def error(got, wanted, size):
    # the largest, in units of what factors add up to in magnitude
    assert got.shape == wanted.shape
    return ((got.cpu().double() - wanted).abs() / size.clamp(min=1e-30)).max().item()
def check(name, f, *tensors):
    given = [x.to(dtype) for x in tensors]
    wide, sizes, there = ([g(x).detach().requires_grad_() for x in given] for g in (t.Tensor.double, lambda x: x.double().abs(), t.Tensor.cuda))
    assert all(a.stride() == b.stride() for a, b in zip(given, there))
    wanted, size, got = f(*wide), f(*sizes), f(*there)
    report(name, error(got.detach(), wanted.detach(), size.detach()))
    grad = t.randn(*wanted.shape).to(dtype)
    for x, g in ((wanted, grad.double()), (size, grad.double().abs()), (got, grad.cuda())): x.backward(g)
    for which, a, b, c in zip(("x", "w"), there, wide, sizes): report(f"{name} {which}", error(a.grad, b.grad, c.grad))
"""

CASES = """
x, w, bias = t.randn(2, 16, 13, 45), t.randn(24, 16, 3, 3), t.randn(24)
for layout in (t.contiguous_format, t.channels_last):
    check(f"same {layout}", lambda x, w, b: F.conv2d(x, w, b, padding=1), x.contiguous(memory_format=layout), w.contiguous(memory_format=layout), bias)
check("whole strides", lambda x, w: F.conv2d(x, w, stride=2, padding=1), t.randn(2, 16, 24, 24), t.randn(32, 16, 3, 3))
check("strides", lambda x, w: F.conv2d(x, w, stride=(2, 3), padding=(2, 0), dilation=(1, 2)), t.randn(2, 24, 25, 38), t.randn(40, 24, 4, 3))
check("few taps", lambda x, w, b: F.conv2d(x, w, b, stride=3), t.randn(2, 48, 41, 43), t.randn(72, 48, 1, 2), t.randn(72))
check("points", lambda x, w: F.conv2d(x, w), t.randn(1, 64, 16, 17), t.randn(64, 64, 1, 1))
check("line", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=3), t.randn(3, 32, 150), t.randn(64, 32, 5), t.randn(64))
check("transposed", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), t.randn(1, 32, 11, 12),
      t.randn(32, 48, 3, 3), t.randn(48))
check("part", lambda x, w: F.conv2d(x[:, 1:17, 1:], w, padding=1), t.randn(2, 18, 13, 45), w)
check("wide", lambda x, w: F.conv2d(x, w, padding=1), t.randn(1, 8, 40, 40), t.randn(136, 8, 3, 3))
check("small", lambda x, w: F.conv2d(x, w, padding=1), t.randn(1, 64, 10, 10), t.randn(64, 64, 3, 3))
report("conflicts", float(conflicts()))
x, w = t.randn(1, 16, 24, 24).to(dtype), t.randn(32, 16, 3, 3).to(dtype)
kinds = []
for value in (float("inf"), float("nan")):
    x[0, 3, 5, 7] = value
    got, wanted = F.conv2d(x.cuda(), w.cuda(), padding=1).cpu(), F.conv2d(x, w, padding=1)
    kinds += [t.equal(got.isnan(), wanted.isnan()), t.equal(got.isinf(), wanted.isinf())]
report("not finite", float(len(kinds) - sum(kinds)))
"""

#: what rounding of results or, to TF32, of both factors loses, and a little for sums; gradients are sums of other sums' order
LIMITS = {"bfloat16": 2**-8 + 2e-6, "float16": 2**-11 + 2e-6, "float32": 2**-21, "tf32": 2**-10 + 2e-6}
NO_LIBRARY = {"FACULA_CUDA_DISABLE": "cublas,cudnn"}


def command(dtype):
    begin = f"dtype = t.{dtype}\nt.backends.cudnn.allow_tf32 = False" if dtype != "tf32" else "dtype = t.float32"
    return [sys.executable, "-c", f"{BEGIN}{begin}\n{CASES}"]


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("dtype", LIMITS)
def test_convolutions(dtype, order):
    done = cuda_kernels.run(command(dtype), **NO_LIBRARY, FACULA_EMULATED_ORDER=order)
    assert done.returncode == 0, done.stderr
    found = {r["name"]: r["error"] for r in map(json.loads, done.stdout.splitlines())}
    assert found.pop("conflicts") == found.pop("not finite") == 0
    assert len(found) == 33 and all(0 <= error <= LIMITS[dtype] for error in found.values()), found
    if dtype == "tf32":
        assert min(error for name, error in found.items() if " x" not in name and " w" not in name) > LIMITS["float32"], found


def test_the_switches_of_tf32():
    """Both switches of convolutions count, and none of products; what is preset allows TF32, as in PyTorch."""
    program = """
x, w = t.randn(1, 16, 24, 24), t.randn(32, 16, 3, 3)
wide, cudnn, matmul = F.conv2d(x.double(), w.double(), padding=1), t.backends.cudnn, t.backends.cuda.matmul
def is_rounded():
    return (F.conv2d(x.cuda(), w.cuda(), padding=1).cpu().double() - wide).abs().max().item() > 1e-4
print(is_rounded())
cudnn.allow_tf32 = False
print(is_rounded())
matmul.allow_tf32 = True
print(is_rounded())
cudnn.conv.fp32_precision = "tf32"
print(is_rounded())
cudnn.conv.fp32_precision = "ieee"
print(is_rounded())
with cudnn.flags(enabled=True, allow_tf32=True):
    print(is_rounded())
print(is_rounded())
"""
    done = cuda_kernels.run([sys.executable, "-c", BEGIN + program], **NO_LIBRARY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "False", "False", "True", "False", "True", "False"]


@pytest.mark.parametrize("dtype", LIMITS)
def test_kernels(dtype):
    """Both forms and both sizes of tiles are by the tensor cores, and no convolution here is by other kernels."""
    launched = {kernel[1].replace("facula::cuda::", "") for kernel in cuda_kernels.listed(command(dtype), **NO_LIBRARY)}
    name = {"bfloat16": "BFloat16", "float16": "Float16"}.get(dtype, "Float32")
    form = {"float32": 2, "tf32": 1}.get(dtype, 0)
    assert {f"windows_by_tensor_cores<{name}, {form}, {left}, {size}>" for left in "01" for size in "48"} <= launched, launched
    assert not any(map_ in kernel for kernel in launched for map_ in ("OutputMap", "InputMap", "WeightMap")), launched
