"""Factorizations against their definitions, gradients against finite differences, errors with the batch index."""

import numpy as np
import pytest

import facula

DTYPES = ["float32", "float64", "complex64", "complex128"]
TOLERANCE = {"float32": 2e-4, "float64": 1e-10, "complex64": 2e-4, "complex128": 1e-10}


def matrices(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def positive(dtype, *shape):
    a = matrices(dtype, *shape)
    return a @ np.conj(np.swapaxes(a, -1, -2)) + shape[-1] * np.eye(shape[-1], dtype=dtype)


@pytest.fixture(params=DTYPES)
def dtype(request):
    return request.param


def close(actual, expected, dtype):
    np.testing.assert_allclose(
        actual.numpy() if isinstance(actual, facula.Tensor) else actual,
        expected,
        rtol=TOLERANCE[dtype],
        atol=TOLERANCE[dtype] * 10,
    )


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (0, 3, 3), (1, 1), (0, 0)])
def test_inverse_solve_det(dtype, shape):
    a = positive(dtype, *shape)
    t = facula.from_numpy(a)
    close(facula.linalg.inv(t), np.linalg.inv(a), dtype)
    b = matrices(dtype, *shape[:-1], 2, seed=1)
    close(facula.linalg.solve(t, facula.from_numpy(b)), np.linalg.solve(a, b), dtype)
    with np.errstate(divide="ignore", invalid="ignore"):  # NumPy on ARM tells of both beside right complex values
        expected, expected_logarithm = np.linalg.det(a), np.linalg.slogdet(a)[1]
    close(facula.linalg.det(t) / (expected + 0), np.ones(shape[:-2]), dtype)
    sign, logarithm = facula.linalg.slogdet(t)
    close(logarithm, expected_logarithm, dtype)


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_batches_of_small_matrices_are_as_each_alone(name, n):
    """Several matrices are worked on together: each as alone, whatever its neighbors are."""
    a = matrices(name, 7, n, n, seed=n) + (2 * n if n % 2 else 0) * np.eye(n, dtype=name)[::-1]
    b = matrices(name, 7, n, 9, seed=1)
    a[3, :, 0] = 0  # singular
    a[5, 0, 0] = np.nan
    for count in (1, 2, 3, 4, 5, 7):
        t = facula.from_numpy(a[:count])
        inverse, info = facula.linalg.inv_ex(t)
        factors, pivots, status = facula.linalg.lu_factor_ex(t)
        solutions = [facula.linalg.solve_ex(t, facula.from_numpy(b[:count, :, :columns]))[0] for columns in (1, 3, 9)]
        assert info.tolist() == status.tolist() == [0, 0, 0, 1, 0, 0, 0][:count]
        for i in range(count):
            one, right = t[i], facula.from_numpy(b[i])
            np.testing.assert_array_equal(inverse[i].numpy(), facula.linalg.inv_ex(one)[0].numpy())
            np.testing.assert_array_equal(factors[i].numpy(), facula.linalg.lu_factor_ex(one)[0].numpy())
            for columns, solution in zip((1, 3, 9), solutions):
                alone = facula.linalg.solve_ex(one, right[:, :columns])[0]
                np.testing.assert_array_equal(solution[i].numpy(), alone.numpy())
            if i in (3, 5):
                assert not inverse[i].isfinite().all()
                continue
            close(inverse[i], np.linalg.inv(a[i].astype("float64")), name)
            close(solutions[2][i], np.linalg.solve(a[i].astype("float64"), b[i]), name)
            lower, upper = facula.tril(factors[i], -1) + facula.eye(n, dtype=t.dtype), facula.triu(factors[i])
            rows = np.arange(n)
            for k, other in enumerate(pivots[i].tolist()):
                rows[[k, other - 1]] = rows[[other - 1, k]]
            close(lower @ upper, a[i][rows], name)
            assert lower.abs().max() <= 1  # partial pivoting


