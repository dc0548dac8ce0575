"""Linear algebra on CUDA in sizes that samples of ops do not have: matrices of one warp, of one block, and of several panels,
batches, strides, tall and wide; what becomes of singular and non-finite ones. In processes with a device, by our own kernels
and by cuSOLVER, whose stand-in on the emulated device checks what it is given as the library does, and remembers it."""

import json
import subprocess
import sys

import cuda_kernels
import pytest
from cuda_environment import HERE, environment
from op_samples import all_ops

OWN = {"FACULA_CUDA_DISABLE": "cusolver"}
LIBRARY = {"FACULA_CUDA": "emulated", "TORCH_LINALG_PREFER_CUSOLVER": "1"}
both_ways = pytest.mark.parametrize("way", [OWN, LIBRARY], ids=["own", "cusolver"])

BEGIN = """
import sys
import numpy as np, facula as f
L, dtype, sizes = f.linalg, sys.argv[1], [int(n) for n in sys.argv[2].split()]
tolerance = 2e-3 if dtype in ("float32", "complex64") else 1e-9
rng = np.random.default_rng(3)

def draw(*shape):
    x = rng.normal(size=shape)
    return f.from_numpy(np.asarray(x + 1j * rng.normal(size=shape) if "complex" in dtype else x).astype(dtype))

def square(n):
    return draw(2, n, n) + 2 * n**0.5 * f.eye(n).to(getattr(f, dtype))

def close(a, b, what):
    a, b = a.cpu().resolve_conj().numpy(), b.cpu().resolve_conj().numpy()
    assert a.shape == b.shape, (what, a.shape, b.shape)
    assert not a.size or np.abs(a - b).max() <= tolerance * max(1, np.abs(b).max()), (what, a.shape, np.abs(a - b).max())

def same(function, *given, what=None):
    here = function(*given)
    # on the device every tensor lies with gaps
    there = function(*(f.stack([t, t], -1).to("cuda")[..., 0] if isinstance(t, f.Tensor) and t.dtype != f.int32
                       else t.to("cuda") for t in given))
    for a, b in zip([here] if isinstance(here, f.Tensor) else here, [there] if isinstance(there, f.Tensor) else there):
        assert b.device.type == "cuda" and a.dtype == b.dtype
        close(b, a, what or function)

def orthonormal(q, what):
    close(q.mH @ q, f.eye(q.shape[-1]).to(q.dtype).expand(*q.shape[:-2], -1, -1), what)
"""

