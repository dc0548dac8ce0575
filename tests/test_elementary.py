"""Errors of the elementary functions as they run, in units in the last place (ULP), over all floats and at their edges."""

import math

import numpy as np
import pytest
import scipy.special

import facula

INF, NAN = float("inf"), float("nan")

# name: float64 reference, bound in ULP
FLOAT32 = {
    "exp": (np.exp, 2), "exp2": (np.exp2, 2), "log": (np.log, 2), "tanh": (np.tanh, 2), "erf": (scipy.special.erf, 2),
    "sin": (np.sin, 2), "cos": (np.cos, 2),
    "sigmoid": (lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1.0) / (1.0 + np.exp(-np.abs(x))), 2),
}  # fmt: skip
FLOAT64 = {"exp": (np.exp, 2), "sin": (np.sin, 2), "cos": (np.cos, 2), "erf": (np.vectorize(math.erf), 3)}  # the C library's: 1
EDGES = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (89.0, INF), (-104.0, 0.0), (1e30, INF), (-1e30, 0.0),
            (3.4e38, INF), (-3.4e38, 0.0)],
    "exp2": [(0.0, 1.0), (-0.0, 1.0), (3.0, 8.0), (-149.0, 2.0**-149), (127.0, 2.0**127), (INF, INF), (-INF, 0.0), (NAN, NAN),
             (128.0, INF), (-151.0, 0.0), (1e30, INF), (-1e30, 0.0), (3.4e38, INF), (-3.4e38, 0.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-INF, NAN), (-1.0, NAN), (-1e-45, NAN), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (1e-45, 1e-45), (-30.0, -1.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (-30.0, -1.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-45, 1e-45), (-1e-45, -1e-45)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN)],
}  # fmt: skip


def every_kind_of_float32() -> np.ndarray:
    """Bit patterns spread over all of them, and dense samples where functions bend."""
    spread = np.arange(0, 1 << 32, 8191, dtype=np.uint64).astype(np.uint32).view(np.float32)
    spread = spread[np.isfinite(spread)]  # the rest is in EDGES
    rng = np.random.default_rng(0)
    near = [rng.uniform(-top, top, 200_000) for top in (0.05, 1.5, 20, 110, 35_000)]
    whole = np.arange(-12_000, 12_000) * (np.pi / 2)
    return np.concatenate([spread, 1 + rng.uniform(-0.1, 0.1, 100_000), *near, whole]).astype(np.float32)