def test_singular_systems_among_regular_ones():
    a = np.stack([np.eye(3), np.zeros((3, 3)), np.diag([1.0, 0, 2])])
    with pytest.raises(facula.linalg.LinAlgError, match=r"^linalg.inv: \(batch element 1\)"):
        facula.linalg.inv(facula.from_numpy(a))
    assert facula.linalg.inv_ex(facula.from_numpy(a))[1].tolist() == [0, 1, 2]
    assert facula.linalg.det(facula.from_numpy(a)).tolist() == [1, 0, 0]


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (8, 8), (3, 8), (8, 3), (2, 7), (9, 3), (1, 5)])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_singular_values_of_small_matrices(name, shape):
    a = matrices(name, 11, *shape)
    a[1] = 0
    a[2] = a[2, :1]  # of rank one
    a[3] *= 1e-30  # squares are no numbers of float32
    a[4] *= 1e15
    a[5] = np.eye(*shape)
    a[6, :, -1] *= 1e-6
    expected = np.linalg.svd(a.astype("float64"), compute_uv=False)
    for count in (1, 6, 11):
        s = facula.linalg.svdvals(facula.from_numpy(a[:count])).numpy()
        assert s.dtype == name and s.shape == (count, min(shape)) and (np.diff(s) <= 0).all()
        error = np.abs(s - expected[:count]).max(1)
        assert (error <= 8 * np.finfo(name).eps * expected[:count, 0]).all()
    a[4, 0, 0] = np.nan
    if min(shape) > 1:
        with pytest.raises(facula.linalg.LinAlgError, match="linalg.svd: finite elements"):
            facula.linalg.svdvals(facula.from_numpy(a))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (0, 3)])
def test_qr_svd_lu_give_back_the_matrix(dtype, shape):
    a = matrices(dtype, *shape)
    t = facula.from_numpy(a)
    for mode in ("reduced", "complete"):
        q, r = facula.linalg.qr(t, mode)
        close(q @ r, a, dtype)
    for full in (False, True):
        u, s, vh = facula.linalg.svd(t, full_matrices=full)
        k = s.shape[-1]
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, dtype)
    p, lower, upper = facula.linalg.lu(t)
    close(p @ lower @ upper, a, dtype)


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (5, 2), (15, 16), (17, 16), (33, 7), (7, 33), (64, 64), (100, 90), (1030, 3), (3, 200), (200, 193)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_qr_agrees_with_numpy(dtype, shape):
    a = np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)
    for mode in ("reduced", "complete"):
        q, r = (x.numpy() for x in facula.linalg.qr(facula.from_numpy(a), mode))
        expected_q, expected_r = np.linalg.qr(a, mode)
        tolerance = 2e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(q, expected_q, atol=tolerance)
        np.testing.assert_allclose(r, expected_r, atol=20 * tolerance)
        np.testing.assert_array_equal(r, np.triu(r))
    np.testing.assert_array_equal(facula.linalg.qr(facula.from_numpy(a), "r").R.numpy(), facula.linalg.qr(facula.from_numpy(a)).R.numpy())


@pytest.mark.parametrize("dtype, scale", [("float32", 1e-30), ("float32", 1e-43), ("float32", 1e30), ("float64", 1e-200), ("float64", 1e-320), ("float64", 1e200)])
def test_qr_of_very_small_and_very_large_elements(dtype, scale):
    a = (np.random.default_rng(0).integers(-9, 10, (20, 12)) * np.array(scale, dtype)).astype(dtype)
    q, r = (x.numpy().astype(np.longdouble) for x in facula.linalg.qr(facula.from_numpy(a)))
    subnormal = abs(scale) < np.finfo(dtype).tiny
    np.testing.assert_allclose(q.T @ q, np.eye(12), atol=0.5 if subnormal else 1e-5)
    np.testing.assert_allclose(q @ r, a, rtol=0, atol=np.abs(a).max().astype(np.longdouble) * (0.5 if subnormal else 1e-5))


def test_qr_of_columns_that_need_no_reflector():
    a = facula.tensor([[2.0, 1.0, 0.0], [0.0, -3.0, 0.0], [0.0, 0.0, 0.0]])
    q, r = facula.linalg.qr(a)
    np.testing.assert_array_equal((q @ r).numpy(), a.numpy())
    assert np.isnan(facula.linalg.qr(facula.tensor([[np.nan, 1.0], [2.0, 3.0]])).R.numpy()).any()


