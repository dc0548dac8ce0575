"""cuBLAS on the emulated CUDA device, whose stand-in checks what it is given as the library does, and remembers it; and the
flags of facula.backends that say how products are computed."""

import json
import sys

import cuda_kernels
import pytest
from cuda_environment import HERE, run_emulated
from op_samples import all_ops

BEGIN = """
import ctypes
import facula as t, facula.nn.functional as F
from facula.backends import cuda, cudnn
t.manual_seed(1)
from cuda_stand_in import request_lines, stand_in
def requests():
    return [dict(w.split("=") for w in line.split()[1:]) for line in request_lines() if line.startswith("cublasLtMatmul ")]
def close(got, wanted, tolerance):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    wide = t.complex128 if wanted.is_complex() else t.float64
    error = (got.cpu().to(wide) - wanted.to(wide)).abs().max().item()
    assert error <= tolerance * max(wanted.to(wide).abs().max().item(), 1e-30), error
TOLERANCES = {t.float16: 2e-3, t.bfloat16: 2e-2, t.float32: 1e-5, t.float64: 1e-13, t.complex64: 1e-5, t.complex128: 1e-13}
"""

PRODUCTS = """
for dtype, tolerance in TOLERANCES.items():
    for turn_a in (False, True):
        for turn_b in (False, True):
            for m, k, n in ((9, 70, 5), (1, 8, 3), (4, 1, 6), (5, 3, 1)):
                a = t.randn(k, m).to(dtype).t() if turn_a else t.randn(m, k).to(dtype)
                b = t.randn(n, k).to(dtype).t() if turn_b else t.randn(k, n).to(dtype)
                close(a.cuda() @ b.cuda(), a @ b, tolerance)
    x, w, bias = t.randn(3, 4, 70).to(dtype), t.randn(6, 70).to(dtype), t.randn(6).to(dtype)
    there = [v.cuda() for v in (x, w, bias)]
    close(F.linear(*there), F.linear(x, w, bias), tolerance)
    close(there[0][:, 1:3, 2:9] @ there[1][:, 1:8].t(), x[:, 1:3, 2:9] @ w[:, 1:8].t(), tolerance)  # parts of rows
    c, each = t.randn(3, 4, 6).to(dtype), t.randn(1, 70, 6).to(dtype).expand(3, 70, 6)
    close(t.baddbmm(c.cuda(), there[0], each.cuda(), alpha=0.5, beta=2), t.baddbmm(c, x, each, alpha=0.5, beta=2), tolerance)
    if dtype.is_complex:
        close(t.addmm(c[0].cuda(), there[0][0], each[0].cuda(), alpha=2j), t.addmm(c[0], x[0], each[0], alpha=2j), tolerance)
        close(there[0][0].mH @ there[0][0], x[0].mH @ x[0], tolerance)
nan = t.full((4, 4), float("nan"), device="cuda")
assert not t.addmm(nan, t.ones(4, 8, device="cuda"), t.ones(8, 4, device="cuda"), beta=0).isnan().any().item()
assert t.addmm(t.ones(4, 4, device="cuda"), t.ones(4, 0, device="cuda"), t.ones(0, 4, device="cuda")).sum().item() == 16
stream = t.cuda.Stream()
stream.wait_stream(t.cuda.current_stream())
with t.cuda.stream(stream):
    close(there[0][0].real @ there[0][0].real.t(), x[0].real @ x[0].real.t(), 1e-12)
"""

