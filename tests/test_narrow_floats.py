"""Kernels that store float16 or bfloat16 and compute in float32: as the float32 op on the same values, rounded once."""

import math

import numpy as np
import pytest

import facula
from facula.nn import functional as F

DTYPES = pytest.mark.parametrize("dtype", [facula.bfloat16, facula.float16], ids=["bfloat16", "float16"])


def values(*sizes, seed=0):
    return facula.from_numpy(np.random.default_rng(seed).standard_normal(sizes).astype(np.float32))


def agrees(narrow, wide):
    """Both kernels sum in the same order, or nearly: a unit in the last place."""
    expected = wide.to(narrow.dtype)
    step = 2.0**-7 if narrow.dtype == facula.bfloat16 else 2.0**-10
    np.testing.assert_allclose(narrow.double().numpy(), expected.double().numpy(), rtol=step, atol=1e-7)
    same = (narrow == expected).double().mean().item()
    assert same > 0.98 or narrow.numel() < 50


def layouts(x):
    yield x
    yield x.transpose(0, 1).contiguous().transpose(0, 1)
    yield facula.cat([x, x], 1)[:, : x.shape[1]]


@DTYPES
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name, dim, dtype):
    op = getattr(F, name)
    for sizes in ((3, 5), (40, 70), (5, 33, 7), (2, 1000)):
        for x in layouts(values(*sizes).to(dtype)):
            x = x.detach().requires_grad_()
            wide = x.detach().float().requires_grad_()
            result, expected = op(x, dim), op(wide, dim)
            agrees(result.detach(), expected.detach())
            grad = values(*sizes, seed=1).to(dtype)
            # the derivative is made of the rounded result
            (made,) = facula.autograd.grad(result, x, grad)
            y, g = result.detach().double(), grad.double()
            exact = y * (g - (g * y).sum(dim, keepdim=True)) if name == "softmax" else g - y.exp() * g.sum(dim, True)
            step = 2.0**-8 if dtype == facula.bfloat16 else 2.0**-10
            np.testing.assert_allclose(made.double().numpy(), exact.numpy(), rtol=step, atol=1e-5)


@DTYPES
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 2), 2])
def test_sums(dim, dtype):
    for sizes in ((9, 5, 3), (40, 17, 300), (1, 2, 1000), (300, 3, 33)):
        x = values(*sizes).to(dtype)
        for t in (x, x.transpose(0, 2), x[:, :, ::2], x.expand(2, *sizes).flatten(0, 1)):
            agrees(t.sum(dim), t.float().sum(dim))
            agrees(t.mean(dim), t.float().mean(dim))


@DTYPES
@pytest.mark.parametrize("width", [1, 7, 64, 385])
def test_norms(width, dtype):
    for op, arguments in ((F.layer_norm, 2), (F.rms_norm, 1)):
        leaves = [values(30, width), *(values(width, seed=s + 1) for s in range(arguments))]
        narrow = [t.to(dtype).requires_grad_() for t in leaves]
        wide = [t.detach().float().requires_grad_() for t in narrow]
        made, expected = (op(x, (width,), *rest) for x, *rest in (narrow, wide))
        agrees(made.detach(), expected.detach())
        grad = values(30, width, seed=9).to(dtype)
        made.backward(grad)
        expected.backward(grad.float())
        if width > 1:
            step = 2.0**-6 if dtype == facula.bfloat16 else 2.0**-9
            for a, b in zip(narrow, wide, strict=True):
                np.testing.assert_allclose(a.grad.double().numpy(), b.grad.double().numpy(), rtol=step, atol=step)


