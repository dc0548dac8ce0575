"""Interpolation and grid sampling against NumPy formulas and SciPy splines, and their adjoints."""

import math

import numpy as np
import pytest
from scipy import ndimage

import facula
from facula.nn import functional as F


def numbers(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("out", [[9, 10, 11], [3, 2, 5], [5, 6, 7]])
def test_nearest(n, out):
    x = numbers((2, 3, *[5, 6, 7][:n]))
    out = out[:n]
    for mode, shift in (("nearest", 0.0), ("nearest-exact", 0.5)):
        index = np.ix_(
            range(2),
            range(3),
            *[[min(int((o + shift) * s / q), s - 1) for o in range(q)] for s, q in zip(x.shape[2:], out)],
        )
        got = F.interpolate(facula.from_numpy(x), out, mode=mode)
        np.testing.assert_array_equal(got.numpy(), x[index])


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("out", [(9, 11), (3, 4), (5, 6), (1, 8)])
def test_bilinear_is_piecewise_linear(out, align_corners):
    x = numbers((2, 2, 5, 6))
    axes = []
    for s, q in zip(x.shape[2:], out):
        o = np.arange(q)
        at = o * ((s - 1) / (q - 1) if q > 1 else 0) if align_corners else (o + 0.5) * s / q - 0.5
        axes.append(np.clip(at, 0, s - 1))
    grid = np.meshgrid(*axes, indexing="ij")
    expected = np.array([[ndimage.map_coordinates(p, grid, order=1) for p in image] for image in x])
    got = F.interpolate(facula.from_numpy(x), out, mode="bilinear", align_corners=align_corners)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


MODES = [
    ("nearest", 1, {}),
    ("nearest-exact", 2, {}),
    ("linear", 1, {"align_corners": False}),
    ("bilinear", 2, {"align_corners": True}),
    ("trilinear", 3, {"align_corners": False}),
    ("bicubic", 2, {"align_corners": False}),
    ("bilinear", 2, {"antialias": True}),
    ("bicubic", 2, {"antialias": True}),
    ("lanczos", 2, {"antialias": True}),
]


@pytest.mark.parametrize("mode, n, more", MODES)
@pytest.mark.parametrize("out", [(9, 8, 7), (3, 4, 2)])
def test_gradient_is_the_adjoint_and_its_gradient_the_map(mode, n, more, out):
    x = facula.from_numpy(numbers((2, 3, *[5, 6, 4][:n]))).requires_grad_()
    y = F.interpolate(x, out[:n], mode=mode, **more)
    g = facula.from_numpy(numbers(tuple(y.shape), 1)).requires_grad_()
    (gradient,) = facula.autograd.grad(y, [x], g, create_graph=True)
    assert float((gradient * x).sum()) == pytest.approx(float((y * g).sum()), rel=1e-9)
    v = facula.from_numpy(numbers(tuple(x.shape), 2))
    (second,) = facula.autograd.grad((gradient * v).sum(), [g])
    np.testing.assert_allclose(second.numpy(), F.interpolate(v, out[:n], mode=mode, **more).numpy(), atol=1e-12)


@pytest.mark.parametrize("mode, n, more", MODES)
def test_constants_stay_constant(mode, n, more):
    got = F.interpolate(facula.full((1, 2, *[5] * n), 3.0, dtype=facula.float64), scale_factor=1.7, mode=mode, **more)
    assert got.shape == (1, 2, *[8] * n)
    np.testing.assert_allclose(got.numpy(), 3.0, rtol=1e-12)


def test_antialias_of_a_halved_image():
    """Half the size: a triangle of four inputs with weights 1, 3, 3, 1."""
    x = numbers((1, 1, 8, 8))
    got = F.interpolate(facula.from_numpy(x), (8, 4), mode="bilinear", antialias=True)
    inner = x[0, 0, :, 1:5] @ np.array([1, 3, 3, 1]) / 8
    np.testing.assert_allclose(got.numpy()[0, 0, :, 1], inner, atol=1e-12)


@pytest.mark.parametrize(
    "mode, more", [("nearest", {}), ("bilinear", {"align_corners": False}), ("bicubic", {"align_corners": False})]
)
def test_layouts_and_narrow_dtypes(mode, more):
    x = facula.from_numpy(numbers((2, 5, 6, 7), 0, "float32"))
    expected = F.interpolate(x, (9, 5), mode=mode, **more)
    last = F.interpolate(x.contiguous(memory_format=facula.channels_last), (9, 5), mode=mode, **more)
    assert last.is_contiguous(memory_format=facula.channels_last)
    np.testing.assert_allclose(last.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    half = F.interpolate(x.to(facula.bfloat16), (9, 5), mode=mode, **more)
    assert half.dtype == facula.bfloat16
    np.testing.assert_allclose(half.to(facula.float32).numpy(), expected.numpy(), rtol=2e-2, atol=3e-2)
    whole = (x.abs() * 50).to(facula.uint8)
    got = F.interpolate(whole, (9, 5), mode=mode, **more)
    wide = F.interpolate(whole.to(facula.float32), (9, 5), mode=mode, **more).numpy()
    np.testing.assert_array_equal(got.numpy(), np.clip(np.rint(wide), 0, 255))


def test_interpolate_errors():
    with pytest.raises(RuntimeError, match="interpolate.*positive"):
        F.interpolate(facula.ones(1, 1, 4, 4), (0, 2))
    with pytest.raises(NotImplementedError, match="interpolate.*int64"):
        F.interpolate(facula.ones(1, 1, 4, dtype=facula.int64), 2)


def pixels(grid, size, align_corners):
    return (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding, scipy_mode", [("zeros", "constant"), ("border", "nearest")])
@pytest.mark.parametrize("mode, order", [("bilinear", 1), ("nearest", 0)])
def test_grid_sample(n, align_corners, padding, scipy_mode, mode, order):
    x = numbers((2, 3, *[5, 6, 4][:n]))
    grid = np.random.default_rng(3).uniform(-1.3, 1.3, (2, *[4, 3, 5][:n], n))
    where = [pixels(grid[..., n - 1 - d], x.shape[2 + d], align_corners) for d in range(n)]
    if padding == "zeros":  # a rim of zeros makes SciPy's constant mode blend towards zero, too
        x_padded = np.pad(x, [(0, 0), (0, 0)] + [(2, 2)] * n)
        where = [w + 2 for w in where]
    else:
        x_padded = x
    expected = np.array(
        [
            [
                ndimage.map_coordinates(plane, [w[k] for w in where], order=order, mode=scipy_mode)
                for plane in x_padded[k]
            ]
            for k in range(2)
        ]
    )
    got = F.grid_sample(facula.from_numpy(x), facula.from_numpy(grid), mode, padding, align_corners)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("align_corners", [True, False])
def test_reflection_repeats(align_corners):
    """Mirrored positions read the same values."""
    x = facula.from_numpy(numbers((1, 2, 5, 5)))
    grid = facula.from_numpy(np.random.default_rng(0).uniform(-0.9, 0.9, (1, 4, 3, 2)))
    inside = F.grid_sample(x, grid, "bilinear", "reflection", align_corners)
    for mirrored in (2 - grid, -2 - grid, grid + 4):
        np.testing.assert_allclose(
            F.grid_sample(x, mirrored, "bilinear", "reflection", align_corners).numpy(), inside.numpy(), atol=1e-12
        )


@pytest.mark.parametrize(
    "mode, padding, n",
    [
        ("bilinear", "zeros", 2),
        ("bilinear", "border", 2),
        ("bilinear", "reflection", 2),
        ("bicubic", "zeros", 2),
        ("bicubic", "border", 2),
        ("bicubic", "reflection", 2),
        ("nearest", "zeros", 2),
        ("bilinear", "zeros", 3),
        ("bilinear", "reflection", 3),
    ],
)
@pytest.mark.parametrize("align_corners", [True, False])
def test_grid_sample_gradients(mode, padding, n, align_corners):
    x = facula.from_numpy(numbers((1, 2, *[4, 5, 3][:n]))).requires_grad_()
    base = np.random.default_rng(1).uniform(-1.2, 1.2, (1, *[3, 2, 2][:n], n))
    grid = facula.from_numpy(base).requires_grad_()

    def value(t, g):
        y = F.grid_sample(t, g, mode, padding, align_corners)
        return (y * facula.from_numpy(numbers(tuple(y.shape), 4))).sum()

    gx, gg = facula.autograd.grad(value(x, grid), [x, grid])
    assert float((gx * x).sum()) == pytest.approx(float(value(x, grid)), rel=1e-9)
    for at in np.ndindex(*base.shape):
        steps = []
        for step in (1e-6, -1e-6):
            moved = base.copy()
            moved[at] += step
            steps.append(float(value(x, facula.from_numpy(moved))))
        assert float(gg[at]) == pytest.approx((steps[0] - steps[1]) / 2e-6, rel=1e-4, abs=1e-6)


def test_grid_sampler_errors_and_nan():
    x = facula.ones(1, 2, 3, 3)
    with pytest.raises(RuntimeError, match="grid_sampler.*last size"):
        facula.grid_sampler(x, facula.zeros(1, 2, 2, 3), 0, 0, False)
    with pytest.raises(RuntimeError, match="grid_sampler.*batch"):
        facula.grid_sampler(x, facula.zeros(2, 2, 2, 2), 0, 0, False)
    with pytest.raises(RuntimeError, match="grid_sampler.*cubic"):
        facula.grid_sampler(facula.ones(1, 2, 3, 3, 3), facula.zeros(1, 2, 2, 2, 3), 2, 0, False)
    got = facula.grid_sampler(x, facula.full((1, 1, 1, 2), math.nan), 1, 0, False)
    assert got.abs().sum().item() == 0


@pytest.mark.parametrize("memory_format", [facula.contiguous_format, facula.channels_last])
def test_interpolate_holds_its_output_once(memory_format):
    x = facula.ones(1, 16, 64, 64).to(memory_format=memory_format)
    output_bytes = 16 * 256 * 256 * 4
    facula.cpu.empty_cache()  # a larger block that is kept would count as a whole
    facula.cpu.reset_peak_memory_stats()
    before = facula.cpu.memory_allocated()
    made = F.interpolate(x, scale_factor=4, mode="bilinear")
    assert made.is_contiguous(memory_format=memory_format) and made.eq(1).all()
    assert output_bytes <= facula.cpu.max_memory_allocated() - before < 1.6 * output_bytes


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
@pytest.mark.parametrize("lines", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33])
def test_lines_are_interpolated_as_each_alone(lines, dtype):
    x = facula.from_numpy(numbers((1, lines, 37))).to(dtype)
    x[0, lines // 2, 5] = math.nan
    x[0, -1, 30] = math.inf
    for size in (1, 3, 8, 16, 37, 40, 75):
        at = np.clip((np.arange(size) + 0.5) * 37 / size - 0.5, 0, 36)
        made = F.interpolate(x, size=size, mode="linear")
        for c in range(lines):
            expected = np.interp(at, np.arange(37), np.nan_to_num(x[0, c].numpy(), posinf=0))
            got, usual = made[0, c].numpy(), np.isfinite(made[0, c].numpy())
            np.testing.assert_allclose(got[usual], expected[usual], rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(got, F.interpolate(x[:, c : c + 1], size=size, mode="linear")[0, 0].numpy())
            assert usual.all() or c in (lines // 2, lines - 1)


@pytest.mark.parametrize("channels", [1, 3, 16])
@pytest.mark.parametrize("points", [1, 63, 65, 1100])
def test_nearest_elements_of_many_positions(channels, points):
    x = numbers((2, channels, 7, 6)).astype("float32")
    x[:, :, 0, 0] = np.inf  # what outside positions would read
    at = np.random.default_rng(points).uniform(-1.4, 1.4, (2, points, 1, 2)).astype("float32")
    column, row = ((at[..., 0] + 1) * 6 - 1) / 2, ((at[..., 1] + 1) * 7 - 1) / 2
    column, row = np.rint(column).astype(int)[..., 0], np.rint(row).astype(int)[..., 0]
    inside = (column >= 0) & (column < 6) & (row >= 0) & (row < 7)
    n = np.arange(2)[:, None]
    expected = np.where(inside[:, None], x[n, :, row.clip(0, 6), column.clip(0, 5)].transpose(0, 2, 1), 0)
    for layout in (facula.contiguous_format, facula.channels_last):
        given = facula.from_numpy(x).contiguous(memory_format=layout)
        made = F.grid_sample(given, facula.from_numpy(at), "nearest", align_corners=False)
        np.testing.assert_array_equal(made.numpy()[..., 0], expected)


def test_interpolate_to_the_same_size_copies():
    x = facula.arange(24.0).reshape(1, 2, 3, 4)
    for given in (x, x.to(memory_format=facula.channels_last), x.transpose(2, 3).contiguous().transpose(2, 3)):
        for mode in ("nearest", "bilinear"):
            made = F.interpolate(given, size=(3, 4), mode=mode)
            assert made.equal(x) and made.data_ptr() != given.data_ptr()


@pytest.mark.parametrize("channels", [8, 9, 16, 19, 40])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic", "volume"])
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
def test_many_channels_are_sampled_as_each_alone(channels, mode, dtype):
    """Vectors of channels against one channel after the other; places outside read nothing, not even NaN."""
    n = 3 if mode == "volume" else 2
    how = "bilinear" if mode == "volume" else mode
    x = facula.from_numpy(numbers((2, channels, *[5, 6, 4][:n]))).to(dtype)
    x[:, 1].flatten(1)[:, 0] = math.nan  # what outside positions would read
    x[0, 3] = math.inf
    grid = facula.from_numpy(np.random.default_rng(3).uniform(-1.6, 1.6, (2, *[9, 17, 3][:n], n))).to(dtype)
    grid.flatten()[:3] = math.nan
    for padding in ("zeros", "border", "reflection"):
        leaf, place = x.clone().requires_grad_(), grid.clone().requires_grad_()
        y = F.grid_sample(leaf, place, how, padding, False)
        weights = facula.from_numpy(numbers(tuple(y.shape), 4)).to(dtype)
        gx, gg = facula.autograd.grad(y, [leaf, place], weights)
        total = 0
        for c in range(channels):
            one, at = x[:, c : c + 1].clone().requires_grad_(), grid.clone().requires_grad_()
            alone = F.grid_sample(one, at, how, padding, False)
            np.testing.assert_array_equal(y[:, c].isnan().numpy(), alone[:, 0].isnan().numpy())
            np.testing.assert_allclose(y[:, c].detach().numpy(), alone[:, 0].detach().numpy(), rtol=1e-5, atol=1e-5)
            g1, g2 = facula.autograd.grad(alone, [one, at], weights[:, c : c + 1])
            np.testing.assert_allclose(gx[:, c].numpy(), g1[:, 0].numpy(), rtol=1e-4, atol=1e-4)
            total = total + g2
        finite = total.isfinite() & gg.isfinite()
        np.testing.assert_allclose(gg[finite].numpy(), total[finite].numpy(), rtol=1e-3, atol=1e-3)


def test_sampling_does_not_depend_on_threads_nor_layout():
    x, grid = facula.randn(3, 48, 15, 15), facula.rand(3, 20, 20, 2) * 2.4 - 1.2
    before, results = facula.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            facula.set_num_threads(threads)
            for layout in (facula.contiguous_format, facula.channels_last):
                leaf, place = x.contiguous(memory_format=layout).requires_grad_(), grid.clone().requires_grad_()
                y = F.grid_sample(leaf, place, align_corners=True)
                results.append((y, *facula.autograd.grad((y**3).sum(), [leaf, place])))
    finally:
        facula.set_num_threads(before)
    for other in results[1:]:
        assert all(facula.equal(a, b) for a, b in zip(results[0], other))
