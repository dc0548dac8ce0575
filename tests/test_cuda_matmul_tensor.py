"""Products by the tensor cores on the emulated device, where cuBLAS is not there: against sums in double precision."""

import json
import sys
from functools import cache

import cuda_kernels
import pytest

BEGIN = """
import ctypes, json
import facula as t, facula.nn.functional as F
from cuda_stand_in import stand_in
t.manual_seed(1)
def matrix(rows, columns, dtype, turned=False, batch=(), factor=1):
    # its values on the CPU, and itself on the device
    shape = (*batch, columns, rows) if turned else (*batch, rows, columns)
    x = (t.randn(*shape) * factor).to(dtype)
    there = x.cuda()
    return (x.transpose(-1, -2), there.transpose(-1, -2)) if turned else (x, there)
def error(got, wanted, size):
    # the largest, in units of what factors and terms add up to in magnitude
    got = got.cpu().double()
    assert got.shape == wanted.shape
    return ((got - wanted).abs() / size.clamp(min=1e-30)).max().item() if got.numel() else 0.0
def report(name, **values): print(json.dumps({"name": name, **values}))
def product(name, a, b):
    x, y = a[0].double(), b[0].double()
    report(name, error=error(a[1] @ b[1], x @ y, x.abs() @ y.abs()))
DTYPES = {"bfloat16": t.bfloat16, "float16": t.float16, "float32": t.float32}
"""

#: for each dtype
SHAPES = """
for m, k, n in ((136, 72, 264), (40, 40, 24), (72, 7, 72), (8, 1, 8), (64, 2056, 64), (72, 0, 72)):
    for turns in ((False, False), (False, True), (True, False), (True, True)):
        product(f"{m} {k} {n} {turns}", matrix(m, k, dtype, turns[0]), matrix(k, n, dtype, turns[1]))
for turns in ((False, False), (True, True)):  # rows that are copied first, and results at odd places
    product(f"odd {turns}", matrix(131, 129, dtype, turns[0]), matrix(129, 133, dtype, turns[1]))
a, b = matrix(130, 137, dtype), matrix(136, 160, dtype)
product("base", tuple(x[1:, 1:] for x in a), tuple(x[:, 8:] for x in b))
product("batch", matrix(72, 48, dtype, batch=(3,)), matrix(48, 80, dtype, True, batch=(3,)))
product("odd batch", matrix(129, 131, dtype, True, batch=(2,)), tuple(x.expand(2, 131, 129) for x in matrix(131, 129, dtype)))
x, w, bias, c = (matrix(*shape, dtype) for shape in ((72, 40), (75, 40), (1, 75), (72, 75)))
at, wt, st, ct = (v[0].double() for v in (x, w, bias, c))
size = at.abs() @ wt.abs().t()
report("linear", error=error(F.linear(x[1], w[1], bias[1][0]), at @ wt.t() + st, size + st.abs()))
report("addmm", error=error(t.addmm(c[1], x[1], w[1].t(), alpha=0.5, beta=2), 0.5 * at @ wt.t() + 2 * ct, size + 2 * ct.abs()))
a, b, c = (matrix(*shape, dtype, batch=(2,)) for shape in ((24, 16), (16, 32), (24, 32)))
at, bt, ct = (v[0].double() for v in (a, b, c))
report("baddbmm", error=error(t.baddbmm(c[1], a[1], b[1], alpha=-1, beta=0.5), 0.5 * ct - at @ bt, at.abs() @ bt.abs() + ct.abs()))
parts = [(v[1] @ v[1].t()).cpu() for v in [matrix(64, 2056, dtype)] for _ in range(2)]
report("same bits", error=0.0 if t.equal(*parts) else 1.0)
nothing = t.full((40, 40), float("nan"), device="cuda", dtype=dtype)
ones = t.ones(40, 40, device="cuda", dtype=dtype)
report("unread", error=(t.addmm(nothing, ones, ones, beta=0).cpu().double() - 40).abs().max().item())
kinds = []
for value in (float("inf"), float("-inf"), float("nan"), t.finfo(dtype).max):
    a, b = matrix(136, 40, dtype)[0], matrix(40, 136, dtype)[0]
    a[3, 5] = value
    b[7, 9] = value
    b[5, 11] = 0
    got, wanted = (a.cuda() @ b.cuda()).cpu(), a @ b
    kinds += [t.equal(got.isnan(), wanted.isnan()), t.equal(got.isinf(), wanted.isinf()), t.equal(got[4:7, :9] > 0, wanted[4:7, :9] > 0)]
    kinds += [t.equal(got[got.isinf()], wanted[got.isinf()])]
report("not finite", error=float(len(kinds) - sum(kinds)))
report("conflicts", error=float(conflicts()))
"""
CONFLICTS = """
def conflicts():
    if not hasattr(stand_in, "facula_emulated_bank_conflicts"): return 0
    t.cuda.synchronize()
    stand_in.facula_emulated_bank_conflicts.restype = ctypes.c_longlong
    return stand_in.facula_emulated_bank_conflicts()
"""

