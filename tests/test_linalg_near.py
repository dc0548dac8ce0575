"""Factorizations that are our own where matrices stay in the near caches: sizes around vectors and panels, hard matrices."""

import numpy as np
import pytest

import facula

SIZES = [1, 2, 3, 5, 8, 9, 15, 16, 17, 31, 33, 64, 65, 96, 100, 128, 129]
EPS = {name: np.finfo(name).eps for name in ("float32", "float64")}


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


def normal(dtype, *shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def wide(t):
    return t.numpy().astype("longdouble")


@pytest.mark.parametrize("n", SIZES)
def test_lu_factors(dtype, n):
    a = normal(dtype, 3, n, n)
    a[1] = np.sign(a[1])  # many rows of the same size: the first of them is taken
    for x in (a, a[:, :, : n // 2 + 1], a[:, : n // 2 + 1]):
        rows, columns = x.shape[1:]
        k = min(rows, columns)
        lu, pivots, info = facula.linalg.lu_factor_ex(facula.from_numpy(x.copy()))
        lu, pivots = wide(lu), pivots.numpy()
        for i in range(3):
            lower, upper = np.tril(lu[i][:, :k], -1) + np.eye(rows, k), np.triu(lu[i][:k])
            order = np.arange(rows)
            left = x[i].astype("longdouble")
            for step, other in enumerate(pivots[i] - 1):
                order[[step, other]] = order[[other, step]]
            size = np.abs(lower) @ np.abs(upper)
            assert (np.abs(lower @ upper - left[order]) <= 4 * k * EPS[dtype] * size + 1e-300).all()
            assert np.abs(lower).max() <= 1 and (pivots[i] >= np.arange(1, k + 1)).all()
            assert info[i] == (0 if (np.diag(upper) != 0).all() else np.argmin(np.abs(np.diag(upper))) + 1)


@pytest.mark.parametrize("n", [3, 9, 16, 17, 40])
def test_lu_of_a_column_without_a_pivot(dtype, n):
    a = normal(dtype, n, n)
    a[:, 2] = 0
    lu, pivots, info = facula.linalg.lu_factor_ex(facula.from_numpy(a))
    assert info == 3 and lu.isfinite().all()
    a = normal(dtype, n, n)
    a[2] = a[0]  # equal rows cancel to exactly nothing
    assert facula.linalg.det(facula.from_numpy(a)) == 0
    a[1, 1] = np.nan
    assert not facula.linalg.lu_factor_ex(facula.from_numpy(a))[0].isfinite().all()


@pytest.mark.parametrize("n", range(9, 18))
def test_batches_of_factors_are_as_each_alone(dtype, n):
    a = facula.from_numpy(normal(dtype, 18, n, n))
    spd = a @ a.mT + n * facula.eye(n, dtype=a.dtype)
    for count in (1, 2, 5, 9, 16, 18):
        lu, pivots = facula.linalg.lu_factor(a[:count])
        for upper in (False, True):
            factor = facula.linalg.cholesky(spd[:count], upper=upper)
            for i in range(count):
                assert facula.equal(factor[i], facula.linalg.cholesky(spd[i], upper=upper))
        for i in range(count):
            alone = facula.linalg.lu_factor(a[i])
            assert facula.equal(lu[i], alone[0]) and facula.equal(pivots[i], alone[1])


@pytest.mark.parametrize("n", [1, 4, 8, 13, 16, 17, 32])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype, n, upper):
    a = normal(dtype, 19, n, n + 3)
    spd = a @ np.swapaxes(a, 1, 2) + np.eye(n, dtype=dtype)
    given = np.triu(spd) + np.tril(np.full((n, n), np.nan, dtype), -1) if upper else np.tril(spd) + np.triu(np.full((n, n), np.nan, dtype), 1)
    factor, info = facula.linalg.cholesky_ex(facula.from_numpy(given), upper=upper)
    f = wide(factor)
    product = np.swapaxes(f, 1, 2) @ f if upper else f @ np.swapaxes(f, 1, 2)
    assert (info == 0).all() and np.abs(product - spd).max() <= 4 * n * EPS[dtype] * np.abs(spd).max()
    assert (np.tril(f, -1) if upper else np.triu(f, 1)).any() == False  # noqa: E712
    bad = spd.copy()
    bad[7, n - 1, n - 1] = -1
    bad[11, 0, 0] = np.nan if n <= 16 else 0
    info = facula.linalg.cholesky_ex(facula.from_numpy(bad), upper=upper)[1]
    assert info[7] == n and info[11] == 1 and (info != 0).sum() == 2


@pytest.mark.parametrize("n", [1, 3, 8, 9, 16, 17, 33, 100, 128])
@pytest.mark.parametrize("upper", [False, True])
def test_triangular_systems(dtype, n, upper):
    a = normal(dtype, 2, n, n) / np.float32(np.sqrt(n))
    a += 2 * np.eye(n, dtype=dtype)
    for unit in (False, True):
        triangle = np.triu(a) if upper else np.tril(a)
        if unit:
            triangle = triangle - triangle * np.eye(n, dtype=dtype) + np.eye(n, dtype=dtype)
        for systems in (1, 5, 8, 70):
            for left in (True, False):
                b = normal(dtype, 2, n, systems) if left else normal(dtype, 2, systems, n)
                x = wide(facula.linalg.solve_triangular(facula.from_numpy(a), facula.from_numpy(b), upper=upper, left=left, unitriangular=unit))
                error = np.abs((triangle @ x if left else x @ triangle) - b).max()
                assert error <= 40 * EPS[dtype] * np.abs(x).max() * max(1, np.sqrt(n))


@pytest.mark.parametrize("n", [4, 20, 40])
def test_what_is_not_finite_stays_in_its_rows(dtype, n):
    a, b = np.ones((n, n), dtype), np.ones((n, 2), dtype)
    b[n // 2, 0] = np.nan
    for upper in (False, True):
        x = facula.linalg.solve_triangular(facula.from_numpy(a), facula.from_numpy(b), upper=upper)
        known = x[n // 2 + 1 :, 0] if upper else x[: n // 2, 0]
        assert known.isfinite().all() and x[:, 1].isfinite().all() and x[n // 2, 0].isnan()
    a[n // 2, n // 2] = 0
    x = facula.linalg.solve_triangular(facula.from_numpy(a), facula.from_numpy(2 * np.arange(n, dtype=dtype).reshape(n, 1)), upper=False)
    assert x[: n // 2].isfinite().all() and x[n // 2].isinf()


@pytest.mark.parametrize("n", [5, 9, 17, 40, 64, 65])
def test_systems_by_factors(dtype, n):
    a = normal(dtype, 3, n, n) / np.float32(np.sqrt(n)) + 2 * np.eye(n, dtype=dtype)
    t = facula.from_numpy(a)
    lu, pivots = facula.linalg.lu_factor(t)
    bound = 60 * EPS[dtype] * np.sqrt(n)
    for systems in (1, 9, 70):
        b = normal(dtype, n, systems)
        for adjoint in (False, True):
            x = wide(facula.linalg.lu_solve(lu, pivots, facula.from_numpy(b), adjoint=adjoint))
            assert x.shape == (3, n, systems)
            assert np.abs((np.swapaxes(a, 1, 2) if adjoint else a) @ x - b).max() <= bound * np.abs(x).max()
            y = wide(facula.linalg.lu_solve(lu, pivots, facula.from_numpy(b.T.copy()), left=False, adjoint=adjoint))
            assert np.abs(y @ (np.swapaxes(a, 1, 2) if adjoint else a) - b.T).max() <= bound * np.abs(y).max()
        spd = a @ np.swapaxes(a, 1, 2)
        for upper in (False, True):
            factor = facula.linalg.cholesky(facula.from_numpy(spd), upper=upper)
            x = wide(facula.cholesky_solve(facula.from_numpy(b), factor, upper=upper))
            assert np.abs(spd @ x - b).max() <= 20 * bound * np.abs(x).max()
    inverse = wide(facula.linalg.inv(t))
    assert np.abs(inverse @ a - np.eye(n)).max() <= bound * np.abs(inverse).max()


def test_pivots_that_are_none():
    lu, pivots = facula.linalg.lu_factor(facula.eye(12))
    for wrong in (0, 13, -1):
        with pytest.raises(RuntimeError, match="pivots count from one"):
            facula.linalg.lu_solve(lu, facula.full_like(pivots, wrong), facula.ones(12, 2))


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 8), (8, 8), (5, 2), (9, 9), (12, 20), (20, 12), (33, 33), (64, 64), (100, 90), (130, 129), (70, 20)])
def test_singular_vectors(dtype, shape):
    a = normal(dtype, 6, *shape)
    a[1] = a[1][:, :1] @ a[1][:1]  # of rank one
    a[2] = 0
    a[3] *= np.asarray(1e-30 if dtype == "float32" else 1e-200, dtype)
    a[4] *= np.asarray(1e30 if dtype == "float32" else 1e200, dtype)
    a[5] = np.eye(*shape) * 3
    scale = np.abs(a).max((1, 2), keepdims=True).astype("longdouble") + np.longdouble(1e-300)
    k, n = min(shape), max(shape)
    expected = np.linalg.svd((a / scale).astype("float64"), compute_uv=False)
    u, s, vh = (wide(x) for x in facula.linalg.svd(facula.from_numpy(a), full_matrices=False))
    only = wide(facula.linalg.svdvals(facula.from_numpy(a)))
    for values in (s, only):
        assert (np.diff(values) <= 0).all() and (values >= 0).all()
        assert np.abs(values / scale[..., 0] - expected).max() <= 8 * EPS[dtype] * max(n, 4) * np.abs(expected).max()
    bound = 16 * EPS[dtype] * max(n, 4)
    assert np.abs(np.swapaxes(u, 1, 2) @ u - np.eye(k)).max() <= bound
    assert np.abs(vh @ np.swapaxes(vh, 1, 2) - np.eye(k)).max() <= bound
    assert np.abs((u * s[:, None] @ vh - a) / scale).max() <= bound * np.sqrt(n)
    a[0, 0, 0] = np.inf
    with pytest.raises(facula.linalg.LinAlgError, match="linalg.svd: finite elements"):
        facula.linalg.svd(facula.from_numpy(a))


def eigen_families(n):
    r = np.random.default_rng(n)
    ladder = np.eye(n, k=-1)
    ladder[0] = r.integers(-3, 4, n)
    yield "random", r.standard_normal((n, n))
    yield "symmetric", (lambda x: x + x.T)(r.standard_normal((n, n)))
    yield "upper", np.triu(r.standard_normal((n, n)))
    yield "lower", np.tril(r.standard_normal((n, n)))
    yield "zero", np.zeros((n, n))
    yield "cycle", np.roll(np.eye(n), 1, 0)
    yield "one chain", np.eye(n) * 2 + np.eye(n, k=1)
    yield "companion", ladder
    yield "rank one", np.outer(r.standard_normal(n), r.standard_normal(n))
    yield "rotations", np.linalg.qr(r.standard_normal((n, n)))[0]
    yield "scaled", r.standard_normal((n, n)) * 10.0 ** r.integers(-5, 6, n)[:, None] / 10.0 ** r.integers(-5, 6, n)
    yield "tiny", r.standard_normal((n, n)) * 1e-30


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 9, 17, 33, 64, 128])
def test_eigenvalues_of_any_matrix(dtype, n):
    for name, full in eigen_families(n):
        a = full.astype(dtype)
        values, vectors = (x.numpy() for x in facula.linalg.eig(facula.from_numpy(a)))
        only = facula.linalg.eigvals(facula.from_numpy(a)).numpy()
        size = np.abs(a).max() * n + 1e-300
        residual = np.abs(a.astype("float64") @ vectors.astype("complex128") - vectors.astype("complex128") * values)
        assert residual.max() <= 20 * EPS[dtype] * size, name
        assert np.abs(np.linalg.norm(vectors, axis=0) - 1).max() <= 8 * EPS[dtype], name
        for given in (values, only):  # what an eigenvalue is off by, the matrix is off by
            assert abs(given.sum() - np.trace(a)) <= 8 * n * EPS[dtype] * size, name
            distance = [np.linalg.svd(a.astype("float64") - v * np.eye(n), compute_uv=False)[-1] for v in given[:8].astype("complex128")]
            assert max(distance) <= 20 * EPS[dtype] * size, name
        pairs = values[values.imag != 0]
        np.testing.assert_array_equal(pairs[::2], pairs[1::2].conj())
        assert (pairs[::2].imag > 0).all()
        if name in ("upper", "lower"):
            np.testing.assert_allclose(np.sort(values.real), np.sort(np.diag(a)), rtol=8 * EPS[dtype])


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (9, 9), (20, 9), (64, 64), (100, 3), (3, 7)])
def test_least_squares_with_and_without_full_rank(dtype, shape):
    a, b = normal(dtype, 4, *shape), normal(dtype, 4, shape[0], 3)
    short = shape[0] >= shape[1] > 1
    if short:
        a[1, :, -1] = a[1, :, 0]
        a[2, :, -1] = 0
    for systems in (1, 3):
        x, _, rank, _ = facula.linalg.lstsq(facula.from_numpy(a), facula.from_numpy(b[..., :systems].copy()))
        assert rank.tolist() == [min(shape)] + [min(shape) - short] * 2 + [min(shape)]
        for i in range(4):
            expected = np.linalg.lstsq(a[i].astype("float64"), b[i, :, :systems], rcond=EPS[dtype] * max(shape))[0]
            condition = np.linalg.svd(a[i].astype("float64"), compute_uv=False)
            worst = condition[0] / condition[rank[i].item() - 1]
            assert np.abs(x[i].numpy() - expected).max() <= 40 * EPS[dtype] * worst * max(np.abs(expected).max(), np.abs(b).max() / condition[0])
    a[3] = np.nan
    assert facula.linalg.lstsq(facula.from_numpy(a[0]), facula.from_numpy(b[0] * np.nan))[0].isnan().all()


