"""Quick paths of the CPU kernels against NumPy, at sizes and values where they begin and end."""

import numpy as np
import pytest

import facula
from facula.nn import functional as F

EDGES = [0.0, -0.0, 1.0, -1.0, 3.0, -2.5, 0.1, 1e-30, 1e30, np.inf, -np.inf, np.nan, 123456789.0]


def pairs(dtype):
    """All pairs of edge values, then random ones of many magnitudes."""
    rng = np.random.default_rng(0)
    a, b = (x.ravel() for x in np.meshgrid(EDGES, EDGES))
    a = np.concatenate([a, rng.standard_normal(3000) * 10 ** rng.uniform(-3, 9, 3000)])
    return a.astype(dtype), np.concatenate([b, rng.standard_normal(3000)]).astype(dtype)


def same(actual, expected):
    np.testing.assert_array_equal(actual.numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_of_floats_are_exact(dtype):
    a, b = pairs(dtype)
    x, y = facula.from_numpy(a), facula.from_numpy(b)
    with np.errstate(all="ignore"):
        same(facula.fmod(x, y), np.fmod(a, b))
        python = np.fmod(a, b)
        python = np.where((python != 0) & ((python < 0) != (b < 0)), python + b, python)
        same(x % y, python)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_quotients_of_integers_are_exact(dtype):
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    a = np.concatenate([[info.max, info.min, info.max - 1, 7, 0], rng.integers(info.min, info.max, 999, dtype)]).astype(dtype)
    for b in (1, 2, 3, 7, 100, info.max, *((-2, -3, -100) if info.min else ())):
        b = np.array(b, dtype)
        x, y = facula.from_numpy(a), facula.from_numpy(np.full_like(a, b))
        same(x // y, a // b)
        same(x % y, a % b)
        same(facula.fmod(x, y), np.fmod(a, b))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 9), (16, 16), (33, 50), (64, 17), (3, 200)])
def test_copies_of_any_layout(dtype, shape):
    a = (np.arange(shape[0] * shape[1]).reshape(shape) % 100).astype(dtype)
    x = facula.from_numpy(a)
    for view, expected in (
        (x.t(), a.T), (x.flip(0), a[::-1]), (x.flip(1), a[:, ::-1]), (x[:, ::2], a[:, ::2]), (x[::2, ::3].t(), a[::2, ::3].T),
        (x.t()[:, None].expand(-1, 3, -1), np.broadcast_to(a.T[:, None], (shape[1], 3, shape[0]))),
        (x[:, :1].expand(-1, 5), np.broadcast_to(a[:, :1], (shape[0], 5))),
    ):  # fmt: skip
        same(view.contiguous(), expected)
    same(facula.stack([x, x], -1), np.stack([a, a], -1))
    target = facula.zeros(shape[1], 2 * shape[0], dtype=x.dtype)
    target[:, ::2] = x.t()
    same(target[:, ::2], a.T)
    assert not target[:, 1::2].any()


def test_narrow_floats_round_to_even():
    values = np.concatenate([EDGES, np.linspace(-70000, 70000, 997), 2.0 ** np.arange(-30, 20), [65519.99, 65520, 2049, 2051]])
    with np.errstate(over="ignore"):
        same(facula.from_numpy(values.astype(np.float32)).half(), values.astype(np.float32).astype(np.float16))
    x = facula.from_numpy(values.astype(np.float32))
    back = x.bfloat16().float().numpy()
    finite = np.isfinite(values)
    assert np.all(np.abs(back[finite] - x.numpy()[finite]) <= np.abs(x.numpy()[finite]) * 2.0**-8)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))


