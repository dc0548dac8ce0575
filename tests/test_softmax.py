"""Soft-max against SciPy."""

import math

import numpy as np
import pytest
from scipy import special

import facula


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape,dim", [((4, 100), 1), ((100, 4), 0), ((3, 5, 17), 1), ((33,), 0)])
def test_softmax(shape, dim, dtype):
    a = (10 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    t = facula.from_numpy(a)
    np.testing.assert_allclose(facula.softmax(t, dim).numpy(), special.softmax(a, dim), rtol=rtol)
    np.testing.assert_allclose(
        facula.log_softmax(t, dim).numpy(), special.log_softmax(a, dim), rtol=rtol, atol=rtol
    )
    assert facula.softmax(t, dim, dtype=facula.float64).dtype == facula.float64


def test_softmax_of_extremes():
    assert facula.softmax(facula.tensor([1e30, 0.0]), 0).tolist() == [1, 0]
    assert all(map(math.isnan, facula.softmax(facula.tensor([-math.inf, -math.inf]), 0).tolist()))
    assert facula.softmax(facula.empty(2, 0), 1).shape == (2, 0)
    with pytest.raises(NotImplementedError, match="softmax"):
        facula.softmax(facula.tensor([1, 2]), 0)


@pytest.mark.parametrize("n", [1, 3, 8, 16, 100, 1000, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lines_of_any_length(n, dtype):
    """Lengths around the widths of vectors and of the blocks that are summed."""
    a = (5 * np.random.default_rng(n).standard_normal((3, n))).astype(dtype)
    g = np.random.default_rng(n + 1).standard_normal((3, n)).astype(dtype)
    rtol = 3e-6 if dtype == np.float32 else 1e-13
    for columns in (False, True):
        t = facula.from_numpy(a.T.copy() if columns else a.copy()).requires_grad_()
        dim = 0 if columns else 1
        y = t.softmax(dim)
        p = special.softmax(a.astype(np.float64), 1)
        turned = (lambda r: r.T) if columns else (lambda r: r)
        np.testing.assert_allclose(turned(y.detach().numpy()), p, rtol=rtol)
        (grad,) = facula.autograd.grad(y, t, facula.from_numpy(g.T.copy() if columns else g.copy()))
        expected = p * (g - (p * g).sum(1, keepdims=True))
        np.testing.assert_allclose(turned(grad.numpy()), expected, rtol=1e3 * rtol, atol=rtol)
        z = t.log_softmax(dim)
        np.testing.assert_allclose(turned(z.detach().numpy()), np.log(p), rtol=rtol, atol=4 * rtol)
        (grad,) = facula.autograd.grad(z, t, facula.from_numpy(g.T.copy() if columns else g.copy()))
        np.testing.assert_allclose(turned(grad.numpy()), g - p * g.sum(1, keepdims=True), rtol=1e3 * rtol, atol=30 * rtol)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("columns", [False, True])
def test_lines_without_a_finite_largest_are_nan(value, columns):
    a = np.full((20, 20), value, np.float32) if value < 0 else np.zeros((20, 20), np.float32)
    a[3, 5] = value
    t = facula.from_numpy(a.T.copy() if columns else a)
    bad = facula.softmax(t, 0 if columns else 1).isnan().numpy()
    bad = bad.T if columns else bad
    assert bad[3].all() and bad.all(1).sum() == (20 if value < 0 else 1)
