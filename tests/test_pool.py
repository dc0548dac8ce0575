"""Pooling against NumPy loops over the windows, gradients through indices and adjoints, layouts and errors."""

import itertools
import math

import numpy as np
import pytest

import facula
from facula.nn import functional as F


def numbers(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def sliding(size, kernel, stride, padding, dilation, ceil_mode):
    """Window starts along one dimension, as documented."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (math.ceil if ceil_mode else math.floor)(room / stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return [o * stride - padding for o in range(count)]


def pooled(x, starts, kernel, dilation, reduce):
    """reduce(values, positions) over every window's elements inside x."""
    planes = x.reshape(-1, *x.shape[2:])
    out = np.zeros((len(planes), *map(len, starts)))
    for p, plane in enumerate(planes):
        for at in itertools.product(*[range(len(s)) for s in starts]):
            axes = []
            for d, o in enumerate(at):
                places = [starts[d][o] + k * dilation for k in range(kernel)]
                axes.append([i for i in places if 0 <= i < plane.shape[d]])
            where = list(itertools.product(*axes))
            out[(p, *at)] = reduce([plane[w] for w in where], [np.ravel_multi_index(w, plane.shape) for w in where])
    return out.reshape(*x.shape[:2], *out.shape[1:])


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    "kernel, stride, padding, dilation, ceil_mode",
    [
        (2, 2, 0, 1, False),
        (3, 2, 1, 1, False),
        (3, 2, 1, 1, True),
        (2, 3, 1, 2, True),
        (2, 1, 0, 2, False),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_max_pool(n, kernel, stride, padding, dilation, ceil_mode, dtype):
    x = numbers((2, 3, *[7, 6, 5][:n]), n, dtype)
    starts = [sliding(s, kernel, stride, padding, dilation, ceil_mode) for s in x.shape[2:]]
    values, where = getattr(F, f"max_pool{n}d")(
        facula.from_numpy(x), kernel, stride, padding, dilation, ceil_mode, return_indices=True
    )
    np.testing.assert_array_equal(values.numpy(), pooled(x, starts, kernel, dilation, lambda v, w: max(v)))
    np.testing.assert_array_equal(where.numpy(), pooled(x, starts, kernel, dilation, lambda v, w: w[int(np.argmax(v))]))
    assert where.dtype == facula.int64


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16, facula.float32, facula.float64, facula.int32])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_maxima_alone_are_those_with_places(n, dtype):
    """Without a gradient no places are kept: long rows, short ones, NaN, windows in the padding, both layouts."""
    if n == 1 and dtype is facula.int32:
        return  # vectors are of floating-point numbers
    pool = getattr(F, f"max_pool{n}d")
    for sizes in ([7, 6, 5], [3, 4, 41], [2, 2, 2]):
        x = facula.from_numpy(numbers((2, 19, *sizes[-n:])) * 9).to(dtype)
        if dtype is not facula.int32:
            x.flatten()[::11] = math.nan
            x.flatten()[::13] = -math.inf
        for window in ((2, 2, 0, 1, False), (2, 3, 1, 2, True), (2, 1, 1, 1, True)):
            if window[3] == 2 and sizes[0] == 2:
                continue
            formats = [facula.contiguous_format] + [facula.channels_last, facula.channels_last_3d][n - 2 : n - 1]
            for layout in formats:
                given = x.contiguous(memory_format=layout)
                values, alone = pool(given, *window, return_indices=True)[0], pool(given, *window)
                np.testing.assert_array_equal(alone.double().numpy(), values.double().numpy())
                assert alone.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("shape", [(1, 1, 2, 2), (2, 3, 5, 7), (1, 2, 9, 4), (1, 1, 20, 33)], ids=str)
