"""float16 and bfloat16 as they are read and written by vectors: conversions, loops, folds, norms, soft-max."""

import math

import numpy as np
import pytest

import facula

F = facula.nn.functional
HALVES = ("float16", "bfloat16")
#: around every width of a vector and of two, and larger
LENGTHS = [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 513]


def all_values(name):
    """Every number of the dtype, NaN and infinities among them."""
    bits = np.arange(65536, dtype=np.uint16)
    return facula.from_numpy(bits.view(np.int16)).view(getattr(facula, name))


def rounded_to(name, x):
    """Of float32: to the nearest, of two the even one."""
    if name == "float16":
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(np.float32)
    bits = x.view(np.uint32).astype(np.uint64)
    nearest = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, nearest)


def unit_of(name, x):
    """Unit in the last place of the numbers."""
    digits, least = (11, -24) if name == "float16" else (8, -133)
    return 2.0 ** np.maximum(np.frexp(x)[1] - digits, least)


@pytest.mark.parametrize("name", HALVES)
def test_all_values_there_and_back(name):
    x = all_values(name)
    wide = x.float().numpy()
    expected = np.arange(65536, dtype=np.uint16)
    if name == "float16":
        np.testing.assert_array_equal(wide, expected.view(np.float16).astype(np.float32))
    else:
        np.testing.assert_array_equal(wide, (expected.astype(np.uint32) << 16).view(np.float32))
    back = facula.from_numpy(wide).to(x.dtype).view(facula.int16).numpy().view(np.uint16)
    known = ~np.isnan(wide)
    np.testing.assert_array_equal(back[known], expected[known])
    assert facula.from_numpy(wide[~known]).to(x.dtype).isnan().all()


@pytest.mark.parametrize("name", HALVES)
def test_rounding_by_vectors_and_behind_them(name):
    """The exponents of all floats, the bits that rounding looks at, NaN of any payload."""
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 2**32, 40_000, dtype=np.uint64).astype(np.uint32)
    ties = (np.arange(65536, dtype=np.uint32) << 16) | 0x8000
    nans, largest = [0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], [0x7F7FFFFF, 0x477FEFFF, 0x477FF000]
    odd = np.array([*nans, *largest, 1, 0x80000001], np.uint32)
    x = np.concatenate([bits, ties, odd]).view(np.float32)
    np.testing.assert_array_equal(facula.from_numpy(x).to(getattr(facula, name)).float().numpy(), rounded_to(name, x))
    for n in LENGTHS:
        part = x[-n:].copy()
        np.testing.assert_array_equal(facula.from_numpy(part).to(getattr(facula, name)).float().numpy(), rounded_to(name, part))


