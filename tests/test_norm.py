"""Normalizations against their definitions in NumPy, and their derivatives against differences."""

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula.autograd.gradcheck import gradcheck, gradgradcheck

rng = np.random.default_rng(0)


def double(*shape, grad=False):
    return facula.tensor(rng.standard_normal(shape).tolist(), dtype=facula.float64, requires_grad=grad)


def normalized(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def values(t):
    return np.array(t.tolist())


@pytest.mark.parametrize("shape, dims", [((4, 6), 1), ((2, 3, 5), 2), ((3, 1030), 1), ((7,), 1)])
def test_layer_norm(shape, dims):
    inner = shape[-dims:]
    x, w, b = double(*shape), double(*inner), double(*inner)
    want = normalized(values(x), tuple(range(-dims, 0))) * values(w) + values(b)
    np.testing.assert_allclose(values(facula.layer_norm(x, inner, w, b)), want, atol=1e-12)
    result, mean, rstd = facula.native_layer_norm(x, inner, w, b, 1e-5)
    np.testing.assert_allclose(values(result), want, atol=1e-12)
    assert mean.shape == rstd.shape == (*shape[:-dims], *[1] * dims)


def test_layer_norm_of_views_and_nothing():
    x = double(6, 4)
    got = facula.layer_norm(x.transpose(0, 1), [6])
    np.testing.assert_allclose(values(got), normalized(values(x).T, -1), atol=1e-12)
    assert facula.layer_norm(facula.zeros(0, 4), [4]).shape == (0, 4)
    assert np.isnan(values(facula.layer_norm(facula.tensor([[1.0, float("nan")]]), [2]))).all()


@pytest.mark.parametrize("dtype, atol", [(facula.float32, 1e-5), (facula.float16, 4e-3), (facula.bfloat16, 3e-2)])
def test_layer_norm_dtypes(dtype, atol):
    x = double(3, 50)
    result = facula.layer_norm(x.to(dtype), [50])
    assert result.dtype == dtype
    np.testing.assert_allclose(values(result), normalized(values(x), -1), atol=atol)


def test_layer_norm_errors():
    x = facula.zeros(2, 3)
    for shape, weight in (([4], None), ([], None), ([3], facula.zeros(4))):
        with pytest.raises(RuntimeError, match="layer_norm"):
            facula.layer_norm(x, shape, weight)
    with pytest.raises(NotImplementedError, match="int64"):
        facula.layer_norm(facula.ones(2, 3, dtype=facula.int64), [3])


def test_rms_norm():
    x, w = double(4, 6), double(6)
    want = values(x) / np.sqrt((values(x) ** 2).mean(-1, keepdims=True) + 0.1) * values(w)
    np.testing.assert_allclose(values(facula.rms_norm(x, [6], w, 0.1)), want, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(2, 6, 3, 2), (3, 6)])
def test_group_norm(shape, groups):
    x, w, b = double(*shape), double(6), double(6)
    grouped = values(x).reshape(shape[0], groups, -1)
    column = (1, 6, *[1] * (len(shape) - 2))
    want = normalized(grouped, -1).reshape(shape) * values(w).reshape(column) + values(b).reshape(column)
    np.testing.assert_allclose(values(facula.group_norm(x, groups, w, b)), want, atol=1e-12)


def test_group_norm_errors():
    for groups in (4, 0):
        with pytest.raises(RuntimeError, match="group_norm"):
            facula.group_norm(facula.zeros(2, 6), groups)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 7), (2, 3, 40, 30)])
def test_batch_norm(shape):
    x, w, b = double(*shape), double(3), double(3)
    mean, var = facula.zeros(3, dtype=facula.float64), facula.ones(3, dtype=facula.float64)
    axes = tuple(a for a in range(len(shape)) if a != 1)
    column = (1, 3, *[1] * (len(shape) - 2))
    affine = lambda y: y * values(w).reshape(column) + values(b).reshape(column)  # noqa: E731
    got = facula.batch_norm(x, w, b, mean, var, True, 0.1, 1e-5, False)
    np.testing.assert_allclose(values(got), affine(normalized(values(x), axes)), atol=1e-10)
    np.testing.assert_allclose(values(mean), 0.1 * values(x).mean(axes), atol=1e-12)
    np.testing.assert_allclose(values(var), 0.9 + 0.1 * values(x).var(axes, ddof=1), atol=1e-12)
    got = facula.batch_norm(x, w, b, mean, var, False, 0.1, 1e-5, False)
    want = (values(x) - values(mean).reshape(column)) / np.sqrt(values(var).reshape(column) + 1e-5)
    np.testing.assert_allclose(values(got), affine(want), atol=1e-10)


