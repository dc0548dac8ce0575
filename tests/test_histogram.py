"""Histograms and distinct elements against NumPy."""

import numpy as np

import facula
from facula.functions.reduce import histogramdd, unique, unique_consecutive


def test_histograms():
    a = np.random.default_rng(4).standard_normal(200)
    t = facula.from_numpy(a)
    hist, edges = facula.histogram(t, 7)
    expected, expected_edges = np.histogram(a, 7)
    assert (hist.numpy() == expected).all()
    np.testing.assert_allclose(edges.numpy(), expected_edges, rtol=1e-12)
    assert facula.histc(t, 5, -1, 1).sum().item() == ((a >= -1) & (a <= 1)).sum()
    assert facula.bincount(facula.tensor([1, 1, 3]), minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    points = np.random.default_rng(5).random((50, 2))
    hist, edges = histogramdd(facula.from_numpy(points), [3, 4], density=True)
    np.testing.assert_allclose(hist.numpy(), np.histogramdd(points, (3, 4), density=True)[0], rtol=1e-12)


def test_distinct_elements():
    a = np.array([[3, 1, 3], [2, 2, 1]])
    values, inverse, counts = unique(facula.from_numpy(a), return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3] and counts.tolist() == [2, 2, 2]
    assert (values.numpy()[inverse.numpy()] == a).all()
    rows = facula.tensor([[1, 2], [0, 5], [1, 2]])
    assert unique(rows, dim=0).tolist() == [[0, 5], [1, 2]]
    values, counts = unique_consecutive(facula.tensor([1, 1, 2, 1]), return_counts=True)
    assert values.tolist() == [1, 2, 1] and counts.tolist() == [2, 1, 1]
    assert facula.isin(facula.tensor([1, 2, 3]), facula.tensor([3, 1])).tolist() == [True, False, True]