@DTYPES
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing, dtype):
    for shape, target in (((40, 100), (40,)), ((3, 20, 11), (3, 11))):
        x = values(*shape).to(dtype).requires_grad_()
        wide = x.detach().float().requires_grad_()
        classes = facula.arange(math.prod(target)).reshape(target) % shape[1]
        F.cross_entropy(x, classes, label_smoothing=smoothing).backward()
        F.cross_entropy(wide, classes, label_smoothing=smoothing).backward()
        step = 2.0**-7 if dtype == facula.bfloat16 else 2.0**-9
        np.testing.assert_allclose(x.grad.double().numpy(), wide.grad.double().numpy(), rtol=step, atol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_steps_of_optimizers(name):
    start, grads = values(1001).bfloat16(), [values(1001, seed=s + 1).bfloat16() for s in range(2)]
    grads[1][3], grads[1][4] = float("nan"), float("inf")
    options = {"momentum": 0.9} if name == "SGD" else {}
    results = []
    for dtype in (facula.bfloat16, facula.float32):
        p = facula.nn.Parameter(start.to(dtype, copy=True))
        optimizer = getattr(facula.optim, name)([p], lr=0.1, **options)
        for grad in grads:
            p.grad = grad.to(dtype)
            optimizer.step()
        results.append(p.detach().double().numpy())
    assert np.isnan(results[0][3])
    np.testing.assert_allclose(results[0][5:], results[1][5:], rtol=0.05, atol=0.02)
    np.testing.assert_array_equal(np.isnan(results[0]), np.isnan(results[1]))


def test_rounding_of_every_kind_of_number():
    """Ties, the largest number, infinities, NaN: the norm of a row is one that changes nothing but rounding."""
    bits = np.arange(0, 1 << 32, 65536 // 8 + 1, dtype=np.uint64).astype(np.uint32)
    x = facula.from_numpy(bits.view(np.float32).copy())
    p = facula.nn.Parameter(facula.zeros(len(bits), dtype=facula.bfloat16))
    grad = x.bfloat16()
    p.grad = grad.clone()
    facula.optim.SGD([p], lr=1.0).step()
    made, expected = p.detach().float().numpy(), (0 - grad.float()).bfloat16().float().numpy()
    np.testing.assert_array_equal(np.isnan(made), np.isnan(expected))
    np.testing.assert_array_equal(made[~np.isnan(made)], expected[~np.isnan(made)])


def test_slope_of_gelu():
    x = facula.cat([facula.linspace(-15, 15, 40001), facula.tensor([0.0, -0.0, 1e-30, -1e-30, 88.0, -88.0])])
    exact = x.double().requires_grad_()
    F.gelu(exact).sum().backward()
    narrow = x.clone().requires_grad_()
    F.gelu(narrow).sum().backward()
    error = (narrow.grad.double() - exact.grad).abs()
    # around 0.75 below zero the slope itself is 0: there the error is of the terms
    assert (error <= 2.5e-7 * exact.grad.abs() + 6e-8 * (x.abs() < 2) + 1e-12).all()
    ends = facula.tensor([float("nan"), float("inf"), float("-inf")], requires_grad=True)
    F.gelu(ends).backward(facula.ones(3))
    assert facula.isnan(ends.grad).all()
    for grad in (facula.tensor(2.0), facula.full((40007,), 2.0)):
        scaled = x.clone().requires_grad_()
        F.gelu(scaled).backward(grad.expand(x.shape))
        assert facula.equal(scaled.grad, 2 * narrow.grad)


ATTENTION = [  # batch and heads, queries, keys, size, size of values
    ((1, 1), 1, 1, 1, 1),
    ((2, 3), 5, 5, 3, 8),
    ((1, 2), 47, 33, 16, 31),
    ((2, 1), 49, 193, 33, 64),
    ((1, 5), 100, 400, 64, 64),
    ((1, 1), 300, 300, 80, 32),
    ((2, 2), 97, 191, 128, 96),
]


@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "added", "dropout"])
@pytest.mark.parametrize("transposed", [False, True])
def test_attention_of_bfloat16(kind, transposed):
    """Against float64 on the same values: weights and gradients of scores are rounded once on the way."""
    for at, (heads, queries, keys, size, value_size) in enumerate(ATTENTION):
        shapes = ((queries, size), (keys, size), (keys, value_size), (queries, value_size))
        q, k, v, grad = (values(*heads, *s, seed=10 * at + i).bfloat16() for i, s in enumerate(shapes))
        if transposed:  # as layers lay them out: heads beside each other in a row
            q, k, v, grad = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v, grad))
        mask = values(queries, keys, seed=at) if kind in ("bool", "added") else None
        if kind == "bool":
            mask = mask > 0
            mask[:, 0] = True
        results = []
        for dtype in (facula.bfloat16, facula.float64):
            leaves = [t.to(dtype).detach().requires_grad_() for t in (q, k, v)]
            given = mask.to(dtype) if kind == "added" else mask
            facula.manual_seed(at)
            out = F.scaled_dot_product_attention(
                *leaves, attn_mask=given, is_causal=kind == "causal", dropout_p=0.25 if kind == "dropout" else 0.0
            )
            out.backward(grad.to(dtype))
            results.append([t.double().numpy() for t in (out.detach(), *(leaf.grad for leaf in leaves))])
        for made, exact in zip(*results, strict=True):
            size_of = np.abs(exact).mean() + 1e-3
            assert np.sqrt(np.mean((made - exact) ** 2)) <= 0.015 * size_of
            assert np.abs(made - exact).max() <= 0.05 * max(np.abs(exact).max(), size_of)