CASES = {
    "systems": """
for n in sizes:
    a, b = square(n), draw(2, n, 5)
    positive = a @ a.mH + n * f.eye(n).to(a.dtype)
    for upper in (False, True):
        same(lambda a: L.cholesky(a, upper=upper), positive)
        factor = L.cholesky(positive, upper=upper)
        same(lambda b, a: f.cholesky_solve(b, a, upper=upper), b, factor, what=("cholesky_solve", upper))
        close(positive @ f.cholesky_solve(b, factor, upper=upper), b, "cholesky_solve on the CPU")
        same(lambda a: f.cholesky_inverse(a, upper=upper), factor, what=("cholesky_inverse", upper))
        for left in (False, True):
            for unit in (False, True):
                triangle = a.triu() if upper else a.tril()
                same(lambda a, b: L.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit),
                     triangle / n if unit else triangle, b if left else b.mT, what=("triangle", upper, left, unit))
    same(L.lu_factor, a)
    same(L.inv, a)
    same(L.slogdet, a)
    same(lambda a: L.det(a / (2 * n**0.5)), a)
    factors, pivots = L.lu_factor(a)
    for left in (False, True):
        for adjoint in (False, True):
            same(lambda lu, p, b: L.lu_solve(lu, p, b, left=left, adjoint=adjoint), factors, pivots, b if left else b.mT)
""",
    "reflectors": """
for n in sizes:
    for m, k in ((n, n), (2 * n, n), (n // 2 + 1, n)):
        a = draw(2, m, k)
        same(L.lu_factor, a)
        same(f.geqrf, a)
        for mode in ("reduced", "complete", "r"):
            same(lambda a: L.qr(a, mode=mode), a)
        g, tau = f.geqrf(a)
        for left in (False, True):
            for transpose in (False, True):
                c = draw(2, m, 3) if left else draw(2, 3, m)
                same(lambda g, tau, c: f.ormqr(g, tau, c, left, transpose), g, tau, c)
        for driver in ("gels", "gelsd"):
            same(lambda a, b: L.lstsq(a, b, driver=driver), a, draw(2, m, 2))
        b = draw(2, m, 2)
        close(L.lstsq(a.to("cuda"), b.to("cuda")).solution, L.lstsq(a, b).solution, "the default driver")
""",
    "spectra": """
for n in sizes:
    a = square(n)
    hermitian = (a + a.mH) / 2
    for upper in (False, True):  # the other triangle is not read
        half = hermitian + (f.full((n, n), 9.0).tril(-1) if upper else f.full((n, n), 9.0).triu(1)).to(a.dtype)
        w, v = L.eigh(half.to("cuda"), UPLO="U" if upper else "L")
        close(w, L.eigvalsh(hermitian), "eigenvalues")
        close(v * w.unsqueeze(-2) @ v.mH, hermitian, "eigh")
        orthonormal(v, "eigenvectors")
    same(L.eigvalsh, hermitian)
    same(L.eigvals, a)
    for m, k in ((n, n), (2 * n, n), (n // 2 + 1, n)):
        a = draw(2, m, k)
        a[0, :, 0] = a[0, :, -1] * 2  # of lower rank
        a[1] *= 0 if n == 3 else 1e-3
        for full in (False, True) if n < 70 or m > k else (True,):
            u, s, vh = L.svd(a.to("cuda"), full_matrices=full)
            assert u.shape[-1] == (m if full else min(m, k)) and vh.shape[-2] == (k if full else min(m, k))
            close(u[..., : min(m, k)] * s.unsqueeze(-2) @ vh[..., : min(m, k), :], a, "svd")
            orthonormal(u, "left vectors")
            orthonormal(vh.mH, "right vectors")
        same(L.svdvals, a) if n < 70 else None
        same(lambda a: L.pinv(a, rtol=1e-3), a) if n < 70 else None
""",
}


def run(code, *arguments, **way):
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment(**way), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@both_ways
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype, sizes", [("float32", "1 3 70"), ("float64", "2 33"), ("complex64", "3 17"), ("complex128", "1 70")])
def test_as_on_the_cpu(case, dtype, sizes, way):
    run(BEGIN + CASES[case], dtype, sizes, **way)


@both_ways
def test_large_and_small_numbers(way):
    """Squares of elements overflow, or vanish."""
    run(BEGIN + """
for scale in (1e-170, 1e170, 1e300):
    a = draw(5, 5) * scale
    h = (a + a.mH) / 2
    for x, function in ((a, L.svdvals), (h, L.eigvalsh), (a, lambda a: L.qr(a)[1])):
        close(function(x.to("cuda")) / scale, function(x) / scale, (scale, function))
graded = f.diag(f.tensor([1.0, 1e-8, 1e-160, 0.0], dtype=f.float64))
assert (L.svdvals(graded.to("cuda")).cpu() == f.tensor([1.0, 1e-8, 1e-160, 0.0], dtype=f.float64)).all()
""", "float64", "", **way)  # fmt: skip


