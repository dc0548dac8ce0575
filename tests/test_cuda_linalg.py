"""Linear algebra on CUDA in sizes that samples of ops do not have: matrices of one warp, of one block, and of several panels,
batches, strides, tall and wide; what becomes of singular and non-finite ones. In processes with a device."""

import subprocess
import sys

import pytest
from cuda_environment import environment

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


def run(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype, sizes", [("float32", "1 3 70"), ("float64", "2 33"), ("complex64", "3 17"), ("complex128", "1 70")])
def test_as_on_the_cpu(case, dtype, sizes):
    run(BEGIN + CASES[case], dtype, sizes)


def test_large_and_small_numbers():
    """Squares of elements overflow, or vanish."""
    run(BEGIN + """
for scale in (1e-170, 1e170, 1e300):
    a = draw(5, 5) * scale
    h = (a + a.mH) / 2
    for x, function in ((a, L.svdvals), (h, L.eigvalsh), (a, lambda a: L.qr(a)[1])):
        close(function(x.to("cuda")) / scale, function(x) / scale, (scale, function))
graded = f.diag(f.tensor([1.0, 1e-8, 1e-160, 0.0], dtype=f.float64))
assert (L.svdvals(graded.to("cuda")).cpu() == f.tensor([1.0, 1e-8, 1e-160, 0.0], dtype=f.float64)).all()
""", "float64", "")  # fmt: skip


def test_errors():
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
""", "float64", "")  # fmt: skip


def test_empty():
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
""", "float64", "")  # fmt: skip


def test_derivatives():
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
""", "float64", "")  # fmt: skip
