"""Reductions against NumPy: values, layouts, dtypes, empty tensors, errors, derivatives."""

import math

import numpy as np
import pytest

import facula


def array(t):
    return t.detach().numpy() if t.requires_grad else t.numpy()


def layouts(shape, seed=0):
    """Values that are contiguous, permuted, strided, negatively strided and broadcast, with the same in NumPy."""
    a = np.random.default_rng(seed).standard_normal(shape)
    t = facula.from_numpy(a.copy())
    yield t, a
    yield t.transpose(0, -1), a.swapaxes(0, -1)
    yield facula.from_numpy(np.repeat(a, 2, axis=-1))[..., ::2], a
    yield t[..., ::-1], a[..., ::-1]
    yield t[:1].expand(3, *shape[1:]), np.broadcast_to(a[:1], (3, *shape[1:]))


FOLDS = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "var": lambda a, axis, keepdims: np.var(a, axis=axis, ddof=1, keepdims=keepdims),
    "std": lambda a, axis, keepdims: np.std(a, axis=axis, ddof=1, keepdims=keepdims),
    "all": np.all,
    "any": np.any,
    "nansum": np.nansum,
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("dim", [0, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_folds_over_dimensions_of_any_layout(name, dim):
    for t, a in layouts((5, 7, 70)):
        for keep in (False, True):
            expected = FOLDS[name](a, axis=dim, keepdims=keep)
            got = getattr(facula, name)(t, dim=dim, keepdim=keep)
            assert got.shape == expected.shape
            np.testing.assert_allclose(array(got), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(100_003,), (300, 1000), (1000, 300), (70_000, 3), (3, 70_000)])
def test_large_sums_do_not_depend_on_threads(shape):
    a = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    t = facula.from_numpy(a)
    results = []
    before = facula.get_num_threads()
    for threads in (1, 2):
        facula.set_num_threads(threads)
        results.append([t.sum().item(), *(t.sum(d).numpy().tobytes() for d in range(t.dim()))])
    facula.set_num_threads(before)
    assert results[0] == results[1]
    np.testing.assert_allclose(t.sum().item(), a.astype(np.float64).sum(), rtol=1e-5, atol=1e-3)
    for d in range(t.dim()):
        np.testing.assert_allclose(t.sum(d).numpy(), a.astype(np.float64).sum(d), rtol=1e-4, atol=1e-3)


def test_sum_is_pairwise():
    t = facula.full((1 << 22,), 0.1)
    assert abs(t.sum().item() / (0.1 * (1 << 22)) - 1) < 2e-6
    assert abs(t.reshape(1 << 20, 4).sum(0)[0].item() / (0.1 * (1 << 20)) - 1) < 2e-6

    few = facula.full((4096,), 0.1)
    assert abs(few.sum().item() / 409.6 - 1) < 1.5e-6


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, float("inf")])
def test_second_derivatives_of_norms_at_zero_are_numbers(p):
    for norm in (lambda x: facula.linalg.vector_norm(x, p, dim=-1), lambda x: facula.cdist(x, x.detach() * 1, p=p, compute_mode="donot_use_mm_for_euclid_dist")):
        x = facula.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=facula.float64).requires_grad_()
        (first,) = facula.autograd.grad(norm(x).sum(), x, create_graph=True)
        (second,) = facula.autograd.grad((first * first).sum(), x)
        assert first.isfinite().all() and second.isfinite().all()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers_accumulate_in_int64(dtype):
    t = facula.ones(300, dtype=getattr(facula, dtype))
    assert t.sum().dtype == facula.int64 and t.sum().item() == 300
    assert t.prod().dtype == facula.int64 and t.prod().item() == 1
    assert t.cumsum(0).dtype == facula.int64


def test_half_accumulates_in_float():
    t = facula.ones(5000, dtype=facula.float16)
    assert t.sum().item() == 5000 and t.sum().dtype == facula.float16
    assert facula.ones(5000, dtype=facula.bfloat16).mean().item() == 1


def test_dtype_and_out():
    t = facula.tensor([1.5, 2.5])
    assert t.sum(dtype=facula.int64).item() == 3
    out = facula.empty(0)
    assert facula.sum(t.reshape(1, 2), 0, out=out) is out
    assert out.tolist() == [1.5, 2.5]