@both_ways
def test_errors(way):
    """Singular, indefinite and non-finite matrices: the CPU's errors and infos."""
    run(BEGIN + """
def error_of(function, *given):
    try:
        function(*given)
    except Exception as error:
        return type(error).__name__, str(error)
    raise AssertionError(function)

batch = f.eye(5, dtype=f.float64).repeat(3, 1, 1)
singular, indefinite = batch.clone(), batch.clone()
singular[1, 3, 3] = 0
indefinite[2, 2, 2] = -1
for function, a in ((L.cholesky, indefinite), (L.inv, singular), (L.solve, singular), (L.lu_factor, singular)):
    more = [f.ones(3, 5, 2, dtype=f.float64)] if function is L.solve else []
    assert error_of(function, a, *more) == error_of(function, a.to("cuda"), *[t.to("cuda") for t in more])
for function, a in ((L.cholesky_ex, indefinite), (L.inv_ex, singular), (L.lu_factor_ex, singular)):
    assert (function(a).info == function(a.to("cuda")).info.cpu()).all(), function
for bad in (float("nan"), float("inf")):
    for n in (3, 70):
        a = f.eye(n, dtype=f.float64).repeat(2, 1, 1)
        a[1, 1, 0] = bad
        assert error_of(L.svd, a) == error_of(L.svd, a.to("cuda"))
        assert error_of(L.svdvals, a) == error_of(L.svdvals, a.to("cuda"))
        assert error_of(L.eigh, a.to("cuda"))[0] == "_LinAlgError"
        assert error_of(L.eig, a.to("cuda"))[1].startswith(error_of(L.eig, a)[1])  # and says where it was found
        assert L.qr(a.to("cuda"))[1][1].isnan().any().item() and not L.qr(a.to("cuda"))[1][0].isnan().any().item()
        assert L.det(a.to("cuda")).cpu().isfinite().tolist()[0] is True

zero = f.zeros(3, 3, dtype=f.complex128)
assert L.inv_ex(zero.to("cuda")).inverse.isnan().all().item()
lu, pivots = L.lu_factor(f.eye(3, device="cuda"))
wrong = f.tensor([1, 2, 9], dtype=f.int32, device="cuda")
assert "pivots count from one" in error_of(lambda: f.lu_unpack(lu, wrong)[0].cpu())[1]
assert "pivots count from one" in error_of(lambda: L.lu_solve(lu, wrong, lu).cpu())[1]
""", "float64", "", **way)  # fmt: skip


@both_ways
def test_empty(way):
    run(BEGIN + """
for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
    a = f.zeros(shape, dtype=f.float64)
    for function in (L.cholesky, L.inv, L.det, L.slogdet, L.lu_factor, L.qr, L.svdvals, L.eigvalsh, L.eigh, L.eig, L.svd):
        same(function, a)
for shape in ((0, 4), (4, 0), (0, 4, 2)):
    a = f.zeros(shape, dtype=f.float64)
    for function in (L.qr, L.svd, L.lu_factor, L.pinv, lambda a: L.qr(a, mode="complete"), lambda a: L.svd(a, full_matrices=False)):
        same(function, a)
    same(lambda a, b: L.lstsq(a, b, driver="gels"), a, f.zeros(*shape[:-1], 2, dtype=f.float64))
""", "float64", "", **way)  # fmt: skip


@both_ways
def test_derivatives(way):
    """Those of eigenvectors and singular vectors, of quantities in which their phases do not show."""
    run(BEGIN + """
def gradient(function, a, device):
    a = a.detach().to(device).requires_grad_()
    value = function(a)
    value.abs().sum().backward()
    return a.grad.cpu()

weights = f.linspace(1, 2, 6, dtype=f.float64)
for function in (lambda a: (L.eigh(a + a.mH)[1].abs() ** 2) @ weights.to(a.device),
                 lambda a: (lambda u, s, vh: (u * weights.to(u.device)) @ vh)(*L.svd(a, full_matrices=False)),
                 lambda a: f.cat([t.flatten() for t in L.lstsq(a[..., :4], a[..., 4:], driver="gels")[:2]]), lambda a: L.matrix_exp(a / 10), lambda a: L.pinv(a),
                 lambda a: L.slogdet(a)[1], lambda a: L.eigvals(a).abs()):
    a = draw(2, 6, 6)
    close(gradient(function, a, "cuda"), gradient(function, a, "cpu"), function)
""", "float64", "", **way)  # fmt: skip


