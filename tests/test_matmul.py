"""Matrix products against NumPy: every dtype, layout and shape rule."""

import itertools
import os
import signal
import warnings

import numpy as np
import pytest

import facula

EXACT = ["int8", "uint8", "int16", "int32", "int64"]
INEXACT = {"float32": 1e-4, "float64": 1e-10, "complex64": 1e-4, "complex128": 1e-10}
SHAPES = [
    (1, 1, 1),
    (4, 4, 4),
    (3, 5, 7),
    (1, 5, 7),
    (3, 5, 1),
    (64, 64, 64),
    (65, 33, 129),
    (0, 3, 4),
    (3, 0, 4),
    (200, 150, 180),
]


def numbers(rng, dtype, shape):
    if dtype in EXACT:
        return rng.integers(0, 100, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", [*EXACT, *INEXACT])
@pytest.mark.parametrize("shape", SHAPES)
def test_mm_in_every_layout(dtype, shape):
    rng = np.random.default_rng(0)
    rows, inner, columns = shape
    for flip_a in (False, True):
        for flip_b in (False, True):
            a = numbers(rng, dtype, (inner, rows) if flip_a else (rows, inner))
            b = numbers(rng, dtype, (columns, inner) if flip_b else (inner, columns))
            x, y = facula.from_numpy(a), facula.from_numpy(b)
            a, x = (a.T, x.transpose(0, 1)) if flip_a else (a, x)
            b, y = (b.T, y.transpose(0, 1)) if flip_b else (b, y)
            result = facula.mm(x, y).numpy()
            assert result.dtype == a.dtype and result.shape == (rows, columns)
            with np.errstate(all="ignore"):  # NumPy's own product warns at times of flags that its padding lanes set
                expected = a @ b
            np.testing.assert_allclose(result, expected, rtol=INEXACT.get(dtype, 0), atol=INEXACT.get(dtype, 0) * 10)


@pytest.mark.parametrize("dtype,tolerance", [("float16", 5e-3), ("bfloat16", 4e-2)])
@pytest.mark.parametrize("shape", [(3, 5, 7), (64, 32, 48), (1, 300, 2)])
def test_narrow_floats_round_once(dtype, tolerance, shape):
    rng = np.random.default_rng(1)
    rows, inner, columns = shape
    x = facula.from_numpy(rng.standard_normal((rows, inner)).astype("float32")).to(getattr(facula, dtype))
    y = (
        facula.from_numpy(rng.standard_normal((columns, inner)).astype("float32"))
        .to(getattr(facula, dtype))
        .transpose(0, 1)
    )
    exact = x.to(facula.float64).numpy() @ y.to(facula.float64).numpy()
    np.testing.assert_allclose((x @ y).to(facula.float64).numpy(), exact, rtol=tolerance, atol=tolerance * 3)


def test_result_memory_is_not_read():
    for _ in range(3):  # freed memory full of NaN is used again
        facula.full((64, 64), float("nan"))
        a = facula.ones(64, 64)
        assert facula.isfinite(a @ a).all() and facula.isfinite(a @ a[0]).all() and facula.isfinite(a[0] @ a).all()


# Around the tiles, panels and blocks of products of float32.
EDGES = [(2, 16, 385), (6, 17, 8), (7, 31, 384), (11, 2050, 9), (13, 15, 770), (97, 33, 40), (100, 1000, 3), (17, 64, 1),
         (14, 32, 385), (15, 33, 20), (29, 48, 3), (43, 20, 770), (4, 4100, 400), (3, 65, 9), (5, 100, 300), (200, 300, 64),
         (3, 40, 2100), (8, 70, 2048), (20, 33, 4099)]


@pytest.mark.parametrize("rows,columns,inner", EDGES)
def test_products_of_float32_at_the_edges_of_tiles(rows, columns, inner):
    rng = np.random.default_rng(3)
    add, row = rng.standard_normal((rows, columns)).astype("f"), rng.standard_normal(columns).astype("f")
    whole = rng.standard_normal((max(rows, inner) + 3, max(rows, inner) + 5)).astype("f")
    other = rng.standard_normal((max(columns, inner) + 3, max(columns, inner) + 5)).astype("f")
    for a in (whole[2 : 2 + rows, 1 : 1 + inner], whole[2 : 2 + inner, 1 : 1 + rows].T):
        for b in (other[1 : 1 + inner, 3 : 3 + columns], other[1 : 1 + columns, 3 : 3 + inner].T):
            x, y = facula.from_numpy(a), facula.from_numpy(b)
            exact, sizes = a.astype("d") @ b, np.abs(a).astype("d") @ np.abs(b)
            scaled = facula.addmm(facula.from_numpy(add), x, y, beta=0.5, alpha=-2)
            with_row = facula.nn.functional.linear(x, y.T, facula.from_numpy(row))
            for result, expected in ((x @ y, exact), (scaled, -2 * exact + 0.5 * add), (with_row, exact + row)):
                assert (np.abs(result.numpy() - expected) <= 1e-6 * (2 * sizes + 10)).all()
            batch = facula.stack([x, 2 * x, 3 * x]) @ facula.stack([y, y, -y])
            expected = np.stack([exact, 2 * exact, -3 * exact])
            assert (np.abs(batch.numpy() - expected) <= 1e-6 * (3 * sizes + 10)).all()


@pytest.mark.parametrize("rows,columns", [(96, 16), (24, 144), (16, 32), (7, 20), (64, 64), (144, 24), (130, 33), (40, 65)])
@pytest.mark.parametrize("inner", [193, 577, 3001])
@pytest.mark.parametrize("apart", [0, 3])
def test_long_sums_of_short_lines(rows, columns, inner, apart):
    """Lines of both factors that are read where they lie: nothing between them, or behind the last, is multiplied."""
    rng = np.random.default_rng(6)
    a, b = (np.full((inner, width + apart), np.nan, "f") for width in (rows, columns))
    a[:, :rows], b[:, :columns] = rng.standard_normal((inner, rows)), rng.standard_normal((inner, columns))
    x, y = facula.from_numpy(a)[:, :rows].T, facula.from_numpy(b)[:, :columns]
    exact, sizes = a[:, :rows].T.astype("d") @ b[:, :columns], np.abs(a[:, :rows].T).astype("d") @ np.abs(b[:, :columns])
    assert (np.abs((x @ y).numpy() - exact) <= 1e-6 * sizes).all()
    result = facula.full((rows, columns), 2.0)
    assert (np.abs(result.addmm_(x, y, beta=0.5, alpha=-2).numpy() - (1 - 2 * exact)) <= 1e-6 * (2 * sizes + 10)).all()
    before = facula.get_num_threads()
    try:
        facula.set_num_threads(3)
        shared = x @ y
        facula.set_num_threads(1)
        assert facula.equal(x @ y, shared)
    finally:
        facula.set_num_threads(before)


@pytest.mark.parametrize("rows,columns,inner", [(301, 260, 500), (64, 256, 3000), (70, 2100, 50), (3, 9000, 700)])
def test_products_do_not_depend_on_threads(rows, columns, inner):
    rng = np.random.default_rng(4)
    a, b = (facula.from_numpy(rng.standard_normal(shape).astype("f")) for shape in ((rows, inner), (inner, columns)))
    before = facula.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 7):
            facula.set_num_threads(threads)
            results.append(((a @ b).numpy(), (facula.stack([a, a, a]) @ b).numpy()))
    finally:
        facula.set_num_threads(before)
    for single, batch in results:
        np.testing.assert_array_equal(single, results[0][0])
        np.testing.assert_array_equal(batch, results[0][1])