def sigmoid(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


@pytest.mark.parametrize("name", HALVES)
def test_logistic_functions_of_all_values(name):
    """Half a unit in the last place, and a hundredth of one."""
    x = all_values(name)
    exact = x.double().numpy()
    usual = np.abs(exact) < 80  # in float32 e^-x is a normal number
    v, s = exact[usual], sigmoid(exact[usual])
    for result, expected in ((facula.sigmoid(x), s), (F.silu(x), v * s)):
        error = np.abs(result.double().numpy()[usual] - expected)
        assert (error <= 0.51 * unit_of(name, expected)).all()
    assert facula.sigmoid(x).float().numpy()[exact == math.inf] == 1
    assert facula.sigmoid(x).float().numpy()[exact == -math.inf] == 0
    assert facula.sigmoid(x).isnan().equal(x.isnan())
    usual = np.abs(exact) < 1e30
    assert np.isfinite(F.silu(x).double().numpy()[usual]).all()


@pytest.mark.parametrize("name", HALVES)
def test_slopes_of_logistic_functions(name):
    dtype = getattr(facula, name)
    x = facula.from_numpy(np.linspace(-20, 20, 4001).astype(np.float32)).to(dtype).requires_grad_()
    grad = facula.from_numpy(np.random.default_rng(1).standard_normal(4001).astype(np.float32)).to(dtype)
    v, g = x.detach().double().numpy(), grad.double().numpy()
    s = sigmoid(v)
    (found,) = facula.autograd.grad(F.silu(x), x, grad)
    place = 2.0 ** (-8 if name == "bfloat16" else -10)
    np.testing.assert_allclose(found.double().numpy(), g * s * (1 + v * (1 - s)), rtol=place, atol=1e-5)
    result = facula.sigmoid(x)
    r = result.detach().double().numpy()  # rounded, as it is saved
    (found,) = facula.autograd.grad(result, x, grad)
    np.testing.assert_allclose(found.double().numpy(), g * r * (1 - r), rtol=place, atol=1e-7)
    result = facula.tanh(x)
    r = result.detach().double().numpy()
    (found,) = facula.autograd.grad(result, x, grad)
    np.testing.assert_allclose(found.double().numpy(), g * (1 - r * r), rtol=place, atol=1e-7)


def whole_numbers(shape, dtype, seed=0):
    values = np.random.default_rng(seed).integers(-8, 9, shape)
    return facula.from_numpy(values.astype(np.float32)).to(dtype), values


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("rows", [1, 3, 8, 9, 130])
def test_folds_down_columns(name, rows):
    dtype = getattr(facula, name)
    for width in LENGTHS:
        x, exact = whole_numbers((rows, width), dtype, width)
        wide = facula.float32
        assert x.sum(0, dtype=wide).tolist() == exact.sum(0).tolist()
        assert x.amax(0).tolist() == exact.max(0).tolist() and x.amin(0).tolist() == exact.min(0).tolist()
        assert x.nansum(0, dtype=wide).tolist() == exact.sum(0).tolist()
        assert x[:, ::2].sum(0, dtype=wide).tolist() == exact[:, ::2].sum(0).tolist()  # not side by side
        np.testing.assert_allclose(x.norm(dim=0).float().numpy(), np.sqrt((exact**2).sum(0)), rtol=2**-8)
        cube, exact = whole_numbers((3, rows, width), dtype, width)
        assert cube.sum(1, dtype=wide).tolist() == exact.sum(1).tolist()
        assert cube.sum((0, 1), dtype=wide).tolist() == exact.sum((0, 1)).tolist()


@pytest.mark.parametrize("name", HALVES)
def test_folds_of_nan_and_infinity(name):
    dtype = getattr(facula, name)
    for rows, width in ((9, 33), (130, 65), (2, 7)):
        x = facula.zeros(rows, width, dtype=dtype)
        x[rows - 1, width - 1], x[0, 0] = math.nan, math.inf
        for dim, place in ((0, (0, width - 1)), (1, (0, rows - 1))):
            for found in (x.sum(dim), x.amax(dim)):
                assert found[place[0]] == math.inf and found[place[1]].isnan() and not found[1:-1].any()
            assert x.nansum(dim)[place[1]] == 0


@pytest.mark.parametrize("name", HALVES)
def test_folds_along_lines(name):
    dtype = getattr(facula, name)
    for n in [*LENGTHS, 4097, 70_001]:
        x, exact = whole_numbers((2, n), dtype, n)
        assert x.sum(1, dtype=facula.float32).tolist() == exact.sum(1).tolist()
        assert x.amax(1).tolist() == exact.max(1).tolist() and x.amin(1).tolist() == exact.min(1).tolist()
        assert x.abs().amax().item() == np.abs(exact).max()


def assert_rounded_once(name, result, wide):
    """The result is what float32 gives, rounded: half a unit in the last place, and what float32 loses itself."""
    wide = wide.double().numpy()
    error = np.abs(result.double().numpy() - wide)
    assert (error <= 0.5 * unit_of(name, wide) * (1 + 2**-7) + 1e-6 * np.abs(wide).max()).all()


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("width", LENGTHS)
def test_norms_are_rounded_once(name, width):
    dtype = getattr(facula, name)
    generator = facula.Generator().manual_seed(width)
    x = (2 * facula.randn(5, width, generator=generator) + 1).to(dtype)
    w, b = facula.randn(width, generator=generator).to(dtype), facula.randn(width, generator=generator).to(dtype)
    grad = facula.randn(5, width, generator=generator).to(dtype)
    for norm in (
        lambda x, w, b: F.layer_norm(x, (width,), w, b),
        lambda x, w, b: F.layer_norm(x, (width,), w),
        lambda x, w, b: F.layer_norm(x, (width,)),
        lambda x, w, b: F.rms_norm(x, (width,), w),
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: F.group_norm(x.view(5, 1, width), 1, w[:1], b[:1]),
    ):
        results = []
        for wide in (False, True):
            leaves = [t.float().requires_grad_() if wide else t.clone().requires_grad_() for t in (x, w, b)]
            result = norm(*leaves)
            result.backward((grad.float() if wide else grad).view(result.shape))
            results.append([result.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)])
        for found, expected in zip(*results):
            assert found.dtype == dtype
            assert_rounded_once(name, found, expected)


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (2, 40, 4, 9), (3, 33, 1, 1)])
def test_batch_norm_of_planes_and_of_channels_last(name, shape):
    dtype = getattr(facula, name)
    plain = facula.randn(shape).to(dtype)
    w, b = facula.randn(shape[1]), facula.randn(shape[1])
    for x in (plain, plain.contiguous(memory_format=facula.channels_last)):
        expected = F.batch_norm(x.float(), None, None, w, b, True)
        assert_rounded_once(name, F.batch_norm(x, None, None, w, b, True), expected)


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("width", LENGTHS)
def test_soft_max_backwards(name, width):
    """Lines as they lie, strided ones, and another dtype for the gradient."""
    dtype = getattr(facula, name)
    x = facula.randn(6, 2 * width).to(dtype)
    grad = facula.randn(6, 2 * width).to(dtype)
    for part in (slice(0, width), slice(None, None, 2)):
        leaf = x[:, part].detach().requires_grad_()
        result = F.softmax(leaf, -1)
        (found,) = facula.autograd.grad(result, leaf, grad[:, part])
        g, r = grad[:, part].double(), result.detach().double()
        exact = r * (g - (g * r).sum(-1, keepdim=True))
        assert found.dtype == dtype
        assert_rounded_once(name, found, exact)
        columns = x[:, part].detach().t().contiguous().requires_grad_()
        (across,) = facula.autograd.grad(F.softmax(columns, 0), columns, grad[:, part].t().contiguous())
        assert_rounded_once(name, across.t(), exact)