ASKED = BEGIN + """
import ctypes
stand_in = ctypes.CDLL(f.cuda.libraries()["cusolver"])
stand_in.facula_emulated_requests.restype = ctypes.c_char_p
def asked(function=None, *given):
    stand_in.facula_emulated_requests()
    if function:
        function(*given)
    f.cuda.synchronize()
    lines = [line.split() for line in stand_in.facula_emulated_requests().decode().splitlines()]
    return [(line[0].removeprefix("cusolverDn"), *(int(word.split("=")[1]) for word in line[1:]))
            for line in lines if line[0].startswith("cusolverDn")]
def names(function, *given):
    return [request[0] for request in asked(function, *given)]
"""


def test_which_tasks_are_the_library_s():
    """One matrix is; small matrices of a batch are our own kernels', which take all of them with a launch."""
    run(ASKED + """
one, few, many = (square(70)[:1].repeat(n, 1, 1).cuda() for n in (1, 2, 20))
small, hermitian = draw(2, 5, 5).cuda(), lambda a: a @ a.mH
assert asked(L.cholesky, hermitian(one)) == [("Xpotrf", 70, 70, 1, 1, 0)]
assert asked(L.cholesky, hermitian(many)) == [("DpotrfBatched", 70, 70, 1, 20, 0)] and not asked(L.cholesky, hermitian(small))
assert names(f.cholesky_solve, one[0], L.cholesky(hermitian(one[0]))) == ["Xpotrs"] and not names(f.cholesky_solve, small, small)
assert names(L.lu_factor, few) == ["Xgetrf"] * 2 and not asked(L.lu_factor, many) and not asked(L.lu_factor, small)
assert names(L.solve, one[0], one[0]) == ["Xgetrf", "Xgetrs"] and names(L.inv, small[0]) == ["Xgetrf", "Xgetrs"]
assert names(L.qr, one) == ["Xgeqrf", "Dorgqr"] and not asked(L.qr, many)
assert names(L.eigh, one) == ["Xsyevd"] and names(L.eigh, many) == ["XsyevBatched"] and not asked(L.eigh, small)
assert names(L.svd, few) == ["Xgesvd"] * 2 and not asked(L.svd, small) and names(L.svdvals, small[0]) == ["Xgesvd"]
assert names(L.eig, small) == ["Xgeev"] * 2 and names(L.ldl_factor, small) == ["Dsytrf"] * 2
assert names(L.ldl_solve, *L.ldl_factor(small), small) == ["Xsytrs"] * 2
assert not names(lambda a: L.ldl_factor(a.to(f.complex128), hermitian=True), small)  # the library has symmetric ones only
assert names(lambda a, b: L.lstsq(a, b, driver="gels"), one, one[..., :2]) == ["Xgeqrf", "Dormqr"]
stream = f.cuda.Stream()
stream.wait_stream(f.cuda.current_stream())
with f.cuda.stream(stream):
    assert asked(L.lu_factor, one)[0][-1] == stream.cuda_stream
prefer = f.backends.cuda.preferred_linalg_library
assert prefer().name == "Default" and prefer("cusolver").name == "Cusolver"
assert names(L.cholesky, hermitian(small)) == ["DpotrfBatched"] and names(L.lu_factor, small) == ["Xgetrf"] * 2
assert names(L.eigh, small) == ["XsyevBatched"] and names(L.qr, small) == ["Xgeqrf"] * 2 + ["Dorgqr"] * 2
prefer("default")
assert not asked(L.eigh, small)
for wrong, says in (("magma", "MAGMA is not supported"), ("x", "backend must be"), (3, "must be a name or a")):
    try:
        prefer(wrong)
    except RuntimeError as error:
        assert says in str(error), error
    else:
        raise AssertionError(wrong)
assert prefer().name == "Default" and f.cuda.libraries()["cusolver"]
""", "float64", "", FACULA_CUDA="emulated", TORCH_LINALG_PREFER_CUSOLVER="0")  # fmt: skip