#: float32: whole, by the kernel without tensor cores (where rows of few elements are not aligned), and with factors of 19 bits
FLOAT32 = """
a, b = matrix(100, 101, t.float32), matrix(101, 104, t.float32)
product("other", a, b)
product("whole", *((x[0], F.pad(x[1], (0, 104 - x[1].shape[1]))[:, : x[1].shape[1]]) for x in (a, b)))
for how in ("allow_tf32", "precision"):
    t.backends.cuda.matmul.allow_tf32 = how == "allow_tf32"
    if how == "precision": t.set_float32_matmul_precision("high")
    for turns in ((False, False), (False, True), (True, False), (True, True)):
        product(f"{how} {turns}", matrix(136, 72, t.float32, turns[0]), matrix(72, 264, t.float32, turns[1]))
x = t.full((8, 8), float("nan"), device="cuda")
report("nan", error=0.0 if (x @ x).isnan().all().item() else 1.0)
"""

#: what rounding of results loses, and a little for sums; float32 loses two bits at most, where factors are split
LIMITS = {"bfloat16": 2**-8 + 2e-6, "float16": 2**-11 + 2e-6, "float32": 2**-21}
NO_LIBRARY = {"FACULA_CUDA_DISABLE": "cublas,cudnn"}


def command(dtype, program):
    return [sys.executable, "-c", f"{BEGIN}{CONFLICTS}dtype = t.{dtype}\n{program}"]


@cache
def kernels_of(dtype, program):
    """The kernels that a program launches, by their names with template arguments."""
    return {kernel[1].replace("facula::cuda::", "") for kernel in cuda_kernels.listed(command(dtype, program), **NO_LIBRARY)}


def reports(dtype, program, **more):
    done = cuda_kernels.run(command(dtype, program), **NO_LIBRARY, **more)
    assert done.returncode == 0, done.stderr
    return {r["name"]: r["error"] for r in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("dtype", LIMITS)
def test_products(dtype, order):
    found = reports(dtype, SHAPES, FACULA_EMULATED_ORDER=order)
    exact = {name: found.pop(name) for name in ("same bits", "unread", "not finite", "conflicts")}
    assert not any(exact.values()), exact
    assert len(found) == 32 and all(0 <= error <= LIMITS[dtype] for error in found.values()), found


@pytest.mark.parametrize("dtype", LIMITS)
def test_kernels(dtype):
    """All four transpositions in both sizes of tiles are by the tensor cores, and long sums are divided."""
    launched = kernels_of(dtype, SHAPES)
    form = 2 if dtype == "float32" else 0
    name = {"bfloat16": "BFloat16", "float16": "Float16", "float32": "Float32"}[dtype]
    wanted = {f"product_by_tensor_cores<{name}, {form}, {a}, {b}, {size}>" for a in "01" for b in "01" for size in "48"}
    assert wanted <= launched, launched
    assert any(kernel.startswith("product_of_parts<") for kernel in launched)
    assert any(kernel.startswith("copy_rows<") for kernel in launched)


def test_float32():
    found = reports("float32", FLOAT32)
    assert found.pop("nan") == 0
    whole, other = found.pop("whole"), found.pop("other")
    assert 0 < whole <= max(1.5 * other, 1.5e-7), (whole, other)
    assert len(found) == 8 and all(1e-5 < error <= 2**-10 for error in found.values()), found  # factors are rounded
    launched = kernels_of("float32", FLOAT32)
    assert any(kernel.startswith("product_by_tiles<StridedProduct") for kernel in launched)
    assert any("<Float32, 1, " in kernel for kernel in launched) and any("<Float32, 2, " in kernel for kernel in launched)