@pytest.mark.parametrize(("inner", "columns"), [(16, 16), (23, 40), (64, 1025), (801, 4100), (1030, 257)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-13), ("bfloat16", 1e-2)])
def test_one_row_times_rows_of_weights(inner, columns, dtype, tolerance):
    """Rows are taken in eights, an eighth of all apart; what eight does not divide is left over, and so are columns."""
    rng = np.random.default_rng(inner)
    kind = getattr(facula, dtype)
    x = facula.from_numpy(rng.standard_normal((1, 2 * inner))).to(kind)[:, ::2]
    wide = facula.from_numpy(rng.standard_normal((inner, columns + 3))).to(kind)
    weights, bias = wide[:, 1:-2], facula.from_numpy(rng.standard_normal(columns)).to(kind)
    expected = x.double().numpy() @ weights.double().numpy()
    scale = np.sqrt(inner)
    np.testing.assert_allclose((x @ weights).double().numpy() / scale, expected / scale, rtol=0, atol=tolerance)
    added = facula.addmm(bias, x, weights).double().numpy()
    np.testing.assert_allclose(added / scale, (expected + bias.double().numpy()) / scale, rtol=0, atol=tolerance)
    turned = weights.t() @ x[0]  # a matrix that lies by columns times a vector is the same product
    np.testing.assert_allclose(turned.double().numpy() / scale, expected[0] / scale, rtol=0, atol=tolerance)
    threads = facula.get_num_threads()
    try:
        facula.set_num_threads(3)
        shared = x @ weights
        facula.set_num_threads(1)
        assert facula.equal(x @ weights, shared)
    finally:
        facula.set_num_threads(threads)


