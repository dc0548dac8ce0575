"""Scans and integrals against NumPy, and derivatives of what works along lines."""

import math

import numpy as np
import pytest

import facula


def numeric_gradient(f, x, eps=1e-6):
    """Central differences of a scalar function of a float64 array."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        g[i] = (f(x + step) - f(x - step)) / (2 * eps)
    return g


def check_gradients(op, x):
    """First and second derivatives of `op` weighted by fixed numbers."""
    shape = op(facula.from_numpy(x)).shape
    weights = facula.from_numpy(np.random.default_rng(9).standard_normal(tuple(shape)))

    def first(a, create_graph=False):
        t = facula.from_numpy(a.copy())
        t.requires_grad_()
        (g,) = facula.autograd.grad((op(t) * weights).sum(), t, create_graph=create_graph)
        return t, g

    np.testing.assert_allclose(
        first(x)[1].numpy(),
        numeric_gradient(lambda a: (op(facula.from_numpy(a)) * weights).sum().item(), x),
        atol=1e-6,
    )
    t, g = first(x, True)
    mix = facula.from_numpy(np.random.default_rng(8).standard_normal(x.shape))
    if not g.requires_grad:
        return
    (second,) = facula.autograd.grad((g * mix).sum(), t)
    np.testing.assert_allclose(
        second.numpy(), numeric_gradient(lambda a: (first(a)[1] * mix).sum().item(), x), atol=1e-5
    )


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name,reference", [("cumsum", np.cumsum), ("cumprod", np.cumprod)])
def test_running_sums_and_products(name, reference, dim):
    a = np.random.default_rng(0).standard_normal((3, 19, 37))
    for t, b in ((facula.from_numpy(a), a), (facula.from_numpy(a).transpose(0, 2), a.swapaxes(0, 2))):
        np.testing.assert_allclose(getattr(facula, name)(t, dim).numpy(), reference(b, dim), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64", "bool", "float16"])
@pytest.mark.parametrize("shape", [(1, 40), (5, 17), (300, 130), (3, 9, 16), (2, 1, 70), (4, 0, 20)])
def test_scans_down_columns(dtype, shape):
    x = np.random.default_rng(0).integers(-2, 3, shape).astype(dtype)
    for dim in range(len(shape)):
        for name in ("cumsum", "cumprod"):
            want = getattr(np, name)(x.astype("int64" if dtype == "bool" else "float64" if dtype == "float16" else dtype), dim)
            got = getattr(facula, name)(facula.from_numpy(x), dim).numpy()
            finite = np.abs(want) < (6e4 if dtype == "float16" else 1e30)
            np.testing.assert_allclose(got[finite], want[finite], rtol=1e-6)


def test_in_place_and_dtype():
    t = facula.tensor([1, 2, 3], dtype=facula.int32)
    t.cumsum_(0)
    assert t.tolist() == [1, 3, 6] and t.dtype == facula.int32
    assert facula.cumsum(t, 0, dtype=facula.float64).dtype == facula.float64
    assert facula.tensor(2.0).cumsum(0).item() == 2 and facula.empty(0).cumsum(0).shape == (0,)


def test_running_extrema_keep_the_last_position():
    values, indices = facula.cummax(facula.tensor([1.0, 3.0, 3.0, math.nan, 4.0]), 0)
    assert (
        values.tolist()[:3] == [1, 3, 3]
        and math.isnan(values[4].item())
        and indices.tolist() == [0, 1, 2, 3, 3]
    )
    assert facula.cummin(facula.tensor([2, 3, 2, 1]), 0).indices.tolist() == [0, 0, 2, 3]


@pytest.mark.parametrize("n", [1, 15, 16, 17, 40, 63, 64, 65, 200])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_running_extrema_of_long_rows(n, dtype):
    """Blocks in which nothing is better are filled; equal elements, and NaN once and again, begin anew."""
    r = np.random.default_rng(n)
    a = r.integers(-4, 5, (6, n)).astype(dtype)
    a[1], a[2], a[3] = np.arange(n), -np.arange(n), 7
    if dtype != "int64":
        a[4, n // 2] = a[5, n // 3] = a[5, n - 1] = np.nan
    for name, better in (("cummax", np.greater_equal), ("cummin", np.less_equal)):
        values, positions = getattr(facula, name)(facula.from_numpy(a), 1)
        for row in range(6):
            best, at, expected = a[row, 0], 0, []
            for i, x in enumerate(a[row]):
                if x != x or (best == best and better(x, best)):
                    best, at = x, i
                expected.append((best, at))
            np.testing.assert_array_equal(values[row].numpy(), np.array([e[0] for e in expected], dtype))
            assert positions[row].tolist() == [e[1] for e in expected]


def test_running_products_of_floats_pass_numbers_that_floats_do_not_have():
    a = np.array([1e-30, 1e-30, 1e30, 1e38, 1e38, 1e-38, 0, np.inf, 2] * 3, np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(facula.cumprod(facula.from_numpy(a), 0).numpy(), a.astype("float64").cumprod().astype("float32"))
    b = np.random.default_rng(0).standard_normal((5, 67)).astype(np.float32)
    np.testing.assert_allclose(facula.cumprod(facula.from_numpy(b), 1).numpy(), b.astype("float64").cumprod(1), rtol=1e-6)


def test_logcumsumexp_does_not_overflow():
    a = np.array([1000.0, 1000.0, -math.inf, 2000.0])
    expected = [1000, 1000 + math.log(2), 1000 + math.log(2), 2000]
    np.testing.assert_allclose(facula.logcumsumexp(facula.from_numpy(a), 0).numpy(), expected)


GRADIENTS = {
    "cumsum": lambda t: t.cumsum(1),
    "cumprod": lambda t: t.cumprod(1),
    "cummax": lambda t: t.cummax(1).values,
    "logcumsumexp": lambda t: t.logcumsumexp(1),
    "softmax": lambda t: t.softmax(1),
    "log_softmax": lambda t: t.log_softmax(0),
    "logsumexp": lambda t: t.logsumexp((0, 1)),
    "var": lambda t: t.var(1),
    "std": lambda t: t.std(0, keepdim=True),
    "prod": lambda t: t.prod(1),
    "norm1.5": lambda t: t.norm(1.5, 1),
    "norm2": lambda t: t.norm(),
    "norm3": lambda t: t.norm(3, 0),
    "mean": lambda t: t.mean((0, 1)) ** 2,
    "median": lambda t: t.median(1).values,
    "amax": lambda t: t.amax(1) ** 2,
    "quantile": lambda t: t.quantile(0.3, 1) ** 2,
    "diff": lambda t: t.diff(prepend=t) ** 2,
    "trapezoid": lambda t: facula.trapezoid(t * t, t),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_derivatives(name):
    check_gradients(GRADIENTS[name], np.random.default_rng(7).standard_normal((3, 4)))


def test_cumprod_derivative_with_zeros():
    x = np.array([[2.0, 0.0, 3.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    check_gradients(lambda t: t.cumprod(1), x)
    check_gradients(lambda t: t.prod(0), x)


def test_differences_and_integrals():
    a = np.random.default_rng(2).standard_normal((3, 6))
    t = facula.from_numpy(a)
    np.testing.assert_allclose(facula.diff(t, 2).numpy(), np.diff(a, 2), rtol=1e-10)
    np.testing.assert_allclose(
        facula.trapezoid(t, dx=0.5).numpy(), (a[:, 1:] + a[:, :-1]).sum(1) * 0.25, rtol=1e-10
    )
    np.testing.assert_allclose(
        facula.cumulative_trapezoid(t).numpy(), ((a[:, 1:] + a[:, :-1]) / 2).cumsum(1), rtol=1e-10
    )
    assert facula.diff(facula.tensor([True, False, False])).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "complex64", "bfloat16"])
@pytest.mark.parametrize("shape", [(16, 16), (3, 70), (2, 5, 9), (4, 3, 65)], ids=str)
def test_running_sums_of_neighbors_side_by_side(shape, dtype):
    x = facula.randint(-2, 3, shape).to(getattr(facula, dtype))
    a = x.to(facula.complex128 if x.is_complex() else facula.float64).numpy()
    for dim in range(x.dim()):
        assert facula.cumsum(x, dim).tolist() == a.cumsum(dim).astype(a.dtype).tolist()
        assert facula.cumprod(x, dim).tolist() == a.cumprod(dim).tolist()