def ulps(result: np.ndarray, exact: np.ndarray, dtype) -> np.ndarray:
    """Distance in units of the binade that the exact value lies in; infinite where only one of both is special."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        lowest, digits = np.finfo(dtype).minexp, np.finfo(dtype).nmant
        exponent = np.maximum(np.frexp(np.abs(exact).astype(np.longdouble))[1] - 1, lowest)
        error = np.abs(result - exact) / np.ldexp(np.longdouble(1), exponent - digits)
    finite = np.isfinite(result) & np.isfinite(rounded)
    special = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    return np.where(finite, error, np.where(special, 0, np.inf))


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_within_its_bound_over_all_floats(name):
    reference, bound = FLOAT32[name]
    x = every_kind_of_float32()
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
    error = ulps(getattr(facula, name)(facula.from_numpy(x)).numpy(), exact, np.float32)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{name}({x[worst]!r}) is {error[worst]:.3f} ULP off"


@pytest.mark.parametrize("name", FLOAT64)
def test_float64_within_its_bound(name):
    reference, bound = FLOAT64[name]
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-top, top, 50_000) for top in (1e-3, 4, 700, 1e4, 1.1e6)])
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.longdouble))
    error = ulps(getattr(facula, name)(facula.from_numpy(x)).numpy(), exact, np.float64)
    assert error.max() <= bound


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(name, dtype):
    narrow = np.dtype(dtype).type
    x = [pair[0] for pair in EDGES[name] if dtype == "float32" or abs(pair[0]) in (0, 1, INF) or pair[0] != pair[0]]
    expected = np.array([pair[1] for pair in EDGES[name] if pair[0] in x or pair[0] != pair[0]], dtype=narrow)
    given = np.array(x, dtype=narrow)
    result = getattr(facula, name)(facula.from_numpy(given)).numpy()
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[~np.isnan(result)]), np.signbit(expected[~np.isnan(expected)]))


@pytest.mark.parametrize("name", FLOAT32)
def test_an_element_is_the_same_wherever_it_stands(name):
    x = facula.linspace(0.01, 40.0, 1003)
    whole = getattr(facula, name)(x)
    for i in (0, 15, 16, 999, 1002):
        assert getattr(facula, name)(x[i:i + 1]).item() == whole[i].item()
    strided = facula.stack([x, x], 1)[:, 0]
    assert facula.equal(getattr(facula, name)(strided), whole)


def test_large_and_small_angles_together():
    x = np.full(2048, 0.5, np.float32)
    x[700], x[1300], x[2047] = 1e30, 12345.0, INF
    result = facula.sin(facula.from_numpy(x)).numpy()
    exact = np.sin(x.astype(np.float64)[:2047])
    assert np.abs(result[:2047] - exact).max() < 1e-7
    assert np.isnan(result[2047])


def test_gelu_keeps_its_digits_below_zero():
    x = np.linspace(-6, 9, 40_001).astype(np.float32)
    exact = x.astype(np.float64) * scipy.special.ndtr(x.astype(np.float64))
    got = facula.nn.functional.gelu(facula.from_numpy(x)).numpy()
    np.testing.assert_allclose(got[x > -4], exact[x > -4], rtol=4e-6)
    np.testing.assert_allclose(got, exact, rtol=3e-7, atol=8e-8)
    far = facula.nn.functional.gelu(facula.tensor([-20.0, -1e30, 1e30, INF, NAN])).tolist()
    assert abs(far[0]) < 1e-20 and far[1:4] == [0, float(np.float32(1e30)), INF] and np.isnan(far[4])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_mish_and_its_derivative(dtype):
    """Over both halves, beyond where exponentials of x or 2 x overflow, and where the result vanishes."""
    x = np.concatenate([np.linspace(-100, 100, 1001), np.linspace(-2, 2, 401), [-1e4, 1e4, -1e-30, 0.0]]).astype(dtype)
    exact = x.astype(np.longdouble)
    with np.errstate(over="ignore"):
        gate, sigmoid = np.tanh(np.log1p(np.exp(exact))), 1 / (1 + np.exp(-exact))
    slope = gate + exact * sigmoid * (1 - gate * gate)
    given = facula.from_numpy(x).requires_grad_()
    result = facula.nn.functional.mish(given)
    result.sum().backward()
    info = np.finfo(dtype)
    np.testing.assert_allclose(result.detach().numpy(), exact * gate, rtol=8 * info.eps, atol=100 * float(info.smallest_subnormal))
    np.testing.assert_allclose(given.grad.numpy(), slope, rtol=8 * info.eps, atol=2 * info.eps)
    for edge, expected in ((INF, INF), (NAN, NAN), (-INF, NAN)):
        np.testing.assert_equal(facula.nn.functional.mish(facula.tensor([edge])).item(), expected)


@pytest.mark.parametrize("dtype", [facula.float32, facula.bfloat16, facula.float16, facula.float64])
def test_lgamma_is_zero_at_one_and_two_and_exact_beside_them(dtype):
    x = facula.tensor([1.0, 2.0] * 9, dtype=dtype)
    assert facula.lgamma(x).tolist() == [0.0] * 18
    near = facula.tensor([1 + 2.0**-20, 1 - 2.0**-20, 2 + 2.0**-18, 2 - 2.0**-18])
    exact = facula.lgamma(near.double())
    assert ((facula.lgamma(near).double() - exact) / exact).abs().max() < 2e-7


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64], ids=str)
@pytest.mark.parametrize("beside", [1.0, 1e30, float("nan")], ids=["moderate", "large", "nan"])
def test_a_sine_does_not_depend_on_what_lies_beside_the_element(dtype, beside):
    x = facula.linspace(-4, 4, 200, dtype=dtype)
    x[::7] = -0.0
    mixed = facula.full((400,), beside, dtype=dtype)
    mixed[::2] = x
    for f in (facula.sin, facula.cos):
        alone, together = f(x), f(mixed)[::2]
        assert facula.equal(alone, together) and facula.equal(alone.signbit(), together.signbit())
    assert facula.sin(x)[::7].signbit().all()