@pytest.mark.parametrize("kernel, stride, padding", [(2, 2, 0), (2, 1, 0), (3, 2, 1), (2, 2, 1)])
def test_small_planes(shape, kernel, stride, padding):
    """Maxima, their places and means of float32 are those of float64, with infinities and NaN in the planes."""
    x = numbers(shape, 3, "float32")
    x.flat[1], x.flat[-1] = math.inf, -math.inf
    for values in (x, np.where(x > 1.5, np.float32(math.nan), x), np.full_like(x, -math.inf)):
        narrow, wide = facula.from_numpy(values), facula.from_numpy(values.astype("float64"))
        arguments = (kernel, stride, padding)
        largest, places = F.max_pool2d(narrow, *arguments, return_indices=True)
        expected, where = F.max_pool2d(wide, *arguments, return_indices=True)
        np.testing.assert_array_equal(largest.numpy(), expected.numpy())
        np.testing.assert_array_equal(places.numpy(), where.numpy())
        np.testing.assert_array_equal(F.max_pool2d(narrow, *arguments).numpy(), expected.numpy())
        means = [F.avg_pool2d(t, *arguments, count_include_pad=include) for include in (True, False) for t in (narrow, wide)]
        np.testing.assert_allclose(means[0].numpy(), means[1].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(means[2].numpy(), means[3].numpy(), rtol=1e-5, atol=1e-6)


def test_maxima_alone_inside_transforms():
    x = facula.from_numpy(numbers((3, 2, 2, 5, 5)))
    batched = facula.vmap(lambda t: F.max_pool2d(t, 2))(x)
    assert batched.equal(facula.stack([F.max_pool2d(t, 2) for t in x]))
    leaf = x[0].clone().requires_grad_()
    with facula.no_grad():
        assert not F.max_pool2d(leaf, 2).requires_grad
    gradient = facula.func.grad(lambda t: F.max_pool2d(t, 2).sum())(x[0])
    F.max_pool2d(leaf, 2).sum().backward()
    assert gradient.equal(leaf.grad) and gradient.sum() == 16
    _, tangent = facula.func.jvp(lambda t: F.max_pool2d(t, 2), (x[0],), (facula.ones_like(x[0]),))
    assert tangent.eq(1).all()


def test_max_pool_gradient_goes_to_the_maxima():
    x = numbers((2, 3, 6, 7), 1)
    t = facula.from_numpy(x).requires_grad_()
    y, where = F.max_pool2d(t, 3, 2, 1, return_indices=True)
    g = facula.from_numpy(numbers(tuple(y.shape), 2)).requires_grad_()
    (gradient,) = facula.autograd.grad(y, [t], g, create_graph=True)
    expected = np.zeros((6, 42))
    np.add.at(expected, (np.arange(6)[:, None], where.numpy().reshape(6, -1)), g.detach().numpy().reshape(6, -1))
    np.testing.assert_allclose(gradient.detach().numpy(), expected.reshape(x.shape))
    v = facula.from_numpy(numbers(x.shape, 3))
    (second,) = facula.autograd.grad((gradient * v).sum(), [g])
    np.testing.assert_allclose(
        second.numpy().ravel(), np.take_along_axis(v.numpy().reshape(6, -1), where.numpy().reshape(6, -1), 1).ravel()
    )


def test_max_pool_keeps_nan_and_takes_integers():
    x = facula.tensor([[[1.0, math.nan, 3.0, 4.0]]])
    y = facula.max_pool1d(x, 2)
    assert math.isnan(y[0, 0, 0]) and float(y[0, 0, 1]) == 4
    whole = facula.arange(16).reshape(1, 4, 4)
    assert facula.max_pool2d(whole, 2).tolist() == [[[5, 7], [13, 15]]]
    lowest = facula.full((1, 1, 2, 2), -math.inf)
    y, where = F.max_pool2d(lowest, 2, return_indices=True)
    assert float(y) == -math.inf and int(where) == 0


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    "kernel, stride, padding, ceil_mode", [(2, 2, 0, False), (3, 2, 1, False), (3, 2, 1, True), (3, 1, 1, False)]
)
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_avg_pool(n, kernel, stride, padding, ceil_mode, count_include_pad):
    x = numbers((2, 2, *[7, 6, 5][:n]), n)
    starts = [sliding(s, kernel, stride, padding, 1, ceil_mode) for s in x.shape[2:]]
    sums = pooled(x, starts, kernel, 1, lambda v, w: sum(v))
    count = np.ones(())
    for d, s in enumerate(starts):
        size = x.shape[2 + d]
        low, high = (-padding, size + padding) if count_include_pad else (0, size)
        lengths = [min(b + kernel, high) - max(b, low) for b in s]
        count = np.multiply.outer(count, lengths)
    t = facula.from_numpy(x).requires_grad_()
    y = getattr(F, f"avg_pool{n}d")(t, kernel, stride, padding, ceil_mode, count_include_pad)
    np.testing.assert_allclose(y.detach().numpy(), sums / count, atol=1e-12)
    g = facula.from_numpy(numbers(tuple(y.shape), 5))
    (gradient,) = facula.autograd.grad(y, [t], g)
    assert float((gradient * t).sum()) == pytest.approx(float((y * g).sum()), rel=1e-9)