CASES = {
    "heuristics": """
import warnings
from cuda_stand_in import stand_in
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for size, status in ((5, 15), (6, 7), (7, 8)):  # not supported; a value, an architecture that they do not know
        stand_in.facula_emulated_blas_heuristics(status)
        a, b = t.randn(size, 4), t.randn(4, 3)
        assert t.allclose((a.cuda() @ b.cuda()).cpu(), a @ b, atol=1e-5)  # by our own kernels
    assert len(caught) == 1 and "Facula's own kernels" in str(caught[0].message), [str(c.message) for c in caught]
stand_in.facula_emulated_blas_heuristics(14)
try:
    t.randn(9, 4).cuda() @ t.randn(4, 3).cuda()
    raise SystemExit("no error")
except RuntimeError as error:
    assert "cuBLAS's status 14" in str(error), error
stand_in.facula_emulated_blas_heuristics(0)
""",
    "threads": """
import threading
a, b, bias = t.randn(8, 16, device="cuda"), t.randn(16, 4, device="cuda"), [t.randn(4, device="cuda") for _ in range(4)]
wanted = [t.addmm(c, a, b).cpu() for c in bias]
found = [[] for _ in bias]
def work(i):  # the address of the bias is a part of the plan that each call sets
    for _ in range(50):
        found[i].append(t.addmm(bias[i], a, b))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for results, expected in zip(found, wanted):
    assert all(t.equal(r.cpu(), expected) for r in results)
""",
    "products": PRODUCTS + "assert requests()",
    "flags": """
a = t.randn(8, 80, device="cuda")
def asked(dtype=t.float32, other=None):
    requests()
    x = a.to(dtype)
    y = x @ x.t()
    (request,) = requests()
    return request
assert asked()["compute"] == "68" and asked()["workspace"] == "4096" and not cuda.matmul.allow_tf32
cuda.matmul.allow_tf32 = True
assert asked()["compute"] == "77" and t.get_float32_matmul_precision() == "high" and cuda.matmul.fp32_precision == "tf32"
assert asked(t.float64)["compute"] == "70" and asked(t.bfloat16)["compute"] == "68" and asked(t.complex64)["compute"] == "77"
t.set_float32_matmul_precision("highest")
assert asked()["compute"] == "68" and not cuda.matmul.allow_tf32
t.set_float32_matmul_precision("medium")
assert asked()["compute"] == "77" and t.get_float32_matmul_precision() == "medium"
cuda.matmul.fp32_precision = "ieee"
assert asked()["compute"] == "68"
cuda.matmul.fp32_precision = "none"
t.backends.fp32_precision = "tf32"
assert asked()["compute"] == "77"
t.backends.fp32_precision = "none"
assert asked()["compute"] == "68"
cuda.matmul.allow_fp16_accumulation = True
assert asked(t.float16)["compute"] == "64"
cuda.matmul.allow_fp16_accumulation = False
def reductions(dtype, n):
    stand_in.facula_emulated_requests()
    t.ones(n, 8, device="cuda", dtype=dtype) @ t.ones(8, n, device="cuda", dtype=dtype)
    first = stand_in.facula_emulated_requests().decode().splitlines()[0]
    assert first.startswith("cublasLtMatmulAlgoGetHeuristic"), first
    return int(first.split("reductions=")[1])
assert reductions(t.float16, 3) == reductions(t.bfloat16, 3) == 7
cuda.matmul.allow_fp16_reduced_precision_reduction = False
assert reductions(t.float16, 4) == 2 and reductions(t.bfloat16, 4) == 7
cuda.matmul.allow_bf16_reduced_precision_reduction = False
assert reductions(t.bfloat16, 5) == 2 and reductions(t.float32, 5) == 7
a.requires_grad_()
requests()
F.linear(a, t.ones(4, 80, device="cuda"), t.ones(4, device="cuda")).sum().backward()
assert requests()[0]["epilogue"] == "4"
""",
    "refusals": """
# through the C functions, as a wrong caller would
L = stand_in
x = t.ones(64, device="cuda")
handle, desc, layout, preference = (ctypes.c_void_p() for _ in range(4))
assert L.cublasLtCreate(ctypes.byref(handle)) == 0
assert L.cublasLtMatmulDescCreate(ctypes.byref(desc), 68, 0) == 0
assert L.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)) == 0
one = ctypes.c_float(1)
def matrix(rows, columns, leading, batch=1, step=0):
    layout = ctypes.c_void_p()
    L.cublasLtMatrixLayoutCreate(ctypes.byref(layout), 0, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(leading))
    L.cublasLtMatrixLayoutSetAttribute(layout, 5, ctypes.byref(ctypes.c_int32(batch)), ctypes.c_size_t(4))
    L.cublasLtMatrixLayoutSetAttribute(layout, 6, ctypes.byref(ctypes.c_int64(step)), ctypes.c_size_t(8))
    return layout
def choose(a, b, c):
    result, found = (ctypes.c_uint64 * 16)(), ctypes.c_int()
    return L.cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, c, preference, 1, result, ctypes.byref(found)), result
def multiply(a, b, c, algorithm, data=None, out=None):
    p = ctypes.c_void_p(data or x.data_ptr())
    q = ctypes.c_void_p(out or x.data_ptr() + 128)
    return L.cublasLtMatmul(handle, desc, ctypes.byref(one), p, a, p, b, ctypes.byref(one), q, c, q, c, algorithm, None,
                            ctypes.c_size_t(0), None)
good = matrix(4, 4, 4)
status, algorithm = choose(good, good, good)
assert status == 0 and multiply(good, good, good, algorithm) == 7  # multiples of 256 were promised
for i in range(4):
    algorithm[1 + i] = 4
assert multiply(good, good, good, algorithm) == 0
assert multiply(matrix(4, 4, 3), good, good, algorithm) == 7  # leading dimension
assert multiply(matrix(4, 5, 4), good, good, algorithm) == 7  # sizes
assert multiply(matrix(4, 4, 1 << 40), good, good, algorithm) == 7  # beyond the memory
assert multiply(good, good, good, algorithm, data=x.data_ptr() + 2) == 7  # alignment
assert multiply(good, good, good, algorithm, data=8) == 7  # no device memory
assert multiply(matrix(4, 4, 4, 2), good, good, algorithm) == 7  # batches
assert multiply(matrix(2, 2, 2, 2), matrix(2, 2, 2, 2), matrix(2, 2, 2, 2, 1), algorithm) == 7  # results that overlap
assert multiply(good, good, good, (ctypes.c_uint64 * 8)()) == 7  # no heuristic's algorithm
t.cuda.synchronize()
assert x[:32].sum().item() == 32 and x[32:48].tolist() == [5.0] * 16
""",
}