@pytest.mark.parametrize("shape", [(3, 5, 100), (2, 7, 64), (4, 3, 17), (1, 1, 80)])
def test_softmax_down_columns_and_along_rows(shape):
    a = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 5
    x = facula.from_numpy(a)
    for dim in range(3):
        e = np.exp(a.astype(np.float64) - a.max(dim, keepdims=True))
        expected = e / e.sum(dim, keepdims=True)
        np.testing.assert_allclose(facula.softmax(x, dim).numpy(), expected, rtol=3e-6)
        np.testing.assert_allclose(facula.log_softmax(x, dim).numpy(), np.log(expected), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("kernel,stride,padding", [(2, 2, 0), (3, 1, 1), (3, 2, 1), (5, 3, 2)])
def test_max_pool_takes_the_first_of_equals_and_the_last_nan(kernel, stride, padding):
    a = np.random.default_rng(0).integers(0, 4, (2, 23, 31)).astype(np.float32)
    a[0, 5, 6] = a[1, 20, 3] = np.nan
    values, places = F.max_pool2d(facula.from_numpy(a), kernel, stride, padding, return_indices=True)
    for c, i, j in np.ndindex(values.shape):
        top, left = max(i * stride - padding, 0), max(j * stride - padding, 0)
        window = a[c, top : i * stride - padding + kernel, left : j * stride - padding + kernel]
        flat = window.ravel()
        at = np.flatnonzero(np.isnan(flat))[-1] if np.isnan(flat).any() else int(flat.argmax())
        row, column = np.unravel_index(at, window.shape)
        assert places[c, i, j].item() == (top + row) * 31 + left + column
        np.testing.assert_equal(values[c, i, j].item(), flat[at].item())


def test_unique_is_numpys():
    rng = np.random.default_rng(0)
    for a in (rng.integers(-50, 50, 3000), rng.standard_normal(2000).astype(np.float32).round(1), rng.random(40) > 0.5):
        values, inverse, counts = facula.unique(facula.from_numpy(a), return_inverse=True, return_counts=True)
        expected = np.unique(a, return_inverse=True, return_counts=True)
        for ours, theirs in zip((values, inverse, counts), expected):
            same(ours, theirs)
    assert facula.unique(facula.tensor([np.nan, 1.0, np.nan])).numel() == 3
    runs, counts = facula.unique_consecutive(facula.tensor([1, 1, 2, 2, 2, 1]), return_counts=True)
    assert runs.tolist() == [1, 2, 1] and counts.tolist() == [2, 3, 1]


def test_equal_looks_at_every_piece():
    x = facula.zeros(200_000)
    assert facula.equal(x, facula.zeros(200_000))
    for at in (0, 4095, 4096, 70_000, 199_999):
        y = x.clone()
        y[at] = 1
        assert not facula.equal(x, y)


def test_attention_under_masks():
    rng = np.random.default_rng(0)
    q, k, v = (facula.from_numpy(rng.standard_normal((2, 3, 5, 8)).astype(np.float32)) for _ in range(3))
    scores = (q @ k.transpose(-2, -1)).numpy().astype(np.float64) / np.sqrt(8)
    allowed = rng.random((3, 5, 5)) > 0.4
    allowed[1, 2] = False  # nothing left: zeros
    for mask, kept in ((facula.from_numpy(allowed), allowed), (None, np.tri(5, dtype=bool))):
        e = np.where(kept, np.exp(scores), 0.0)
        weights = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
        result = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        np.testing.assert_allclose(result.numpy(), weights @ v.numpy(), rtol=2e-5, atol=1e-6)
    bias = facula.from_numpy(rng.standard_normal((5, 5)).astype(np.float32)).requires_grad_()
    F.scaled_dot_product_attention(q, k, v, attn_mask=bias).sum().backward()
    assert bias.grad.shape == (5, 5) and bias.grad.abs().sum() > 0


def test_inverse_error_function_at_its_ends():
    x = facula.tensor([-1.0, -1 + 2.0**-24, -0.5, 0.0, 1e-20, 0.999, 1.0, 1.5, float("nan")])
    y = facula.erfinv(x)
    assert y[0] == -float("inf") and y[6] == float("inf") and y[7:].isnan().all() and y[3] == 0
    np.testing.assert_allclose(facula.erf(y[1:6].double()).numpy(), x[1:6].double().numpy(), rtol=1e-6)
    p = facula.tensor([1e-300, 1e-20, 0.25, 0.5, 1 - 1e-12], dtype=facula.float64)
    np.testing.assert_allclose(facula.special.ndtr(facula.special.ndtri(p)).numpy(), p.numpy(), rtol=1e-12)


@pytest.mark.parametrize("dtype", [facula.int8, facula.uint8, facula.int16, facula.int32, facula.int64])
def test_integers_wrap_around(dtype):
    info = facula.iinfo(dtype)
    a = facula.tensor([info.max, info.min, info.max, 3, info.min] * 7, dtype=dtype)
    b = facula.tensor([info.max, info.max, 2, info.max, info.min] * 7, dtype=dtype)
    x, y = a.numpy(), b.numpy()
    at = facula.zeros(35, dtype=facula.int64)
    with np.errstate(over="ignore"):
        expected = {
            "add": x + y,
            "alpha": x + y * x.dtype.type(3),
            "sub": x - y,
            "square": x * x,
            "addcmul": x + y * x,
            "sum": x.astype(np.int64).sum(),
            "prod": x.astype(np.int64).prod(),
            "cumsum": x.astype(np.int64).cumsum(),
            "cumprod": x.astype(np.int64).cumprod(),
            "index_add": x.sum(dtype=x.dtype),
            "multiplied": x.prod(dtype=x.dtype),
        }
    one = facula.ones(1, dtype=dtype)
    got = {
        "add": a + b,
        "alpha": facula.add(a, b, alpha=3),
        "sub": a - b,
        "square": a.square(),
        "addcmul": facula.addcmul(a, b, a),
        "sum": a.sum(),
        "prod": a.prod(),
        "cumsum": a.cumsum(0),
        "cumprod": a.cumprod(0),
        "index_add": (one * 0).index_add(0, at, a)[0],
        "multiplied": one.scatter_reduce(0, at, a, "prod")[0],
    }
    for name, value in got.items():
        np.testing.assert_array_equal(value.numpy(), expected[name], err_msg=name)
