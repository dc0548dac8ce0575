"""Histograms and distinct elements against NumPy."""

import numpy as np
import pytest

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


INTEGERS = ["bool", "uint8", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 2, 17, 511, 512, 3000])
def test_distinct_elements_with_and_without_their_places(dtype, n):
    a = np.random.default_rng(n).integers(-90, 90, n).astype(dtype)
    if dtype == "int64":
        a = a << 40
    t = facula.from_numpy(a)
    expected, inverse, counts = np.unique(a, return_inverse=True, return_counts=True)
    for flags in ((False, False), (True, False), (False, True), (True, True)):
        found = unique(t, return_inverse=flags[0], return_counts=flags[1])
        found = [found] if isinstance(found, facula.Tensor) else list(found)
        wanted = [expected, *([inverse] if flags[0] else []), *([counts] if flags[1] else [])]
        assert [f.tolist() for f in found] == [w.tolist() for w in wanted]
    starts = np.flatnonzero(np.r_[True, a[1:] != a[:-1]]) if n else np.zeros(0, int)
    for flags in ((False, False), (True, True)):
        found = unique_consecutive(t, return_inverse=flags[0], return_counts=flags[1])
        found = [found] if isinstance(found, facula.Tensor) else list(found)
        assert found[0].tolist() == a[starts].tolist()
        if flags[0]:
            assert (found[0].numpy()[found[1].numpy()] == a).all() and found[2].tolist() == np.diff(np.r_[starts, n]).tolist()


def test_distinct_elements_of_whole_ranges_and_of_no_numbers():
    for dtype in ("int8", "uint8", "int16", "int64"):
        ends = np.iinfo(dtype)
        a = np.random.default_rng(1).permutation(np.array([ends.min, ends.max, 0, 1, ends.max - 1, ends.min + 1] * 200, dtype))
        assert unique(facula.from_numpy(a)).tolist() == sorted(set(a.tolist()))
    x = facula.tensor([np.nan, 1.0, np.nan, -0.0, 0.0, -np.inf])
    assert unique(x).isnan().tolist() == [False, False, False, True, True]
    assert unique_consecutive(x).numel() == 5
    zeros = unique_consecutive(facula.tensor([-0.0, 0.0, 0.0, 1.0, 0.0, -0.0]))
    assert zeros.tolist() == [0, 1, 0] and zeros.signbit().tolist() == [True, False, False]  # the first of each run
    same = unique_consecutive(facula.full((3000,), 7))
    assert same.tolist() == [7] and same.untyped_storage().nbytes() < 3000
    strided = facula.arange(10).repeat_interleave(2)[::2]
    assert unique(strided).tolist() == list(range(10)) and strided.tolist() == list(range(10))


@pytest.mark.parametrize("n", [0, 5, 4095, 4096, 20000])
@pytest.mark.parametrize("kinds", [1, 100, 4096, 4097, 100000])
def test_counts_of_few_and_of_many_kinds(n, kinds):
    a = np.random.default_rng(n).integers(0, kinds, n)
    if n:
        a[-1] = kinds - 1
    weights = np.random.default_rng(1).random(n)
    for minlength in (0, 50, 5000):
        assert facula.bincount(facula.from_numpy(a), minlength=minlength).tolist() == np.bincount(a, minlength=minlength).tolist()
        found = facula.bincount(facula.from_numpy(a), facula.from_numpy(weights), minlength)
        np.testing.assert_allclose(found.numpy(), np.bincount(a, weights, minlength))
    if n:
        a[n // 2] = -1
        with pytest.raises(RuntimeError, match="bincount: .* not negative, got -1"):
            facula.bincount(facula.from_numpy(a))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_membership_in_near_and_far_values(dtype):
    r = np.random.default_rng(2)
    a = r.integers(0, 120, 300).astype(dtype)
    ends = np.array([0, 1], dtype) if "float" in dtype else np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    for some in (r.integers(0, 120, 20).astype(dtype), np.r_[ends, a[:5]], ends[:1], ends[1:], a[:0]):
        for invert in (False, True):
            values = np.r_[a, ends]
            found = facula.isin(facula.from_numpy(values), facula.from_numpy(some), invert=invert)
            assert found.tolist() == np.isin(values, some, invert=invert).tolist()
    if "float" in dtype:
        nan = facula.tensor([np.nan, 1.0], dtype=getattr(facula, dtype))
        assert facula.isin(nan, nan).tolist() == [False, True]