def test_avg_pool_divisor_and_double_backward():
    t = facula.ones(1, 1, 4, 4, dtype=facula.float64).requires_grad_()
    y = F.avg_pool2d(t, 2, divisor_override=3)
    np.testing.assert_allclose(y.detach().numpy(), np.full((1, 1, 2, 2), 4 / 3))
    g = facula.ones_like(y).requires_grad_()
    (gradient,) = facula.autograd.grad(y, [t], g, create_graph=True)
    (second,) = facula.autograd.grad(gradient.sum(), [g])
    np.testing.assert_allclose(second.numpy(), np.full((1, 1, 2, 2), 4 / 3))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_adaptive_pools(n):
    x = numbers((2, 3, *[7, 5, 6][:n]), n)
    out = [3, 5, 4][:n]
    expected_mean, expected_max = np.zeros((2, 3, *out)), np.zeros((2, 3, *out))
    for at in itertools.product(*map(range, out)):
        window = tuple(slice(o * s // q, -(-(o + 1) * s // q)) for o, s, q in zip(at, x.shape[2:], out))
        part = x[(slice(None), slice(None), *window)].reshape(2, 3, -1)
        expected_mean[(slice(None), slice(None), *at)] = part.mean(-1)
        expected_max[(slice(None), slice(None), *at)] = part.max(-1)
    t = facula.from_numpy(x).requires_grad_()
    mean = getattr(F, f"adaptive_avg_pool{n}d")(t, out)
    values, where = getattr(F, f"adaptive_max_pool{n}d")(t, out, return_indices=True)
    np.testing.assert_allclose(mean.detach().numpy(), expected_mean, atol=1e-12)
    np.testing.assert_array_equal(values.detach().numpy(), expected_max)
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(6, -1), where.numpy().reshape(6, -1), 1).ravel(), expected_max.ravel()
    )
    (gradient,) = facula.autograd.grad((mean + values).sum(), [t])
    assert float(gradient.sum()) == pytest.approx(2 * mean.numel())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
        lambda x: F.adaptive_max_pool2d(x, (3, 2)),
        lambda x: F.adaptive_avg_pool2d(x, 1),
    ],
)
@pytest.mark.parametrize("dtype", [facula.float32, facula.bfloat16])
def test_channels_last_gives_the_same(function, dtype):
    """Up to the order of sums."""
    x = facula.from_numpy(numbers((2, 5, 7, 6), 1, "float32")).to(dtype)
    plain = x.clone().requires_grad_()
    last = x.contiguous(memory_format=facula.channels_last).requires_grad_()
    a, b = function(plain), function(last)
    assert b.is_contiguous(memory_format=facula.channels_last)
    (ga,) = facula.autograd.grad((a * a).sum(), [plain])
    (gb,) = facula.autograd.grad((b * b).sum(), [last])
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == facula.float32 else {"rtol": 2e-2, "atol": 1e-2}
    for of_plain, of_last in ((a.detach(), b.detach()), (ga, gb)):
        np.testing.assert_allclose(
            of_plain.to(facula.float32).numpy(), of_last.to(facula.float32).numpy(), **tolerance
        )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpool_puts_maxima_back(n):
    x = facula.from_numpy(numbers((2, 3, *[6, 4, 8][:n]), n)).requires_grad_()
    values, where = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
    back = getattr(F, f"max_unpool{n}d")(values, where, 2)
    assert back.shape == x.shape
    kept = back.detach().numpy() != 0
    assert kept.sum() == values.numel()
    np.testing.assert_array_equal(back.detach().numpy()[kept], x.detach().numpy()[kept])
    (gradient,) = facula.autograd.grad(back.sum(), [x])
    np.testing.assert_array_equal(gradient.numpy(), kept.astype(float))