@pytest.mark.parametrize("dtype,tolerance", [("float32", 1e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("rows", [1, 3, 20, 200])
def test_lines_that_share_places_of_caches(rows, dtype, tolerance):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((rows, 1024)).astype(dtype), rng.standard_normal((1024, 1024)).astype(dtype)
    sizes = np.abs(a).astype("d") @ np.abs(b)
    for factor in (b, b.T, b[:, :20], b.T[:, :21]):
        result = facula.from_numpy(a) @ facula.from_numpy(factor)
        assert (np.abs(result.numpy() - a.astype("d") @ factor) <= tolerance * sizes.max()).all()


@pytest.mark.parametrize("rows,columns,inner", [(1, 40, 64), (4, 17, 70), (8, 64, 300), (1, 64, 1024)])
def test_batches_of_few_rows(rows, columns, inner):
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((5, rows, inner)).astype("f"), rng.standard_normal((5, columns, inner)).astype("f")
    add = rng.standard_normal((5, rows, columns)).astype("f")
    x, y, z = (facula.from_numpy(m) for m in (a, b, add))
    exact = a.astype("d") @ b.transpose(0, 2, 1)
    np.testing.assert_allclose((x @ y.mT).numpy(), exact, atol=1e-4)
    np.testing.assert_allclose(facula.baddbmm(z, x, y.mT).numpy(), exact + add, atol=1e-4)
    np.testing.assert_allclose((y @ x.mT).numpy(), exact.transpose(0, 2, 1), atol=1e-4)
    np.testing.assert_allclose((x @ y[:1].mT).numpy()[0], exact[0], atol=1e-4)


def test_what_is_not_finite_stays_in_its_rows_and_columns():
    a, b = np.ones((20, 400), "f"), np.ones((400, 19), "f")
    a[3, 390], b[5, 17], b[6, 18] = np.inf, np.nan, -np.inf
    result = (facula.from_numpy(a) @ facula.from_numpy(b)).numpy()
    expected = np.full((20, 19), 400, "f")
    expected[3], expected[:, 17], expected[:, 18] = np.inf, np.nan, -np.inf
    expected[3, 18] = np.nan
    np.testing.assert_array_equal(result, expected)


def test_strided_and_negative_strides():
    a = np.arange(48.0).reshape(6, 8)
    t = facula.from_numpy(a)
    np.testing.assert_array_equal((t[::2, ::2] @ t[::2, ::2].T[:, ::-1]).numpy(), a[::2, ::2] @ a[::2, ::2].T[:, ::-1])
    np.testing.assert_array_equal(facula.mv(t, t[0, ::-1]).numpy(), a @ a[0, ::-1])
    np.testing.assert_array_equal(facula.dot(t[:, 0], t[::-1, 1]).numpy(), a[:, 0] @ a[::-1, 1])


@pytest.mark.parametrize(
    "a,b",
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
        ((0, 2, 3), (3, 4)),
        ((2, 0), (0, 4)),
    ],
)
def test_matmul_broadcasts(a, b):
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    np.testing.assert_allclose(facula.matmul(facula.from_numpy(x), facula.from_numpy(y)).numpy(), x @ y, atol=1e-12)


def test_addmm_scales_and_ignores_what_zero_multiplies():
    m = facula.ones(2, 3)
    nan = facula.full((2, 2), float("nan"))
    assert facula.addmm(nan, m, m.T, beta=0, alpha=2).tolist() == [[6.0, 6.0], [6.0, 6.0]]
    assert facula.addmm(facula.tensor([1.0, 2.0]), m, m.T, beta=10).tolist() == [[13.0, 23.0], [13.0, 23.0]]
    assert facula.baddbmm(facula.zeros(1), m[None], m.T[None], alpha=3).tolist() == [[[9.0, 9.0], [9.0, 9.0]]]


def test_linear_and_its_gradients():
    rng = np.random.default_rng(3)
    x = facula.from_numpy(rng.standard_normal((2, 4, 3))).requires_grad_()
    w = facula.from_numpy(rng.standard_normal((5, 3))).requires_grad_()
    b = facula.from_numpy(rng.standard_normal(5)).requires_grad_()
    y = facula.nn.functional.linear(x, w, b)
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy() @ w.detach().numpy().T + b.detach().numpy())
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(w.detach().numpy().sum(0), (2, 4, 3)))
    np.testing.assert_allclose(w.grad.numpy(), np.tile(x.detach().numpy().reshape(-1, 3).sum(0), (5, 1)))
    assert b.grad.tolist() == [8.0] * 5