@pytest.mark.parametrize("shape", [(1, 3), (4, 4), (8, 8), (7, 2), (2, 7)])
def test_qr_of_batches_of_small_matrices(dtype, shape):
    a = normal(dtype, 19, *shape)
    a[3] = 0
    a[4] *= np.asarray(1e-40 if dtype == "float32" else 1e-310, dtype)
    a[5] *= np.asarray(1e30 if dtype == "float32" else 1e300, dtype)
    a[6, 1:] = 0  # no reflector is needed
    q, r = facula.linalg.qr(facula.from_numpy(a))
    for i in range(19):
        one = facula.linalg.qr(facula.from_numpy(a[i]))
        assert facula.equal(q[i], one.Q) and facula.equal(r[i], one.R)
    q, r = wide(q), wide(r)
    assert (np.tril(r, -1) == 0).all()
    usual = [i for i in range(19) if i != 4]
    assert np.abs(np.swapaxes(q, 1, 2) @ q - np.eye(q.shape[2]))[usual].max() <= 32 * EPS[dtype]
    assert (np.abs(q @ r - a) <= 32 * EPS[dtype] * np.abs(a).max((1, 2), keepdims=True))[usual].all()
    assert np.isnan(facula.linalg.qr(facula.full((2, 4, 4), np.nan))[1].numpy()).any()


def test_gradients_that_share_their_work():
    a = facula.from_numpy(normal("float64", 5, 5) + 4 * np.eye(5))
    b = facula.from_numpy(normal("float64", 2, 5, 3))
    calls = {
        "solve": lambda a, b: facula.linalg.solve(a, b),
        "right": lambda a, b: facula.linalg.solve(a, b.mT, left=False),
        "vector": lambda a, b: facula.linalg.solve(a, b[0, :, 0]),
        "triangular": lambda a, b: facula.linalg.solve_triangular(a, b, upper=True),
        "cholesky": lambda a, b: facula.cholesky_solve(b, a.tril()),
        "determinant": lambda a, b: facula.linalg.det(a) * b[0, 0, 0],
        "factors": lambda a, b: facula.linalg.lu_solve(*facula.linalg.lu_factor(a), b),
    }
    for name, call in calls.items():
        for wants_a, wants_b in ((True, True), (True, False), (False, True)):
            x, y = a.clone().requires_grad_(wants_a), b.clone().requires_grad_(wants_b)
            assert facula.autograd.gradcheck(call, (x, y)), name
        assert facula.autograd.gradgradcheck(call, (a.clone().requires_grad_(), b.clone().requires_grad_())), name