@pytest.mark.parametrize("n", [1, 2, 3, 8, 15, 16, 17, 33, 64, 65, 100, 128, 129])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_symmetric_eigenvalues_agree_with_numpy(dtype, n):
    r = np.random.default_rng(n)
    full = r.standard_normal((3, n, n))
    full[1] *= 1e30 if dtype == "float32" else 1e200
    full[2] = np.diag(np.arange(n) // 2 - 1.0) if n < 60 else np.outer(full[2][0], full[2][0])  # equal ones, and of rank one
    full = (full + np.swapaxes(full, -1, -2)).astype(dtype)
    scale = np.abs(full).max((1, 2)).astype(np.longdouble)
    eps = np.finfo(dtype).eps * 4 * np.sqrt(n) + 1e-300
    for triangle in "LU":
        given = np.tril(full) if triangle == "L" else np.triu(full)
        values, vectors = (x.numpy().astype(np.longdouble) for x in facula.linalg.eigh(facula.from_numpy(given), triangle))
        only = facula.linalg.eigvalsh(facula.from_numpy(given), triangle).numpy()
        for k in range(3):
            expected = np.linalg.eigvalsh((full[k] / scale[k]).astype("float64")) * scale[k]
            for got in (values[k], only[k]):
                assert (np.diff(got) >= 0).all() and np.abs(got - expected).max() <= eps * n * scale[k]
            v = vectors[k]
            assert np.abs(v.T @ v - np.eye(n)).max() <= 8 * eps
            assert np.abs(full[k] / scale[k] @ v - v * (values[k] / scale[k])).max() <= 2 * eps * np.sqrt(n)


def test_symmetric_matrices_of_corners():
    zero = facula.linalg.eigh(facula.zeros(9, 9))
    assert facula.equal(zero.eigenvalues, facula.zeros(9)) and facula.equal(zero.eigenvectors @ zero.eigenvectors.T, facula.eye(9))
    tiny = facula.linalg.eigvalsh(facula.eye(10) * 1e-44)
    assert facula.equal(tiny, facula.full((10,), 1e-44))
    swaps = facula.linalg.eigvalsh(facula.eye(12).flip(0))  # all elements of the diagonal are 0
    np.testing.assert_allclose(swaps.numpy(), [-1] * 6 + [1] * 6, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 3, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_systems_of_the_adjoint(dtype, n):
    r = np.random.default_rng(n)
    a = r.standard_normal((7, n, n)).astype(dtype)
    b = r.standard_normal((7, n, 2)).astype(dtype)
    lu, pivots = facula.linalg.lu_factor(facula.from_numpy(a))
    x = facula.linalg.lu_solve(lu, pivots, facula.from_numpy(b), adjoint=True).numpy()
    np.testing.assert_allclose(np.swapaxes(a, -1, -2) @ x, b, atol=1e-4 if dtype == "float32" else 1e-11)


def test_cholesky_and_hermitian_eigenvalues(dtype):
    a = positive(dtype, 2, 4, 4)
    t = facula.from_numpy(a)
    factor = facula.linalg.cholesky(t)
    close(factor, np.linalg.cholesky(a), dtype)
    close(facula.cholesky_inverse(factor), np.linalg.inv(a), dtype)
    values, vectors = facula.linalg.eigh(t)
    close(values, np.linalg.eigvalsh(a), dtype)
    close(t @ vectors, (vectors * values.unsqueeze(-2)).numpy(), dtype)


def test_general_eigenvalues(dtype):
    t = facula.from_numpy(matrices(dtype, 5, 5))
    values, vectors = facula.linalg.eig(t)
    close(t.to(values.dtype) @ vectors, (vectors * values).numpy(), dtype)
    close(facula.linalg.eigvals(t).abs().sort()[0], values.abs().sort()[0].numpy(), dtype)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(dtype, driver):
    a, b = matrices(dtype, 6, 3), matrices(dtype, 6, 2, seed=1)
    result = facula.linalg.lstsq(facula.from_numpy(a), facula.from_numpy(b), driver=driver)
    close(result.solution, np.linalg.lstsq(a, b, rcond=None)[0], dtype)


def test_pinv_rank_norms():
    a = matrices("float64", 4, 3)
    a[:, 2] = a[:, 0] + a[:, 1]
    t = facula.from_numpy(a)
    close(facula.linalg.pinv(t), np.linalg.pinv(a), "float64")
    assert facula.linalg.matrix_rank(t).item() == 2
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(facula.linalg.matrix_norm(t, order), np.linalg.norm(a, order), "float64")
    close(
        facula.linalg.matrix_exp(facula.from_numpy(np.array([[0.0, -1.0], [1.0, 0.0]]))),
        [[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]],
        "float64",
    )


def numerical_gradient(f, a, weights, step=1e-6):
    grad = np.zeros_like(a)
    for index in np.ndindex(a.shape):
        shift = np.zeros_like(a)
        shift[index] = step
        grad[index] = sum(
            float((w * (x - y)).sum()) for w, x, y in zip(weights, f(a + shift), f(a - shift), strict=True)
        ) / (2 * step)
    return grad


GRADIENTS = {
    "inv": lambda a: (facula.linalg.inv(a),),
    "det": lambda a: (facula.linalg.det(a),),
    "slogdet": lambda a: (facula.linalg.slogdet(a)[1],),
    "qr": lambda a: facula.linalg.qr(a),
    "qr wide": lambda a: facula.linalg.qr(a[:2]),
    "cholesky": lambda a: (facula.linalg.cholesky(a @ a.T + 3 * facula.eye(3, dtype=facula.float64)),),
    "svdvals": lambda a: (facula.linalg.svdvals(a),),
    "eigvalsh": lambda a: (facula.linalg.eigvalsh(a + a.T),),
    "pinv": lambda a: (facula.linalg.pinv(a[:, :2]),),
    "lu_factor": lambda a: (facula.linalg.lu_factor(a)[0],),
    "lu tall": lambda a: facula.linalg.lu(a[:, :2])[1:],
    "lu wide": lambda a: facula.linalg.lu(a[:2])[1:],
    "matrix_exp": lambda a: (facula.linalg.matrix_exp(a),),
    "lstsq": lambda a: (facula.linalg.lstsq(a[:, :2], a[:, 2:]).solution,),
    "solve": lambda a: (facula.linalg.solve(a, a[0]),),
    "solve_triangular": lambda a: (
        facula.linalg.solve_triangular(a.tril() + 3 * facula.eye(3, dtype=facula.float64), a, upper=False),
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    a = matrices("float64", 3, 3, seed=3) + 2 * np.eye(3)
    op = GRADIENTS[name]
    t = facula.from_numpy(a.copy()).requires_grad_()
    results = op(t)
    weights = [np.random.default_rng(i).standard_normal(tuple(r.shape)) for i, r in enumerate(results)]
    sum((r * facula.from_numpy(w)).sum() for r, w in zip(results, weights, strict=True)).backward()
    expected = numerical_gradient(lambda x: [r.numpy() for r in op(facula.from_numpy(x))], a, weights)
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_errors_name_the_batch_element():
    a = facula.stack([facula.eye(2), facula.zeros(2, 2)])
    with pytest.raises(facula.linalg.LinAlgError, match=r"^linalg.inv: \(batch element 1\)"):
        facula.linalg.inv(a)
    with pytest.raises(facula.linalg.LinAlgError, match=r"^linalg.cholesky: \(batch element 1\)"):
        facula.linalg.cholesky(a)
    with pytest.raises(RuntimeError, match=r"^linalg.inv: .*\(2, 3\)"):
        facula.linalg.inv(facula.ones(2, 3))
    assert facula.linalg.inv_ex(a).info.tolist() == [0, 1]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("shape", "dtype", "left"), [((3, 2), "float64", True), ((5, 3, 2), "float32", True), ((2, 3, 2), "float32", False)])
def test_what_reflectors_cannot_multiply(shape, dtype, left, requires_grad):
    a = facula.ones(*shape[:-3], 3, 2).requires_grad_(requires_grad)
    other = facula.ones(shape, dtype=getattr(facula, dtype))
    with pytest.raises(RuntimeError, match="^ormqr: "):
        facula.ormqr(a, facula.ones(2), other, left)


def test_the_nuclear_norm_of_more_dimensions_is_told_which():
    x = facula.ones(2, 2, 2)
    with pytest.raises(RuntimeError, match="^norm: the nuclear norm"):
        facula.norm(x, "nuc")
    assert facula.norm(x, "nuc", dim=(0, 1)).shape == (2,) and facula.norm(x[0], "nuc").shape == ()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("name", ["float32", "complex128"])
def test_many_systems_of_one_triangle_are_solved_in_parts(name, left):
    generator = np.random.default_rng(0)
    real = generator.standard_normal((2, 150, 150)) / 20
    a = np.triu(real + (1j * real[::-1] if name == "complex128" else 0)) + 2 * np.eye(150)
    for systems in (128, 450, 700):  # the last part is shorter, and as long as the others
        b = generator.standard_normal((2, 150, systems) if left else (2, systems, 150)).astype(name)
        t = facula.from_numpy(a.astype(name)), facula.from_numpy(b)
        x = facula.linalg.solve_triangular(*t, upper=True, left=left).numpy()
        expected = np.linalg.solve(a, b) if left else b @ np.linalg.inv(a)
        np.testing.assert_allclose(x, expected, rtol=0, atol=1e-5 if name == "float32" else 1e-12)
        threads = facula.get_num_threads()
        try:
            facula.set_num_threads(1)
            alone = facula.linalg.solve_triangular(*t, upper=True, left=left).numpy()
        finally:
            facula.set_num_threads(threads)
        np.testing.assert_array_equal(x, alone)