def test_attention_of_rows_that_see_nothing():
    q, k = values(1, 2, 50, 24).bfloat16().requires_grad_(), values(1, 2, 60, 24, seed=1).bfloat16().requires_grad_()
    mask = facula.ones(50, 60, dtype=facula.bool)
    mask[7] = False
    out = F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    assert (out[:, :, 7] == 0).all()
    out.sum().backward()
    assert facula.isfinite(q.grad).all()
    assert facula.isfinite(k.grad).all()
    assert (q.grad[:, :, 7] == 0).all()


@DTYPES
def test_gelu(dtype):
    """Every bfloat16 below 100 and many float16: half a unit in the last place, and a tenth of it."""
    x = facula.arange(0, 1 << 16, dtype=facula.int32).to(facula.uint16).view(dtype)
    x = x[(x.float().abs() < 100) & facula.isfinite(x.float())]
    exact = x.double().requires_grad_()
    expected = F.gelu(exact)
    expected.sum().backward()
    narrow = x.clone().requires_grad_()
    made = F.gelu(narrow)
    made.sum().backward()
    unit = 2.0**-8 if dtype == facula.bfloat16 else 2.0**-11
    smallest = 1e-12 if dtype == facula.bfloat16 else 2.0**-24  # erf in float64 has no more digits there
    for result, true, slack in ((made.detach(), expected.detach(), 0.0), (narrow.grad, exact.grad, 3e-6)):
        error = (result.double() - true).abs()
        assert (error <= 1.1 * unit * true.abs() + smallest + slack).all()
    inf, nan = float("inf"), float("nan")
    ends = facula.tensor([inf, -inf, nan, 1e4, -1e4], dtype=dtype).requires_grad_()
    result = F.gelu(ends)
    result.backward(facula.ones(5, dtype=dtype))
    np.testing.assert_array_equal(result.detach().float().numpy(), [inf, nan, nan, facula.tensor(1e4, dtype=dtype).item(), 0])
    np.testing.assert_array_equal(ends.grad.float().numpy(), [nan, nan, nan, 1, 0])


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
def test_few_rows_times_a_large_transposed_matrix(dtype, rows):
    """The matrix is read once; it is too large to be converted as a whole."""
    facula.manual_seed(rows)
    for inner, columns in ((333, 517), (1024, 130)):
        x, weight, bias = facula.randn(rows, inner, dtype=dtype), facula.randn(columns, inner, dtype=dtype), facula.randn(columns, dtype=dtype)
        expected = x.double() @ weight.double().t()
        allowed = (0.004 if dtype is facula.bfloat16 else 0.0006) * (expected.abs() + 1)
        for result, added in ((x @ weight.t(), 0), (facula.nn.functional.linear(x, weight, bias), bias), (facula.addmm(bias, x, weight.t(), beta=2), 2 * bias)):
            assert result.dtype is dtype and ((result.double() - expected - added).abs() <= allowed + 0.02).all()


ONE_LOOP = {
    "abs": lambda x, y, z: x.abs(), "neg": lambda x, y, z: -x, "reciprocal": lambda x, y, z: x.reciprocal(), "square": lambda x, y, z: x.square(),
    "sqrt": lambda x, y, z: x.sqrt(), "rsqrt": lambda x, y, z: x.rsqrt(), "floor": lambda x, y, z: x.floor(), "ceil": lambda x, y, z: x.ceil(),
    "trunc": lambda x, y, z: x.trunc(), "round": lambda x, y, z: x.round(), "maximum": lambda x, y, z: facula.maximum(x, y),
    "minimum": lambda x, y, z: facula.minimum(x, y), "clamp_min": lambda x, y, z: x.clamp(min=0.5), "clamp": lambda x, y, z: x.clamp(-1, 2),
    "clamp_tensors": lambda x, y, z: x.clamp(y, z), "lerp": lambda x, y, z: facula.lerp(x, y, 0.25), "addcmul": lambda x, y, z: facula.addcmul(x, y, z, value=2),
    "addcdiv": lambda x, y, z: facula.addcdiv(x, y, z), "relu": lambda x, y, z: x.relu(), "hardtanh": lambda x, y, z: facula.nn.functional.hardtanh(x, -2, 3),
    "hardswish": lambda x, y, z: facula.nn.functional.hardswish(x), "leaky_relu": lambda x, y, z: facula.nn.functional.leaky_relu(x, 0.25),
}  # fmt: skip