def test_nothing_to_reduce():
    e = facula.empty(2, 0)
    assert e.sum().item() == 0 and e.prod().item() == 1 and e.sum(1).tolist() == [0, 0]
    assert e.any().item() is False and e.all().item() is True
    assert math.isnan(e.mean().item()) and e.logsumexp(1).tolist() == [-math.inf] * 2
    for call in (
        lambda: e.amax(1),
        lambda: e.max(1),
        lambda: e.argmax(1),
        lambda: e.median(1),
        lambda: e.mode(1),
    ):
        with pytest.raises(IndexError, match="size zero"):
            call()
    with pytest.raises(RuntimeError, match="amax"):
        e.amax()
    with pytest.raises(IndexError, match="argmax"):
        e.argmax()
    assert e.amax(0).shape == (0,)


def test_nan_wins():
    t = facula.tensor([[1.0, math.nan, 3.0], [1.0, 2.0, 0.5]])
    assert math.isnan(t.max().item()) and math.isnan(t.amin(1)[0].item()) and t.amin(1)[1].item() == 0.5
    values, indices = t.max(1)
    assert math.isnan(values[0].item()) and indices.tolist() == [1, 1]
    assert t.argmin(1).tolist() == [1, 2]
    assert t.median(1).indices.tolist() == [1, 0] and t.nanmedian(1).values.tolist() == [1.0, 1.0]
    assert t.nansum().item() == 7.5 and t.nanmean(1)[0].item() == 2


@pytest.mark.parametrize("n", [1, 5, 1000, 5000])
def test_positions_are_those_of_the_first(n):
    a = np.random.default_rng(n).integers(0, 5, (3, n)).astype(np.float32)
    t = facula.from_numpy(a)
    for view, reference in ((t, a), (t.transpose(0, 1), a.T)):
        for dim in (0, 1):
            assert (facula.argmax(view, dim).numpy() == reference.argmax(dim)).all()
            assert (facula.argmin(view, dim).numpy() == reference.argmin(dim)).all()
            values, indices = facula.max(view, dim)
            assert (values.numpy() == reference.max(dim)).all() and (
                indices.numpy() == reference.argmax(dim)
            ).all()
    assert facula.argmax(t).item() == a.argmax()


def test_truth_of_uint8_and_no_dimension():
    t = facula.tensor([[1, 0], [2, 3]], dtype=facula.uint8)
    assert t.any().dtype == facula.uint8 and t.all(1).tolist() == [0, 1]
    assert facula.any(t, dim=()).shape == (2, 2)
    assert facula.tensor([0.0, math.nan]).any().item() is True
    assert facula.count_nonzero(t).item() == 3


@pytest.mark.parametrize("ord", [0, 0.5, 1, 2, 3, -1, -2, math.inf, -math.inf])
def test_vector_norms(ord):
    a = np.random.default_rng(0).standard_normal((4, 6))
    got = facula._C.linalg.vector_norm(facula.from_numpy(a), ord, 1)
    np.testing.assert_allclose(got.numpy(), np.linalg.norm(a, ord, axis=1), rtol=1e-12)
    z = a + 1j * a[::-1]
    np.testing.assert_allclose(
        facula.norm(facula.from_numpy(z), ord, 1).numpy(), np.linalg.norm(z, ord, axis=1), rtol=1e-12
    )


def test_norm_has_subgradient_zero_at_zero():
    for p in (0.5, 1, 1.5, 2, 3, math.inf):
        x = facula.zeros(3, requires_grad=True)
        x.norm(p).backward()
        assert x.grad.tolist() == [0, 0, 0]


def test_gradient_is_shared_among_equals():
    x = facula.tensor([1.0, 3.0, 3.0], requires_grad=True)
    x.max().backward()
    assert x.grad.tolist() == [0, 0.5, 0.5]
    x.grad = None
    x.max(0).values.backward()
    assert x.grad.tolist() == [0, 1, 0]