def test_unpool_refuses_bad_indices():
    values = facula.ones(1, 1, 2, 2)
    with pytest.raises(RuntimeError, match="max_unpool2d.*got 99"):
        F.max_unpool2d(values, facula.full((1, 1, 2, 2), 99), 2)
    with pytest.raises(RuntimeError, match="max_unpool2d.*int64"):
        F.max_unpool2d(values, facula.zeros(1, 1, 2, 2, dtype=facula.int32), 2)
    with pytest.raises(RuntimeError, match="max_unpool2d.*shape"):
        F.max_unpool2d(values, facula.zeros(1, 1, 2, 3, dtype=facula.int64), 2)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_windows_are_inside_and_hold_the_maxima(n):
    x = facula.from_numpy(numbers((2, 3, *[9, 8, 7][:n]), n)).requires_grad_()
    samples = facula.from_numpy(np.random.default_rng(1).random((2, 3, n)))
    function = getattr(F, f"fractional_max_pool{n}d")
    values, where = function(x, 2, output_size=4, return_indices=True, _random_samples=samples)
    assert values.shape == (2, 3, *[4] * n)
    flat = x.detach().numpy().reshape(6, -1)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, where.numpy().reshape(6, -1), 1).ravel(), values.detach().numpy().ravel()
    )
    (gradient,) = facula.autograd.grad(values.sum(), [x])
    assert float(gradient.sum()) == values.numel()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: facula.max_pool2d(facula.ones(1, 3, 8, 8), 2, padding=2), "max_pool2d.*padding.*half"),
        (lambda: facula.max_pool2d(facula.ones(1, 3, 8, 8), 0), "max_pool2d.*kernel_size"),
        (lambda: facula.max_pool2d(facula.ones(1, 3, 8, 8), 2, stride=0), "max_pool2d.*stride"),
        (lambda: facula.max_pool2d(facula.ones(1, 3, 8, 8), 9), "max_pool2d.*no windows"),
        (lambda: facula.max_pool2d(facula.ones(8, 8), 2), r"max_pool2d.*got shape \(8, 8\)"),
        (lambda: facula.max_pool2d(facula.ones(1, 0, 4, 4), 2), "max_pool2d.*batch"),
        (lambda: F.avg_pool2d(facula.ones(1, 3, 8, 8), 2, divisor_override=0), "avg_pool2d.*divisor_override"),
        (lambda: F.adaptive_avg_pool2d(facula.ones(1, 3, 8, 8), -1), "adaptive_avg_pool2d.*output_size"),
        (
            lambda: F.fractional_max_pool2d(facula.ones(1, 3, 8, 8), 2, output_size=8),
            "fractional_max_pool2d.*too large",
        ),
    ],
)
def test_errors(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_unsupported_dtypes_are_named():
    with pytest.raises(NotImplementedError, match="max_pool2d.*bool"):
        facula.max_pool2d(facula.ones(1, 4, 4, dtype=facula.bool), 2)


def test_empty_batch():
    x = facula.zeros(0, 3, 4, 4, requires_grad=True)
    y = facula.max_pool2d(x, 2)
    assert y.shape == (0, 3, 2, 2)
    (gradient,) = facula.autograd.grad(y.sum(), [x])
    assert gradient.shape == x.shape


def test_the_mean_of_complex_planes():
    x = facula.tensor(np.arange(24).reshape(1, 2, 3, 4) * (1 + 2j), requires_grad=True)
    y = F.adaptive_avg_pool2d(x, 1)
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy().mean((2, 3), keepdims=True))
    y.abs().sum().backward()
    assert x.grad.shape == x.shape
    with pytest.raises(NotImplementedError, match="^adaptive_avg_pool2d.*complex128"):
        F.adaptive_avg_pool2d(x, 2)


# The linear maps that derivatives are made of, which a program can reach too: what they read must be there.
PLANE = (1, 2, 3, 3)
MAPS = {
    "avg_pool_transpose": ([6, 6], [2, 2], [2, 2], [0, 0], False, True, None),
    "adaptive_avg_pool_transpose": ([6, 6],),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [facula.bool, facula.uint8, facula.int64, facula.complex64, facula.complex128])
