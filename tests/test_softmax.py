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