@pytest.mark.parametrize("values", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]])
def test_product_derivatives_with_zeros(values):
    x = facula.tensor(values, dtype=facula.float64, requires_grad=True)
    a, b, c = values
    (first,) = facula.autograd.grad(x.prod(), x, create_graph=True)
    assert first.tolist() == [b * c, a * c, a * b]
    (second,) = facula.autograd.grad(
        (first * facula.tensor([1.0, 10.0, 100.0], dtype=facula.float64)).sum(), x
    )
    assert second.tolist() == [10 * c + 100 * b, c + 100 * a, b + 10 * a]


def test_variance_warns_and_gives_nan():
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert math.isnan(facula.ones(1).var().item())
    t = facula.tensor([1.0, 2.0, 4.0])
    assert facula.var(t, correction=0).item() == pytest.approx(14 / 9)
    std, mean = facula.std_mean(t, unbiased=False)
    assert std.item() == pytest.approx(math.sqrt(14 / 9)) and mean.item() == pytest.approx(7 / 3)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(method):
    a = np.random.default_rng(3).standard_normal((5, 8))
    q = np.array([0.0, 0.1, 0.37, 1.0])
    got = facula.quantile(facula.from_numpy(a), facula.from_numpy(q), 1, interpolation=method)
    np.testing.assert_allclose(got.numpy(), np.quantile(a, q, axis=1, method=method), rtol=1e-12)
    a[0, :3] = math.nan
    got = facula.nanquantile(facula.from_numpy(a), facula.from_numpy(q), 1, interpolation=method)
    np.testing.assert_allclose(got.numpy(), np.nanquantile(a, q, axis=1, method=method), rtol=1e-12)
    with pytest.raises(RuntimeError, match=r"quantile: q must be in the range"):
        facula.quantile(facula.from_numpy(a), 1.5)


def test_masked_reductions_see_only_what_the_mask_shows():
    from facula import masked

    t = facula.tensor([[1.0, 2.0, 9.0], [3.0, 4.0, 5.0]])
    mask = facula.tensor([[True, True, False], [False, False, False]])
    assert masked.sum(t, 1, mask=mask).tolist() == [3, 0] and masked.prod(t, 1, mask=mask).tolist() == [2, 1]
    assert masked.amax(t, 1, mask=mask).tolist() == [2, -math.inf]
    mean = masked.mean(t, 1, mask=mask).tolist()
    assert mean[0] == 1.5 and math.isnan(mean[1])
    assert masked.var(t, 1, unbiased=False, mask=mask)[0].item() == 0.25
    assert masked.softmax(t, 1, mask=mask)[0, 2].item() == 0
    assert masked.cumsum(t, 1, mask=mask).tolist()[0] == [1, 3, 3]
    assert masked.sum(t, 1, mask=mask.to(facula.int64)).tolist() == [3, 0]  # any dtype: what is not zero is shown
    with pytest.raises(IndexError, match="sum: mask"):
        masked.sum(t, mask=facula.ones(1, 2, 3))
    for x in (t, t.to_sparse()):
        for name in ("sum", "prod"):
            with pytest.raises(IndexError, match=f"^{name}: .* got 5"):
                getattr(masked, name)(x, 5)
    with pytest.raises(RuntimeError, match="^prod: expected every dimension at most once"):
        masked.prod(t, (0, 0))


def test_covariance():
    a = np.random.default_rng(6).standard_normal((3, 9))
    w = np.array([1, 2, 0, 1, 3, 1, 1, 2, 1])
    np.testing.assert_allclose(facula.cov(facula.from_numpy(a)).numpy(), np.cov(a), rtol=1e-12)
    np.testing.assert_allclose(facula.corrcoef(facula.from_numpy(a)).numpy(), np.corrcoef(a), rtol=1e-12)
    np.testing.assert_allclose(
        facula.cov(facula.from_numpy(a), fweights=facula.from_numpy(w)).numpy(),
        np.cov(a, fweights=w),
        rtol=1e-12,
    )


def test_errors_begin_with_the_op():
    t = facula.ones(2, 3)
    with pytest.raises(IndexError, match="sum"):
        t.sum(5)
    with pytest.raises(RuntimeError, match="sum"):
        t.sum((0, 0))
    with pytest.raises(RuntimeError, match=r"mean\(\)"):
        facula.ones(3, dtype=facula.int64).mean()
    with pytest.raises(RuntimeError, match="equal"):
        facula.equal(t, facula.ones(2, 3, device="meta"))


