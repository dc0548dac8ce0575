"""What several files of tests of facula.distributions share."""

import numpy as np

import facula as torch
from facula.distributions import transforms


def double(*values):
    return torch.tensor(np.array(values), dtype=torch.float64)


def close(found, expected, rtol=1e-8, atol=1e-10):
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=rtol, atol=atol)


def covariance(n, *batch):
    a = np.random.default_rng(n).normal(size=(*batch, n, n))
    return a @ np.swapaxes(a, -1, -2) + np.eye(n)


T = transforms