def test_transposes_of_means_are_of_floats(name, dtype):
    with pytest.raises(NotImplementedError, match=f"avg_pool2d: not implemented for dtype .*{dtype}".replace("torch.", "")):
        getattr(facula._C._ops, name)(facula.ones(PLANE).to(dtype), *MAPS[name])


@pytest.mark.parametrize("size", [[20, 20], [4, 4], [6, 7, 6]])
def test_transpose_of_means_has_one_element_per_window(size):
    n = len(size)
    with pytest.raises(RuntimeError, match=r"avg_pool.d: planes of size .* have windows .*, got a gradient of shape \(1, 2, 3, 3\)"):
        facula._C._ops.avg_pool_transpose(facula.ones(PLANE), size, [2] * n, [2] * n, [0] * n, False, True, None)


@pytest.mark.parametrize("dims", [0, 4, 6])
def test_planes_have_one_to_three_dimensions(dims):
    ops, x, two, none = facula._C._ops, facula.ones((2,) * (dims + 2)), [2] * dims, [0] * dims
    for call in (
        lambda: ops.avg_pool(x, two, two, none, False, True, None),
        lambda: ops.avg_pool_transpose(x, two, two, two, none, False, True, None),
        lambda: ops.max_pool(x, two, two, none, [1] * dims, False),
        lambda: ops.adaptive_avg_pool(x, two),
        lambda: ops.adaptive_avg_pool_transpose(x, two),
        lambda: ops.adaptive_max_pool(x, two),
        lambda: ops.fractional_max_pool(x, two, two, facula.ones(2, 2, dims)),
    ):
        with pytest.raises(RuntimeError, match=f"pool2d: planes have one to three dimensions, got {dims}"):
            call()


@pytest.mark.parametrize("shape, dtype", [((1, 200, 2, 2), facula.int64), ((3000, 2, 2, 2), facula.int64), ((2,), facula.int64),
                                          (PLANE, facula.uint8), (PLANE, facula.float32)])
def test_indices_into_planes_belong_to_the_planes(shape, dtype):
    indices = facula.zeros(shape, dtype=dtype)
    with pytest.raises(RuntimeError, match="max_unpool: int64 indices into the planes of shape"):
        facula._C._ops.gather_planes(facula.ones(1, 2, 4, 4), indices, 2)
    with pytest.raises(RuntimeError, match="max_pool: indices must"):
        facula._C._ops.scatter_planes(facula.ones(PLANE), indices, [4, 4])


# empty inputs and results, layouts of parts


def test_adaptive_pooling_of_nothing():
    for pool, shape, size, expected in [
        (F.adaptive_avg_pool1d, (0, 2), 2, (0, 2)), (F.adaptive_avg_pool2d, (1, 0, 3, 3), 2, (1, 0, 2, 2)),
        (F.adaptive_avg_pool3d, (0, 2, 3, 3, 3), 2, (0, 2, 2, 2, 2)), (F.adaptive_max_pool1d, (0, 2), 2, (0, 2)),
        (F.adaptive_max_pool2d, (0, 3, 3), 2, (0, 2, 2)), (F.adaptive_max_pool2d, (1, 2, 3, 3), (0, 1), (1, 2, 0, 1)),
    ]:  # fmt: skip
        x = facula.ones(shape, requires_grad=True)
        result = pool(x, size)
        assert result.shape == expected
        result.sum().backward()
        assert not x.grad.any()
    for pool in (F.adaptive_max_pool2d, F.max_pool2d):
        with pytest.raises(RuntimeError, match="only the batch size"):
            pool(facula.ones(1, 0, 3, 3), 2)
    with pytest.raises(RuntimeError, match="the batch size and the channels"):
        F.adaptive_avg_pool2d(facula.ones(1, 2, 0, 3), 2)


def test_fractional_pooling_of_nothing():
    assert F.fractional_max_pool2d(facula.ones(1, 2, 3, 3), 2, output_size=(0, 1)).shape == (1, 2, 0, 1)
    assert F.fractional_max_pool2d(facula.ones(0, 3, 3), 2, output_size=1).shape == (0, 1, 1)
    assert F.fractional_max_pool3d(facula.ones(1, 2, 3, 3, 3), 2, output_size=(0, 1, 1)).shape == (1, 2, 0, 1, 1)