def child(code, **variables):
    return run_emulated(BEGIN + code, **variables).stdout


@pytest.mark.parametrize("case", CASES)
def test_stand_in(case):
    child(CASES[case])


def test_no_wait_is_missing():
    child(CASES["products"], FACULA_EMULATED_MODE="lazy")


def test_without_the_library():
    says = "not used: FACULA_CUDA_DISABLE names it"
    code = f'assert not requests() and "{says}" in t.cuda.libraries(details=True)["cublas"]'
    child(PRODUCTS + code + ' and t.cuda.libraries()["cublas"] is None', FACULA_CUDA_DISABLE="cudnn,cublas")


@pytest.mark.parametrize("topic", ["matmul", "conv"])
def test_samples_without_libraries(topic):
    ops = [op.id for op in all_ops() if op.topic == topic and op.samples is not None]
    none = {"FACULA_TEST_DEVICE": "cuda", "FACULA_CUDA_DISABLE": "cublas,cudnn"}
    done = cuda_kernels.run([sys.executable, str(HERE / "device_worker.py"), *ops], **none)
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(reports) == len(ops) > 5
    assert not [r for r in reports if r["errors"]]


def test_flags_without_a_device():
    child("""
assert cuda.matmul.fp32_precision == "none" and cudnn.allow_tf32 and cudnn.conv.fp32_precision == "tf32"
assert cuda.matmul.allow_fp16_reduced_precision_reduction and cuda.matmul.allow_bf16_reduced_precision_reduction_split_k
for owner, name, value in ((cuda.matmul, "allow_tf32", "x"), (cudnn, "enabled", 1)):
    try:
        setattr(owner, name, value)
    except RuntimeError as error:
        assert name in str(error)
    else:
        raise AssertionError(name)
try:
    cuda.matmul.nothing = 3
except AttributeError as error:
    assert "nothing" in str(error)
with cudnn.flags(allow_tf32=False, deterministic=True):
    assert not cudnn.enabled and cudnn.deterministic and not cudnn.allow_tf32 and cudnn.benchmark_limit == 10
assert cudnn.enabled and cudnn.allow_tf32 and not cudnn.deterministic and cudnn.benchmark_limit == 10
assert cuda.preferred_blas_library("cublaslt").name == "Cublaslt" and cuda.preferred_linalg_library().name == "Default"
cuda.enable_flash_sdp(False)
assert not cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()
""")