@pytest.mark.parametrize("op", ONE_LOOP)
@DTYPES
def test_every_number_through_one_loop(dtype, op):
    """Results are those of float32, rounded; in slopes, too. The length is no multiple of a vector's."""
    kinds = facula.arange(-32768, 32768 + 7).to(facula.int16).view(dtype)
    order = facula.randperm(len(kinds), generator=facula.Generator().manual_seed(1))
    x, y, z = kinds, kinds[order], kinds[order.flip(0)]
    f = ONE_LOOP[op]
    got, expected = f(x, y, z), f(x.float(), y.float(), z.float()).to(dtype)
    assert facula.equal(got.isnan(), expected.isnan())
    if op in ("lerp", "addcmul", "addcdiv", "hardswish"):  # sums and products in one rounding or two
        close = facula.isclose(got.float(), expected.float(), rtol=0.01, equal_nan=True)
        assert (close | (got.abs() == facula.inf) | (got.abs() < 1e-3)).all()
    else:
        assert facula.equal(got.nan_to_num(), expected.nan_to_num())
    grad, wide = x[:9000].clone().requires_grad_(), x[:9000].float().requires_grad_()
    f(grad, y[:9000], z[:9000]).backward(facula.ones_like(grad))
    f(wide, y[:9000].float(), z[:9000].float()).backward(facula.ones_like(wide))
    narrow = wide.grad.to(dtype)
    assert facula.isclose(grad.grad.float(), narrow.float(), rtol=0.02, atol=1e-3, equal_nan=True).float().mean() > 0.99


LINES = {
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(0), "cumsum": lambda x: x.cumsum(-1), "cumprod": lambda x: x.cumprod(0),
    "logcumsumexp": lambda x: x.logcumsumexp(-1), "cummax": lambda x: x.cummax(-1).values, "sort": lambda x: x.sort(0).values, "median": lambda x: x.median(-1).values,
}  # fmt: skip


NARROW_LINES = [(dtype, op) for dtype in (facula.float8_e4m3fn, facula.float8_e5m2, facula.float16, facula.bfloat16) for op in LINES]
NARROW_LINES += [(facula.complex32, "cumsum"), (facula.complex32, "cumprod")]


@pytest.mark.parametrize("dtype, op", NARROW_LINES, ids=lambda x: str(x).removeprefix("torch."))
def test_lines_of_every_narrow_dtype(dtype, op):
    """Results are made in the wide dtype, beside the memory of the narrow one."""
    wide = facula.complex64 if dtype.is_complex else facula.float32
    for shape in ((2, 3), (5, 40), (1, 70)):
        x = facula.randn(shape, dtype=wide, generator=facula.Generator().manual_seed(0)).to(dtype)
        for given in (x, x.t().contiguous().t()):
            got, expected = LINES[op](given), LINES[op](x.to(wide)).to(dtype)
            assert got.dtype is dtype
            np.testing.assert_allclose(got.to(wide).numpy(), expected.to(wide).numpy(), rtol=0.01, atol=0.001)


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
def test_products_of_numbers_are_rounded_as_those_of_elements(dtype):
    facula.manual_seed(3)
    a, rows, one = facula.randn(64, 128, dtype=dtype), facula.randn(64, 1, dtype=dtype), facula.randn((), dtype=dtype)
    full, ones = rows.expand(64, 128).contiguous(), one.expand(64, 128).contiguous()
    assert facula.equal(facula.addcmul(a, rows, one, value=0.3), facula.addcmul(a, full, ones, value=0.3))
    assert facula.equal(facula.add(a, rows, alpha=0.3), facula.add(a, full, alpha=0.3))
    assert facula.equal(facula.lerp(a, rows, one), facula.lerp(a, full, ones))