@pytest.mark.parametrize(
    "equation,shapes",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("...ij,...jk", [(6, 1, 2, 3), (5, 3, 4)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("a,ab,abc->abc", [(2,), (2, 3), (2, 3, 4)]),
        ("ij,kj", [(2, 3), (4, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ],
)
def test_einsum(equation, shapes):
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(s) for s in shapes]
    result = facula.einsum(equation, *map(facula.from_numpy, arrays))
    np.testing.assert_allclose(result.numpy(), np.einsum(equation, *arrays), atol=1e-12)


def test_tensordot_and_kron():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((3, 4, 5))
    x, y = facula.from_numpy(a), facula.from_numpy(b)
    np.testing.assert_allclose(facula.tensordot(x, y).numpy(), np.tensordot(a, b))
    np.testing.assert_allclose(facula.tensordot(x, y, dims=([1], [0])).numpy(), np.tensordot(a, b, ([1], [0])))
    np.testing.assert_allclose(facula.kron(x, y).numpy(), np.kron(a, b))


def test_distances_of_equal_rows_have_derivatives():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((30, 3))
    values[3] = values[7]
    x = facula.tensor(values, requires_grad=True)
    difference = values[:, None] - values[None]
    distance = np.linalg.norm(difference, axis=-1)
    with np.errstate(invalid="ignore"):
        direction = np.where(distance[..., None] > 1e-6, difference / distance[..., None], 0.0)
    for mode in ("use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"):
        made = facula.cdist(x, x, compute_mode=mode)
        assert made[3, 7] < 1e-6
        (gradient,) = facula.autograd.grad(made.sum(), x)
        np.testing.assert_allclose(gradient.numpy(), 2 * direction.sum(1), rtol=1e-6, atol=1e-6)
    made = facula.cdist(x, x)
    (gradient,) = facula.autograd.grad(made.sum(), x, create_graph=True)
    (second,) = facula.autograd.grad((gradient * gradient).sum(), x)
    assert second.isfinite().all()
    assert facula.cdist(facula.tensor(values).fill_(np.nan), x).isnan().all()


@pytest.mark.parametrize("p", [1.0, 3.0, float("inf")])
def test_distances_of_so_many_rows_that_they_are_made_in_parts(p):
    x = facula.randn(2, 700, 6, dtype=facula.float64, generator=facula.Generator().manual_seed(0)).requires_grad_()
    y = facula.randn(2, 600, 6, dtype=facula.float64, generator=facula.Generator().manual_seed(1)).requires_grad_()
    apart = (x[:, :, None] - y[:, None]).abs()
    expected = apart.amax(-1) if p == float("inf") else apart.pow(p).sum(-1).pow(1 / p)
    weights = facula.rand(2, 700, 600, dtype=facula.float64, generator=facula.Generator().manual_seed(2))
    made = facula.cdist(x, y, p=p)
    facula.testing.assert_close(made, expected)
    grads = [facula.autograd.grad((d * weights).sum(), (x, y)) for d in (made, expected)]
    facula.testing.assert_close(grads[0], grads[1])


def test_errors_name_the_op_and_the_shapes():
    a = facula.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"^mm: .*\(2, 3\)"):
        facula.mm(a, a)
    with pytest.raises(RuntimeError, match=r"^mm: .*float32 and float64"):
        facula.mm(a, a.T.double())
    with pytest.raises(RuntimeError, match=r"^matmul: "):
        facula.matmul(a, facula.tensor(1.0))
    with pytest.raises(RuntimeError, match=r"^einsum: "):
        facula.einsum("ij,jk", a)


def test_products_work_in_a_forked_child():
    a = facula.ones(512, 512)
    assert (a @ a)[0, 0].item() == 512
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Python warns of threads at a fork; that is what is tried here
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        correct = (a @ a)[0, 0].item() == 512 and (a.double() @ a.double())[0, 0].item() == 512
        os._exit(0 if correct else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("shape, dim", [((3,), 0), ((50, 3), 1), ((3, 7, 5), 0), ((4, 3, 33), 1), ((0, 3), 1), ((2, 5, 3), -1)])
def test_cross_products(dtype, shape, dim):
    r = np.random.default_rng(0)
    a, b = (r.random((2, *shape)) * 8 + (1j * r.random((2, *shape)) if dtype == "complex64" else 0)).astype(dtype)
    found = facula.linalg.cross(facula.from_numpy(a), facula.from_numpy(b), dim=dim)
    wide = np.float32 if dtype == "float16" else dtype
    expected = np.cross(a.astype(wide), b.astype(wide), axis=dim)
    np.testing.assert_allclose(found.numpy(), expected.astype(dtype), rtol=2e-3 if dtype == "float16" else 1e-5, atol=1e-5)
    assert found.dtype is getattr(facula, dtype)


def test_cross_products_broadcast_and_have_derivatives():
    a = facula.randn(4, 1, 3, dtype=facula.complex128, requires_grad=True)
    b = facula.randn(1, 5, 3, dtype=facula.complex128, requires_grad=True)
    assert facula.autograd.gradcheck(facula.linalg.cross, (a, b)) and facula.autograd.gradgradcheck(facula.linalg.cross, (a, b))
    turned = facula.randn(3, 6).t()
    assert facula.cross(turned, turned.contiguous() * 2, dim=1).abs().max() < 1e-5
    np.testing.assert_allclose(facula.vmap(facula.linalg.cross)(a[:, 0], a[:, 0].conj()).detach().numpy(),
                               np.cross(a[:, 0].detach().numpy(), a[:, 0].detach().numpy().conj()))  # fmt: skip
    assert facula.linalg.cross(a.to("meta"), b.to("meta")).shape == (4, 5, 3)
    with pytest.raises(NotImplementedError, match="^linalg.cross: "):
        facula.linalg.cross(facula.ones(3, dtype=facula.bool), facula.ones(3, dtype=facula.bool))


@pytest.mark.parametrize("dtype", [facula.bfloat16, facula.float16])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 40, 33), (5, 7, 3), (17, 64, 65), (70, 33, 129), (1, 700, 611), (9, 333, 900)])
def test_products_of_narrow_floats_are_rounded_once(dtype, shape):
    rows, columns, inner = shape
    a, b = facula.randn(rows, inner).to(dtype), facula.randn(inner, columns).to(dtype)
    exact = a.double() @ b.double()
    bound = (a.double().abs() @ b.double().abs()) * 2.0**-20 + exact.abs() * (2.0**-8 if dtype is facula.bfloat16 else 2.0**-11)
    for x, y in itertools.product((a, a.t().contiguous().t()), (b, b.t().contiguous().t())):
        assert ((x @ y).double() - exact).abs().le(bound).all()
        batch = facula.bmm(x.expand(3, -1, -1), y.expand(3, -1, -1))
        assert (batch.double() - exact).abs().le(bound).all()
    added = facula.addmm(facula.ones(columns, dtype=dtype), a, b, beta=2, alpha=0.5)
    assert (added.double() - exact / 2 - 2).abs().le(bound + 2.0**-7).all()