@pytest.mark.parametrize("extra", [{"FACULA_EMULATED_MODE": "lazy"}, {"FACULA_EMULATED_JITTER": "300"}], ids=str)
def test_the_library_waits_for_nothing_more(extra):
    run(ASKED + """
a, b = square(9), draw(2, 9, 3)
hermitian = a @ a.mH
for _ in range(3):  # memory of the host is used again
    for function in (L.qr, L.lu_factor, L.eigvalsh, L.svdvals, L.inv):
        same(function, hermitian)
    same(L.solve, a, b)
    w, v = L.eig(a.cuda())
    close(v * w.unsqueeze(-2), a.to(v.dtype) @ v.cpu(), "eig")
f.cuda.set_sync_debug_mode("error")  # what reads no info does not wait
ready = a.cuda()
there, right = hermitian.cuda(), b.cuda()
L.qr(there), L.lu_factor_ex(there), L.cholesky_ex(there), L.inv_ex(there), L.solve_ex(there, right), L.ldl_factor_ex(there)
f.cuda.set_sync_debug_mode("default")
""", "float64", "", **LIBRARY, **extra)  # fmt: skip


def test_pivots_of_what_is_not_finite():
    """The library does not say what they are; ours exchange nothing."""
    run(ASKED + """
a = f.full((4, 4), float("nan")).cuda()
assert L.lu_factor_ex(a).pivots.tolist() == [1, 2, 3, 4]
p, l, u = L.lu(a)
assert f.equal(p.cpu(), f.eye(4)) and u.isnan().any().item()
""", "float32", "", **LIBRARY)  # fmt: skip