def test_a_part_of_a_channels_last_input_gives_a_channels_last_result():
    x = facula.randn(2, 4, 6, 6).contiguous(memory_format=facula.channels_last)
    for part in (x, x[:, ::2], x[:, :, ::2]):
        result = F.adaptive_max_pool2d(part, 2)
        assert result.is_contiguous(memory_format=facula.channels_last)
        assert facula.equal(result, F.adaptive_max_pool2d(part.contiguous(), 2))


def test_power_means_of_infinite_order():
    x = facula.tensor([[[-1.0, -2.0, 3.0, -4.0, 5.0]]])
    assert F.lp_pool1d(x, math.inf, 2).tolist() == [[[2, 4]]]
    assert F.lp_pool1d(x, math.inf, 2, ceil_mode=True).tolist() == [[[2, 4, 5]]]
    assert F.lp_pool1d(x, -math.inf, 2, ceil_mode=True).tolist() == [[[1, 3, 5]]]
    assert F.lp_pool2d(x[..., :4].reshape(1, 1, 2, 2), math.inf, 2).item() == 4


def test_unpooling_is_not_deterministic():
    values, indices = F.max_pool2d(facula.rand(1, 1, 4, 4), 2, return_indices=True)
    facula.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="max_unpool2d: does not have a deterministic"):
            F.max_unpool2d(values, indices, 2)
        facula.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="deterministic"):
            F.max_unpool2d(values, indices, 2)
    finally:
        facula.use_deterministic_algorithms(False)


def test_a_volume_without_channels_has_a_mean():
    x = facula.arange(24.0).view(2, 3, 4)
    assert F.adaptive_avg_pool3d(x, 1).tolist() == [[[11.5]]]
    with pytest.raises(RuntimeError, match="^adaptive_avg_pool3d: input must have 5 dimensions"):
        F.adaptive_avg_pool3d(x, 2)


def tiles(array, rows, columns):
    """The windows of (planes, H, W) side by side as (planes, H // rows, W // columns, rows * columns)."""
    planes, height, width = array.shape
    cut = array[:, : height // rows * rows, : width // columns * columns]
    split = cut.reshape(planes, height // rows, rows, width // columns, columns)
    return split.transpose(0, 1, 3, 2, 4).reshape(planes, height // rows, width // columns, -1)


@pytest.mark.parametrize("kernel", [(2, 2), (1, 2), (3, 1), (4, 4), (2, 5), (1, 700)], ids=str)
@pytest.mark.parametrize("size", [(8, 8), (7, 9), (16, 17), (4, 1500)], ids=str)
def test_windows_side_by_side(kernel, size):
    if kernel[0] > size[0] or kernel[1] > size[1]:
        return
    x = facula.randn(1, 3, *size)
    x[0, 1, 0, 0] = math.nan
    seen = tiles(x[0].numpy(), *kernel)
    for result in (F.max_pool2d(x, kernel), F.max_pool2d(x.double(), kernel).float()):
        assert facula.equal(result.nan_to_num(99), facula.from_numpy(seen.max(-1))[None].nan_to_num(99))
    mean = facula.from_numpy(seen.mean(-1))[None]
    assert facula.testing.assert_close(F.avg_pool2d(x, kernel), mean, equal_nan=True) is None
    divided = F.avg_pool2d(x, kernel, divisor_override=3)
    assert facula.testing.assert_close(divided, mean * (kernel[0] * kernel[1] / 3), equal_nan=True) is None
    if size[0] % kernel[0] == 0 and size[1] % kernel[1] == 0:
        shares = (size[0] // kernel[0], size[1] // kernel[1])
        assert facula.equal(F.adaptive_avg_pool2d(x, shares).nan_to_num(99), F.avg_pool2d(x, kernel).nan_to_num(99))
        values, places = F.adaptive_max_pool2d(x, shares, return_indices=True)
        assert facula.equal(values.nan_to_num(99), F.max_pool2d(x, kernel).nan_to_num(99))
        assert facula.equal(x.flatten(2).gather(2, places.flatten(2)).nan_to_num(99), values.flatten(2).nan_to_num(99))