@pytest.mark.parametrize("rows, inner, columns", [(2, 6, 0), (2, 0, 3), (0, 6, 3), (2, 0, 0), (0, 0, 0)])
def test_linear_of_nothing_backward(rows, inner, columns):
    x, w, b = (facula.ones(s, requires_grad=True) for s in ((rows, inner), (columns, inner), (columns,)))
    facula.nn.functional.linear(x, w, b).sum().backward()
    assert x.grad.tolist() == [[float(columns)] * inner] * rows and w.grad.tolist() == [[float(rows)] * inner] * columns
    assert b.grad.tolist() == [float(rows)] * columns


@pytest.mark.parametrize(("factors", "text"), [
    ({"beta": 2.0}, "argument beta must not be a floating point number"),
    ({"alpha": 1.5}, "argument alpha must not be a floating point number"),
    ({"beta": True}, "Boolean beta only supported for Boolean results"),
    ({"alpha": True}, "Boolean alpha only supported for Boolean results"),
])  # fmt: skip
def test_factors_of_addr_are_of_the_results_kind(factors, text):
    vector = facula.ones(2, dtype=facula.int8)
    with pytest.raises(RuntimeError, match=f"^addr: .*{text}"):
        facula.addr(facula.ones(2, 2, dtype=facula.int8), vector, vector, **factors)