def test_the_stand_in_finds_wrong_arguments():
    run(ASKED + """
C, P = ctypes, ctypes.c_void_p
L64, bytes_of = C.c_int64, lambda n: C.c_size_t(n)
x, other = f.ones(64, 8, dtype=f.float64).cuda(), f.ones(4096, dtype=f.float64).cuda()
info, pivots = f.zeros(8, dtype=f.int32).cuda(), f.zeros(64, dtype=f.int64).cuda()
f.cuda.synchronize()
handle, params = P(), P()
assert stand_in.cusolverDnCreate(C.byref(handle)) == 0 and stand_in.cusolverDnCreateParams(C.byref(params)) == 0
D, F, Z = 1, 0, 5  # double, float, complex
X, I, W = x.data_ptr(), info.data_ptr(), other.data_ptr()
host = C.create_string_buffer(4096)

def lu(m=8, n=8, type=D, a=X, ld=8, p=pivots.data_ptr(), compute=D, room=W, size=4096, out=I, with_handle=handle, with_params=params):
    return stand_in.cusolverDnXgetrf(with_handle, with_params, L64(m), L64(n), type, P(a), L64(ld), P(p), compute, P(room),
                                     bytes_of(size), None, bytes_of(0), P(out))
assert lu() == 0
for wrong in (dict(m=0), dict(ld=7), dict(type=3), dict(compute=F), dict(a=8), dict(a=X + 4), dict(n=1 << 40), dict(p=X + (1 << 40)),
              dict(room=None), dict(size=100), dict(out=X + 2), dict(with_handle=P(8)), dict(with_params=P(8)), dict(room=W + 8)):
    assert lu(**wrong) == 3, wrong

def asks_lu(type=D, compute=D):
    there, here = C.c_size_t(), C.c_size_t()
    status = stand_in.cusolverDnXgetrf_bufferSize(handle, params, L64(8), L64(8), type, P(X), L64(8), compute, C.byref(there), C.byref(here))
    return status or there.value
assert asks_lu() > 100 and asks_lu(compute=Z) == 3

def syevd(w_type=D, part=0, host_room=host, host_size=4096, w=W):
    return stand_in.cusolverDnXsyevd(handle, params, 1, part, L64(8), D, P(X), L64(8), w_type, P(w), D, P(W + 8192), bytes_of(4096),
                                     host_room, bytes_of(host_size), P(I))
assert syevd() == 0
assert syevd(w_type=Z) == syevd(part=2) == syevd(host_room=None) == syevd(host_size=8) == syevd(w=12) == 3

def gesvd(m=8, n=4, job=ord("S"), u_ld=8, vt_ld=4, s_type=D, vt_job=None):
    return stand_in.cusolverDnXgesvd(handle, params, job, vt_job or job, L64(m), L64(n), D, P(X), L64(8), s_type, P(W), D, P(W + 1024),
                                     L64(u_ld), D, P(W + 2048), L64(vt_ld), D, P(W + 8192), bytes_of(4096), host, bytes_of(4096), P(I))
assert gesvd() == 0
assert gesvd(m=4, n=8) == gesvd(job=ord("X")) == gesvd(u_ld=7) == gesvd(vt_ld=3) == gesvd(s_type=Z) == gesvd(vt_job=ord("N")) == 3

def orgqr(m=8, n=4, k=4, room=512):
    return stand_in.cusolverDnDorgqr(handle, m, n, k, P(X), 8, P(W), P(W + 8192), room, P(I))
assert orgqr() == 0 and orgqr(m=3) == orgqr(k=5) == orgqr(room=4) == 3

def ormqr(side=0, op=1, m=8, n=3, k=4, c_ld=8):
    return stand_in.cusolverDnDormqr(handle, side, op, m, n, k, P(X), 8, P(W), P(W + 1024), c_ld, P(W + 8192), 512, P(I))
assert ormqr() == 0
assert ormqr(op=2) == ormqr(side=1) == ormqr(m=3) == ormqr(c_ld=7) == ormqr(side=2) == 3  # real matrices have no conjugates

def geev(left=0, w_type=Z, vr_type=D):
    return stand_in.cusolverDnXgeev(handle, params, left, 1, L64(8), D, P(X), L64(8), w_type, P(W), D, None, L64(8), vr_type,
                                    P(W + 1024), L64(8), D, P(W + 8192), bytes_of(4096), host, bytes_of(4096), P(I))
assert geev() == 0 and geev(left=1) == geev(w_type=D) == geev(vr_type=Z) == 3

def getrs(op=0, b_type=D, ld=8):
    return stand_in.cusolverDnXgetrs(handle, params, op, L64(8), L64(2), D, P(X), L64(8), P(pivots.data_ptr()), b_type, P(W), L64(ld), P(I))
assert lu() == 0 and getrs() == 0 and getrs(op=3) == getrs(b_type=Z) == getrs(ld=7) == 3
assert stand_in.cusolverDnXpotrf(handle, params, 0, L64(8), D, P(X), L64(8), D, P(W), bytes_of(64), None, bytes_of(0), P(I)) == 3
assert stand_in.cusolverDnXpotrs(handle, params, 2, L64(8), L64(2), D, P(X), L64(8), D, P(W), L64(8), P(I)) == 3
addresses = f.tensor([X, 24], dtype=f.int64).cuda()  # an address that is none
info.fill_(0)
f.cuda.synchronize()
assert stand_in.cusolverDnDpotrfBatched(handle, 0, 8, P(addresses.data_ptr()), 8, P(I), 2) == 0
f.cuda.synchronize()
assert info[1].item() == -99
assert stand_in.cusolverDnDpotrfBatched(handle, 0, 8, P(addresses.data_ptr()), 8, P(I), 0) == 3
x.fill_(float("inf"))  # the library may not end
f.cuda.synchronize()
assert syevd() == 0
f.cuda.synchronize()
assert info[0].item() == -99
assert stand_in.cusolverDnDestroy(handle) == 0 and stand_in.cusolverDnDestroy(handle) == 3 and lu() == 3
""", "float64", "", **LIBRARY)  # fmt: skip


@pytest.mark.parametrize("way", [OWN, LIBRARY], ids=["own", "cusolver"])
def test_samples(way):
    ops = [op.id for op in all_ops() if op.topic == "linalg" and op.samples is not None]
    done = cuda_kernels.run([sys.executable, str(HERE / "device_worker.py"), *ops], FACULA_TEST_DEVICE="cuda", **way)
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(reports) == len(ops) > 50
    assert not [r for r in reports if r["errors"]]