def test_out_chooses_the_dtype_of_the_sum():
    t = facula.tensor([1.5, 2.5])
    for op, expected in ((facula.sum, 3), (facula.prod, 2)):
        assert op(t, 0, out=facula.empty(0, dtype=facula.int64)).item() == expected  # of the whole parts
        with pytest.raises(RuntimeError, match=f"^{op.__name__}: .*float64.*float32"):
            op(t, 0, dtype=facula.float64, out=facula.empty(0))
        assert op(facula.tensor([0.5, 0.0]), dtype=facula.bool).item() is (op is facula.sum)
    assert facula.cumsum(t, 0, out=facula.empty(0, dtype=facula.int64)).tolist() == [1, 3]
    for op in (facula.any, facula.all):
        assert op(facula.ones(2, dtype=facula.uint8), 0, out=facula.empty(0, dtype=facula.bool)).dtype is facula.bool
        with pytest.raises(RuntimeError, match=f"^{op.__name__}: out= is bool or uint8, got float32"):
            op(t, 0, out=facula.empty(0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_extrema_find_nan_and_infinities_anywhere(dtype):
    """Rows and columns of many lengths: what vectors, pieces and rests see."""
    kind = getattr(facula, dtype)
    r = np.random.default_rng(7)
    for n in (1, 3, 31, 32, 33, 64, 100, 130, 257, 700):
        a = facula.from_numpy(r.standard_normal((n, 5))).to(kind).double().numpy()
        for special in ([], [np.nan], [np.inf], [-np.inf], [np.inf, -np.inf], [-np.inf, np.nan]):
            x = a.copy()
            for value in special:
                x[r.integers(n), r.integers(5)] = value
            if special == [-np.inf]:
                x[:, 2] = -np.inf
            wide = np.tile(x, (1, 9))
            for b in (x, wide, x.T.copy(), wide.T.copy()):
                t = facula.from_numpy(b).to(kind)
                for dim in (0, 1):
                    np.testing.assert_array_equal(t.amax(dim).double().numpy(), b.max(dim))
                    np.testing.assert_array_equal(t.amin(dim).double().numpy(), b.min(dim))
                np.testing.assert_array_equal(t.max().double().numpy(), b.max())
                norm = facula.linalg.vector_norm(t, math.inf, 0).double().numpy()
                np.testing.assert_array_equal(norm, np.abs(b).max(0))


def test_equal_sees_every_place():
    for n in (1, 255, 256, 257, 4351, 4352, 4353, 70000, 140000):
        a = facula.zeros(n)
        assert facula.equal(a, a.clone())
        for at in {0, n // 2, n - 1}:
            b = a.clone()
            b[at] = 1
            assert not facula.equal(a, b)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 127, 1000, 4096, 4097, 70001])
def test_sums_of_bfloat16(n):
    """Summed as they lie in memory, and strided ones after conversion."""
    whole = facula.arange(n) % 7 - 3
    x, exact = whole.bfloat16(), float(whole.sum())
    assert x.sum(dtype=facula.float32).item() == exact
    assert x[::2].sum(dtype=facula.float32).item() == float(whole[::2].sum())
    rows = x.expand(3, n).contiguous()
    assert rows.sum(1, dtype=facula.float32).tolist() == [exact] * 3
    for odd in (math.nan, math.inf, -math.inf):
        x[n // 2] = odd
        np.testing.assert_equal(x.sum().item(), odd)


@pytest.mark.parametrize("n", [0, 1, 7, 9, 255, 2039, 2040, 2041, 4097, 70_003])
def test_sums_of_bools_count(n):
    values = np.random.default_rng(n).random(n) > 0.3
    mask = facula.from_numpy(values)
    assert mask.sum() == values.sum() and mask.sum().dtype is facula.int64
    assert facula.count_nonzero(mask) == values.sum() and facula.count_nonzero(mask.to(facula.float32)) == values.sum()
    assert mask[::2].sum() == values[::2].sum() and facula.ones(n, dtype=facula.bool).sum() == n
    matrix = values.repeat(3).reshape(-1, 3)
    for dim in (0, 1):
        np.testing.assert_array_equal(facula.from_numpy(matrix).sum(dim).numpy(), matrix.sum(dim))
        np.testing.assert_array_equal(facula.from_numpy(matrix).t().sum(dim).numpy(), matrix.T.sum(dim))


@pytest.mark.parametrize("n", [1, 2, 4095, 4096, 5119, 50_001])
@pytest.mark.parametrize("kind", ["normal", "few", "equal", "sorted", "integers"])
def test_order_statistics_of_long_lines(n, kind):
    r = np.random.default_rng(n)
    values = {
        "normal": r.standard_normal(n), "few": r.integers(0, 4, n).astype(float), "equal": np.ones(n),
        "sorted": np.sort(r.standard_normal(n)), "integers": r.integers(-(2**62), 2**62, n),
    }[kind]  # fmt: skip
    t, order = facula.from_numpy(values), np.argsort(values, kind="stable")
    for k in {1, n // 3 + 1, n}:
        found = t.kthvalue(k)
        assert found.values == values[order[k - 1]] and found.indices == order[k - 1]
    middle = order[(n - 1) // 2]
    assert t.median(0).values == values[middle] and t.median(0).indices == middle and t.median() == values[middle]
    if kind != "integers" and n > 1:
        holes = values.copy()
        holes[n // 2 :: 7] = np.nan
        assert facula.from_numpy(holes).median().isnan()
        rest = np.sort(holes[~np.isnan(holes)])
        assert facula.from_numpy(holes).nanmedian() == rest[(len(rest) - 1) // 2]


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("name", ["sum", "mean", "var", "norm"])
def test_error_does_not_grow_with_the_length(name, dim):
    """Between short runs, sums of floats are kept in double."""
    x = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    call = lambda t: getattr(t, name)() if dim is None else getattr(t, name)(dim=dim)  # noqa: E731
    exact = call(facula.from_numpy(x).double()).numpy()
    error = np.sqrt(np.mean((call(facula.from_numpy(x)).double().numpy() - exact) ** 2) / np.mean(exact**2))
    assert error < 5e-7  # of one sum the error is that of one sample


def test_trace_and_dot_are_summed_in_double():
    x = np.random.default_rng(0).standard_normal((4096, 8)).astype(np.float32)
    for k in range(8):
        v = facula.from_numpy(x[:, k].copy())
        exact = float((x[:, k].astype(float) ** 2 * np.sign(x[:, k])).sum())
        assert facula.dot(v.abs(), v).item() == pytest.approx(exact, rel=1e-6)
        assert facula.trace(facula.diag(v[:256])).item() == pytest.approx(float(x[:256, k].astype(float).sum()), rel=3e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bfloat16"])
@pytest.mark.parametrize("shape", [(16, 16), (5, 3), (4, 64), (33, 65), (3, 7, 11), (2, 5, 130), (70, 2)], ids=str)
def test_places_of_extrema(shape, dtype):
    x = facula.randint(-3, 4, shape).to(getattr(facula, dtype))  # many equal ones: the first counts
    for t in (x, x.transpose(0, -1)):
        a = t.double().numpy()
        for dim in range(t.dim()):
            assert t.argmax(dim).tolist() == a.argmax(dim).tolist()
            assert t.argmin(dim, keepdim=True).tolist() == a.argmin(dim, keepdims=True).tolist()
            values, places = t.max(dim)
            assert values.double().tolist() == a.max(dim).tolist() and places.tolist() == a.argmax(dim).tolist()
            values, places = t.min(dim, keepdim=True)
            assert values.double().tolist() == a.min(dim, keepdims=True).tolist()
            assert places.tolist() == a.argmin(dim, keepdims=True).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_first_nan_is_the_extremum(dtype):
    x = facula.randn(40, 24, dtype=getattr(facula, dtype))
    x[7, ::3] = math.nan
    x[20, ::3] = math.nan
    for t, dim in ((x, 0), (x.t(), 1), (x.t().contiguous(), 1)):
        for values, places in (t.max(dim), t.min(dim)):
            assert places[::3].tolist() == [7] * 8 and values[::3].isnan().all()
            assert not values[1::3].isnan().any() and not values[2::3].isnan().any()