def test_batch_norm_needs_statistics():
    with pytest.raises(RuntimeError, match="batch_norm: expected running_mean"):
        facula.batch_norm(facula.zeros(2, 3), None, None, None, None, False, 0.1, 1e-5, False)


def test_instance_norm():
    x, w, b = double(2, 3, 5), double(3), double(3)
    mean, var = facula.zeros(3, dtype=facula.float64), facula.ones(3, dtype=facula.float64)
    want = normalized(values(x), -1) * values(w)[:, None] + values(b)[:, None]
    for m, v in ((None, None), (mean, var)):
        got = facula.instance_norm(x, w, b, m, v, True, 0.1, 1e-5, False)
        np.testing.assert_allclose(values(got), want, atol=1e-12)
    np.testing.assert_allclose(values(mean), 0.1 * values(x).mean((0, 2)), atol=1e-12)
    np.testing.assert_allclose(values(var), 0.9 + 0.1 * values(x).var(2, ddof=1).mean(0), atol=1e-12)


NORMS = {
    "layer": lambda x, w, b: facula.layer_norm(x, [4], w, b),
    "rms": lambda x, w, b: facula.rms_norm(x, [4], w) + b,
    "group": lambda x, w, b: facula.group_norm(x.transpose(0, 1), 2, w, b),
    "batch": lambda x, w, b: facula.batch_norm(x.transpose(0, 1), w, b, None, None, True, 0.1, 1e-5, False),
    "instance": lambda x, w, b: facula.instance_norm(
        x.reshape(3, 2, 4).transpose(1, 2), w, b, None, None, True, 0.1, 1e-5, False
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_derivatives(name):
    x = double(4, 6, grad=True) if name in ("group", "batch") else double(6, 4, grad=True)
    inputs = (x, double(4, grad=True), double(4, grad=True))
    assert gradcheck(NORMS[name], inputs)
    assert gradgradcheck(NORMS[name], inputs)


def test_results_do_not_depend_on_threads():
    x = facula.randn(64, 3000)
    before = facula.get_num_threads()
    results = []
    for threads in (1, 2):
        facula.set_num_threads(threads)
        leaf, w = x.clone().requires_grad_(), facula.ones(3000, requires_grad=True)
        (facula.layer_norm(leaf, [3000], w) ** 3).sum().backward()
        results.append((leaf.grad.tolist(), w.grad.tolist()))
    facula.set_num_threads(before)
    assert results[0] == results[1]


LOW, WEIGHTS = facula.ones(2, 4, 3, dtype=facula.bfloat16), {d: facula.ones(4, dtype=d) for d in (facula.bfloat16, facula.float32)}


@pytest.mark.parametrize(
    "norm",
    [
        lambda x, w, b: F.layer_norm(x.transpose(1, 2), [4], w, b),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda x, w, b: F.instance_norm(x, None, None, w, b),
        lambda x, w, b: F.batch_norm(x, w, w, w, b),
    ],
    ids=["layer", "group", "instance", "batch"],
)
def test_parameters_have_the_inputs_dtype_or_float32(norm):
    low, full = WEIGHTS.values()
    assert norm(LOW, low, low).dtype is norm(LOW, full, full).dtype is facula.bfloat16
    for x, w, b in ((LOW, low, full), (LOW, full.double(), full.double()), (LOW.double(), full, full)):
        with pytest.raises(RuntimeError, match="_norm: expected weights and statistics of one dtype.*got"):
            norm(x, w, b)


def gradients_of_rows(x, g, w, eps=1e-5):
    """Of (x - mean) / deviation * w over the last axis: for x, and for w and b without their sum over rows."""
    n = x.shape[-1]
    deviation = np.sqrt(x.var(-1, keepdims=True) + eps)
    hat = (x - x.mean(-1, keepdims=True)) / deviation
    gw = g * w
    gx = (gw - gw.mean(-1, keepdims=True) - hat * (gw * hat).sum(-1, keepdims=True) / n) / deviation
    return gx, g * hat, g


SUBSETS = [(True, True, True), (True, False, False), (False, True, False), (False, False, True), (True, False, True)]


def check_gradients(norm, arrays, expected, dtype, atol):
    """The gradients of every subset of (x, weight, bias): one kernel makes them all."""
    for wanted in SUBSETS:
        leaves = [facula.from_numpy(a).to(dtype).requires_grad_(w) for a, w in zip(arrays[:3], wanted)]
        out = norm(*leaves)
        found = facula.autograd.grad(out, [t for t, w in zip(leaves, wanted) if w], facula.from_numpy(arrays[3]).to(dtype))
        for got, want in zip(found, (e for e, w in zip(expected, wanted) if w)):
            assert got.dtype is dtype and got.shape == want.shape
            np.testing.assert_allclose(got.double().numpy(), want, rtol=atol * 10, atol=atol * max(1, np.abs(want).max()))


@pytest.mark.parametrize("dtype, atol", [(facula.float64, 1e-12), (facula.float32, 1e-5), (facula.bfloat16, 4e-2)])
@pytest.mark.parametrize("rows, width", [(1, 1), (3, 7), (5, 33), (9, 515), (300, 129), (2, 4099)])
def test_gradients_of_layer_norm(rows, width, dtype, atol):
    r = np.random.default_rng(width)
    x, g = r.standard_normal((2, rows, width)).round(2)
    w, b = r.standard_normal((2, width)).round(2)
    if dtype is facula.bfloat16:  # what the arrays become there
        x, g, w, b = (facula.from_numpy(a).to(dtype).double().numpy() for a in (x, g, w, b))
    gx, gw, gb = gradients_of_rows(x, g, w)
    check_gradients(lambda *t: F.layer_norm(t[0], (width,), t[1], t[2]), (x, w, b, g), (gx, gw.sum(0), gb.sum(0)), dtype, atol)


@pytest.mark.parametrize("dtype, atol", [(facula.float64, 1e-12), (facula.float32, 1e-5)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape, groups", [((2, 6, 1), 3), ((3, 4, 5, 7), 2), ((2, 8, 33), 1), ((5, 6, 20, 31), 6), ((2, 36, 70, 61), 4)])
def test_gradients_of_group_norm(shape, groups, last, dtype, atol):
    if last and len(shape) != 4:
        pytest.skip("only images can lie channels-last")
    r = np.random.default_rng(groups)
    n, c = shape[:2]
    x, g = r.standard_normal((2, *shape))
    w, b = r.standard_normal((2, c))
    along = (n, groups, -1)
    spread = np.broadcast_to(w.reshape(1, c, *[1] * (len(shape) - 2)), shape)
    gx, gw, gb = (a.reshape(shape) for a in gradients_of_rows(x.reshape(along), g.reshape(along), spread.reshape(along)))
    over = (0, *range(2, len(shape)))
    order = facula.channels_last if last else facula.contiguous_format
    norm = lambda x, w, b: F.group_norm(x.contiguous(memory_format=order), groups, w, b)  # noqa: E731
    check_gradients(norm, (x, w, b, g), (gx, gw.sum(over), gb.sum(over)), dtype, atol * max(1, x[0, 0].size / 500))


@pytest.mark.parametrize("dtype, atol", [(facula.float64, 1e-12), (facula.float32, 1e-5), (facula.float16, 4e-3), (facula.bfloat16, 4e-2)])
@pytest.mark.parametrize("shape, groups", [((1, 8, 5, 7), 2), ((3, 33, 9, 1), 3), ((2, 6, 1, 1), 2), ((7, 10, 40, 60), 10), ((1, 32, 90, 91), 1)])
@pytest.mark.parametrize("affine", [False, True])
def test_group_norm_of_channels_last_images(shape, groups, affine, dtype, atol):
    facula.manual_seed(0)
    x = (facula.randn(shape, dtype=facula.float64) * 2 + 3).to(dtype)
    parameters = [facula.randn(shape[1], dtype=facula.float64).to(dtype) if affine else None for _ in range(2)]
    last = x.contiguous(memory_format=facula.channels_last)
    result = F.group_norm(last, groups, *parameters)
    assert result.is_contiguous(memory_format=facula.channels_last) and result.dtype == dtype
    wide = F.group_norm(x.double(), groups, *(p if p is None else p.double() for p in parameters))
    np.testing.assert_allclose(values(result), values(wide), atol=atol, rtol=atol)
    counts = (*shape[:2], shape[2] * shape[3], groups, 1e-5)
    for ours, plain in zip(*(facula.native_group_norm(t, None, None, *counts)[1:] for t in (last, x))):
        np.testing.assert_allclose(values(ours), values(plain), rtol=1e-5, atol=1e-6)


def test_group_norm_of_channels_last_images_without_numbers():
    x = facula.randn(2, 6, 4, 4).contiguous(memory_format=facula.channels_last)
    x[1, 2, 3, 3] = float("nan")
    nans = F.group_norm(x, 3).isnan()
    assert nans[1, 2:4].all() and nans.sum() == 32
    x[1, 2, 3, 3] = float("inf")
    assert F.group_norm(x, 3).isnan()[1, 2:4].all() and not F.group_norm(x, 3)[0].isnan().any()
    for empty in ((0, 6, 4, 4), (2, 6, 0, 4), (2, 6, 4, 0)):
        t = facula.zeros(empty).contiguous(memory_format=facula.channels_last)
        assert F.group_norm(t, 3, facula.ones(6), facula.ones(6)).shape == empty


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", ["plain", "last", "matrix"])
@pytest.mark.parametrize("dtype, atol", [(facula.float64, 1e-12), (facula.float32, 1e-5)])
def test_gradients_of_batch_norm(training, layout, dtype, atol):
    r = np.random.default_rng(3)
    shape = (1201, 9) if layout == "matrix" else (3, 17, 11, 13)
    c, over = shape[1], (0, *range(2, len(shape)))
    x, g = r.standard_normal((2, *shape))
    w, b, mean = r.standard_normal((3, c))
    var = r.random(c) + 0.5
    channels = [1, c, *[1] * (len(shape) - 2)]

    def norm(x, w, b):
        if layout == "last":
            x = x.contiguous(memory_format=facula.channels_last)
        running = (facula.from_numpy(a.copy()).to(x.dtype) for a in (mean, var))
        return F.batch_norm(x, *running, w, b, training)

    if training:
        front = np.moveaxis(x, 1, 0).reshape(c, -1), np.moveaxis(g, 1, 0).reshape(c, -1)
        moved = np.moveaxis(np.empty(shape), 1, 0).shape
        gx, gw, gb = (np.moveaxis(a.reshape(moved), 0, 1) for a in gradients_of_rows(*front, w[:, None]))
    else:
        rstd = 1 / np.sqrt(var + 1e-5).reshape(channels)
        gx, gw, gb = g * w.reshape(channels) * rstd, g * (x - mean.reshape(channels)) * rstd, g
    check_gradients(norm, (x, w, b, g), (gx, gw.sum(over), gb.sum(over)), dtype, atol)


def test_the_gradient_outside_of_training_does_not_read_the_input():
    x = facula.tensor([[float("inf"), 1.0], [2.0, float("nan")]], requires_grad=True)
    out = F.batch_norm(x, facula.zeros(2), facula.ones(2), eps=0.0)
    assert facula.autograd.grad(out, x, facula.ones(2, 2))[0].tolist() == [[1, 1], [1, 1]]


def test_gradients_do_not_depend_on_threads():
    x, images = facula.randn(700, 200), facula.randn(4, 24, 40, 41)
    last = images.contiguous(memory_format=facula.channels_last)
    calls = {
        "layer": (x, 200, lambda x, w, b: F.layer_norm(x, (200,), w, b)),
        "group": (images, 24, lambda x, w, b: F.group_norm(x, 4, w, b)),
        "batch": (images, 24, lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
        "groups, last": (last, 24, lambda x, w, b: F.group_norm(x, 4, w, b)),
        "last": (last, 24, lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
        "matrix": (facula.randn(4000, 64), 64, lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
    }
    before = facula.get_num_threads()
    try:
        for name, (x, width, norm) in calls.items():
            results = []
            for threads in (1, 2, 5):
                facula.set_num_threads(threads)
                leaves = [t.clone().requires_grad_() for t in (x, facula.ones(width), facula.zeros(width))]
                results.append(facula.autograd.grad((norm(*leaves) ** 3).sum(), leaves))
            for other in results[1:]:
                assert all(facula.equal(a, b) for a, b in zip(results[0], other)), name
    finally:
        facula.set_num_threads(before)


@pytest.mark.parametrize("channels, side, channels_last", [(24, 120, True), (7, 200, True), (1030, 20, True), (3, 700, False), (520, 30, False)])
def test_batch_norm_of_images_larger_than_caches(channels, side, channels_last):
    """In float32 against float64, forwards and backwards: large results are written around the caches."""
    count = -(-(18 << 20) // (4 * channels * side * side))
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((count, channels, side, side)) * 3 + 5).astype(np.float32)
    g = rng.standard_normal(x.shape).astype(np.float32)
    t = facula.from_numpy(x)
    t = (t.contiguous(memory_format=facula.channels_last) if channels_last else t).requires_grad_()
    y = facula.nn.functional.batch_norm(t, None, None, training=True)
    y.backward(facula.from_numpy(g))
    axes, x, g = (0, 2, 3), x.astype(np.float64), g.astype(np.float64)
    rstd = 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    normal = (x - x.mean(axes, keepdims=True)) * rstd
    assert np.abs(y.detach().numpy() - normal).max() < 2e-5
    dx = rstd * (g - g.mean(axes, keepdims=True) - normal * (g * normal).mean(axes, keepdims=True))
    assert np.abs(t.grad.numpy() - dx).max() < 2e-5


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 7, 8, 9, 31, 33, 35, 38, 131])
@pytest.mark.parametrize("channels", [1, 5, 16, 37])
def test_batch_norm_of_some_rows(rows, channels):
    """Rows go into sums a few at a time: none is left out, whatever their number."""
    rng = np.random.default_rng(rows)
    x, g = (rng.standard_normal((rows, channels)).astype(np.float32) for _ in range(2))
    x[:, 0] += 3
    results = []
    for dtype in (facula.float64, facula.float32):
        t = facula.from_numpy(x).to(dtype).requires_grad_()
        weight = facula.full((channels,), 2.0, dtype=dtype, requires_grad=True)
        mean, var = facula.zeros(channels, dtype=dtype), facula.ones(channels, dtype=dtype)
        y = F.batch_norm(t, mean, var, weight, training=True, momentum=1.0)
        y.backward(facula.from_numpy(g).to(dtype))
        results.append([a.detach().double().numpy() for a in (y, mean, var, t.grad, weight.grad)])
    exact = x.astype(np.float64)
    np.testing.assert_allclose(results[0][1], exact.mean(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(results[0][2], exact.var(0, ddof=1), rtol=1e-9)
    for wide, narrow in zip(*results):
        np.testing.assert_allclose(narrow, wide, rtol=1e-4, atol=2e-5 * max(1, np.abs(wide).max()))


def test_moments_of_channels_whose_mean_is_far_from_their_first_rows():
    x = np.zeros((40, 3, 30, 30), np.float32)
    x[20:] = 1000 + np.random.default_rng(0).standard_normal(x[20:].shape)
    t = facula.from_numpy(x).contiguous(memory_format=facula.channels_last)
    facula.nn.functional.batch_norm(t, mean := facula.zeros(3), var := facula.ones(3), training=True, momentum=1.0)
    assert np.allclose(mean.numpy(), x.astype(np.float64).mean((0, 2, 3)), rtol=1e-6)
    assert np.allclose(var.numpy(), x.astype(np.float64).var((0, 2, 3), ddof=1), rtol=1e-5)


def test_batch_norm_of_no_channels_ends_at_once():
    x = facula.zeros(1, 0).expand(2**62, 0)
    assert F.batch_norm(x, None, None, training=True).shape == x.shape
    y = facula.zeros(4, 0, 3, 3, requires_grad=True)
    F.batch_norm(y, None, None, training=True).sum().backward()
    assert y.grad.shape == y.shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_rms_norm_adds_the_epsilon_of_float32_to_narrow_inputs(dtype):
    x = facula.full((1, 4), 0.05, dtype=getattr(facula, dtype))
    np.testing.assert_allclose(F.rms_norm(x, (4,)).float().numpy(), 1.0, atol=1e-4)


def test_parameter_gradients_of_many_rows_are_sums_in_double():
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 4096, 8)).astype(np.float32)
    for norm in (lambda t, w: F.layer_norm(t, (8,), w), lambda t, w: F.batch_norm(t, None, None, w, training=True)):
        grads = []
        for dtype in (facula.float32, facula.float64):
            w = facula.ones(8, dtype=dtype, requires_grad=True)
            norm(facula.from_numpy(x).to(dtype), w).backward(facula.from_numpy(g).to(dtype))
            grads.append(w.grad.double().numpy())
        assert np.sqrt(np.mean((grads[0] - grads[1]) ** 2) / np.mean(grads[1] ** 2)) < 2e-7


@pytest.mark.skipif(facula.backends.cpu.get_cpu_capability() == "DEFAULT", reason="needs products that are fused")
@pytest.mark.parametrize("training", [True, False])
def test_factors_of_batch_norm_are_rounded_once(training):
    x = np.random.default_rng(0).standard_normal((16, 64, 14, 14)).astype(np.float32)
    mean, var = x.astype(np.float64).mean((0, 2, 3)), x.astype(np.float64).var((0, 2, 3))
    running = [facula.tensor(t, dtype=facula.float32) for t in (mean, var)]
    got = F.batch_norm(facula.from_numpy(x), *running, training=training).double().numpy()
    if not training:
        mean, var = (t.double().numpy() for t in running)
    exact = (x - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5)
    unit = 2.0**-24  # half a unit in the last place; elements alone have 0.6 of it
    assert np.sqrt(((got - exact) ** 2).mean() / (exact**2).mean()) < 0.77 * unit