def test_two_kinds_of_switches():
    """The older (allow_tf32, set_float32_matmul_precision) and the newer (fp32_precision), as PyTorch 2.13 has them."""
    child("""
from facula.backends import _cuda
now = lambda: tuple(_cuda.precision(part) for part in ("all", "matmul", "cuda", "conv", "rnn"))
def olders():
    said = []
    for read in (lambda: cuda.matmul.allow_tf32, lambda: cudnn.allow_tf32, t.get_float32_matmul_precision):
        try:
            said.append(read())
        except RuntimeError as error:
            assert "fp32_precision" in str(error) and "disagree" in str(error)
            said.append(None)
    return said
def after(steps, values, *older):
    before = _cuda.settings()
    for step in steps.split(";"):
        owner, value = step.rsplit("=", 1)
        owner, name = owner.rsplit(".", 1)
        setattr(eval(owner), name, eval(value))
    assert now() == tuple(values.split()), (steps, now())
    assert olders() == list(older), (steps, olders())
    _cuda.restore(before)
all = t.backends
preset = "none none none tf32 tf32"
after("cuda.matmul.allow_tf32=True", "none tf32 none tf32 tf32", True, True, "high")
after("cuda.matmul.fp32_precision='tf32'", "none tf32 none tf32 tf32", None, True, None)
after("cuda.matmul.fp32_precision='ieee'", "none ieee none tf32 tf32", False, True, "highest")
after("cuda.matmul.allow_tf32=True;cuda.matmul.fp32_precision='ieee'", "none ieee none tf32 tf32", None, True, "high")
after("cuda.matmul.fp32_precision='tf32';cuda.matmul.allow_tf32=False", "none ieee none tf32 tf32", False, True, "highest")
after("cudnn.allow_tf32=False", "none none none none none", False, False, "highest")
after("cudnn.conv.fp32_precision='ieee'", "none none none ieee tf32", False, None, "highest")
after("cudnn.conv.fp32_precision='ieee';cudnn.allow_tf32=False", "none none none none none", False, False, "highest")
after("cudnn.conv.fp32_precision='none'", "none none none none tf32", False, None, "highest")
after("cudnn.fp32_precision='ieee'", "none ieee ieee ieee ieee", False, None, "highest")
after("cudnn.fp32_precision='tf32'", "none tf32 tf32 tf32 tf32", None, True, None)
after("cudnn.fp32_precision='ieee';cudnn.fp32_precision='none'", preset, False, True, "highest")
after("all.fp32_precision='ieee'", "ieee ieee ieee ieee ieee", False, None, "highest")
after("all.fp32_precision='ieee';cudnn.fp32_precision='none'", "ieee ieee ieee ieee ieee", False, None, "highest")
after("cuda.matmul.fp32_precision='tf32';all.fp32_precision='ieee'", "ieee tf32 ieee ieee ieee", None, None, None)
after("cudnn.conv.fp32_precision='ieee';all.fp32_precision='tf32'", "tf32 tf32 tf32 ieee tf32", None, None, None)
after("all.fp32_precision='bf16'", "bf16 none none none none", False, None, None)
after("all.fp32_precision='bf16';cudnn.fp32_precision='tf32'", "bf16 tf32 tf32 tf32 tf32", None, True, None)
with cudnn.flags(enabled=True, allow_tf32=False, fp32_precision="ieee", depthwise_kernel="native"):
    assert now() == ("none", "ieee", "ieee", "ieee", "ieee") and cudnn.depthwise_kernel == "native"
assert now() == tuple(preset.split()) and cudnn.allow_tf32 and cudnn.depthwise_kernel == "auto"
before = cudnn.set_flags(_fp32_precision="ieee", _benchmark_limit=3)
assert before == (True, False, 10, False, True, "none", "auto") and cudnn.benchmark_limit == 3
for owner, name, value in ((all, "fp32_precision", "x"), (cudnn.conv, "fp32_precision", "bf16"),
                           (cudnn, "benchmark_limit", "a"), (cudnn, "benchmark_limit", -1), (cudnn, "depthwise_kernel", "x")):
    try:
        setattr(owner, name, value)
    except RuntimeError as error:
        assert str(value) in str(error)
    else:
        raise AssertionError(name)
""")
