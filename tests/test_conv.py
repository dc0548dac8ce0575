"""Convolutions against a direct sum in NumPy, their gradients as adjoint maps, layouts and errors."""

import itertools

import numpy as np
import pytest
from scipy import signal

import facula

CONV = {1: facula.conv1d, 2: facula.conv2d, 3: facula.conv3d}
TRANSPOSED = {1: facula.conv_transpose1d, 2: facula.conv_transpose2d, 3: facula.conv_transpose3d}


def direct(x, w, b, stride, padding, dilation, groups):
    """The definition: one dot product per output element, in float64."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    kernel = w.shape[2:]
    out = [(x.shape[2 + d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(n)]
    y = np.zeros((x.shape[0], w.shape[0], *out), dtype=np.result_type(x, w))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        first = o // per_out * per_in
        for at in itertools.product(*map(range, out)):
            window = tuple(
                slice(at[d] * stride[d], at[d] * stride[d] + dilation[d] * (kernel[d] - 1) + 1, dilation[d]) for d in range(n)
            )
            part = x[(slice(None), slice(first, first + per_in), *window)]
            y[(slice(None), o, *at)] = (part * w[o]).reshape(x.shape[0], -1).sum(1)
    return y if b is None else y + b.reshape(-1, *[1] * n)


CASES = [
    # x, w, stride, padding, dilation, groups
    ((2, 3, 9), (4, 3, 3), (1,), (0,), (1,), 1),
    ((2, 4, 10), (6, 2, 3), (2,), (2,), (2,), 2),
    ((2, 3, 8, 7), (5, 3, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    ((2, 4, 9, 8), (8, 1, 3, 3), (2, 1), (1, 1), (1, 2), 4),
    ((1, 16, 6, 6), (32, 16, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((3, 32, 7, 5), (32, 1, 3, 3), (1, 2), (1, 1), (1, 1), 32),
    ((1, 2, 5, 6, 4), (3, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1), (2, 1, 1), 1),
]


def numbers(shape, seed, dtype=np.float64):
    values = np.random.default_rng(seed).standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * np.random.default_rng(seed + 99).standard_normal(shape)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("x, w, stride, padding, dilation, groups", CASES)
def test_forward_is_the_direct_sum(x, w, stride, padding, dilation, groups, dtype):
    x, w, b = numbers(x, 1, dtype), numbers(w, 2, dtype), numbers(w[:1], 3, dtype)
    expected = direct(x, w, b, stride, padding, dilation, groups)
    conv = CONV[x.ndim - 2]
    got = conv(*map(facula.from_numpy, (x, w, b)), stride, padding, dilation, groups)
    assert got.dtype == facula.from_numpy(x).dtype
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-10 if dtype == "float64" else 2e-4)


SMALL = [
    # x, w, padding, groups: one line of a padded image is shorter, as long and longer than vectors
    ((1, 1, 1, 1), (1, 1, 1, 1), (0, 0), 1),
    ((2, 3, 5, 1), (7, 3, 2, 1), (0, 0), 1),
    ((3, 2, 4, 6), (5, 2, 3, 3), (1, 1), 1),
    ((2, 8, 6, 6), (8, 8, 1, 1), (0, 0), 1),
    ((1, 3, 9, 16), (4, 3, 3, 3), (0, 2), 1),
    ((2, 6, 7, 17), (9, 2, 2, 4), (1, 3), 3),
    ((1, 1, 28, 28), (8, 1, 5, 5), (2, 2), 1),
    ((1, 4, 3, 50), (4, 1, 3, 5), (2, 4), 4),
    ((2, 8, 16), (6, 8, 3), (1,), 1),
    ((3, 4, 33), (8, 1, 5), (0,), 4),
]


# Many channels of channels-last images: windows in tiles (of all weights, of blocks of large ones, of a block of columns
# that is not whole), products of pixels with weights too heavy to be put in order, and windows that step over pixels.
LARGE = [
    # x, outputs, window, stride, padding
    ((3, 64, 29, 23), 48, 3, 1, 1),
    ((2, 208, 17, 9), 176, 3, 1, 1),
    ((4, 256, 14, 14), 272, 3, 1, 0),
    ((2, 96, 20, 12), 64, 5, 1, 2),
    ((2, 1024, 9, 9), 1040, 1, 1, 0),
    ((2, 1024, 9, 9), 1040, 1, 2, 0),
    ((3, 64, 30, 27), 96, 3, 2, 1),
]


def images_and_gradients(x, w, g, stride, padding):
    """The result and both gradients, twice: weights that are seen again are kept in order."""
    x, w = x.clone(memory_format=facula.channels_last).requires_grad_(), w.clone().requires_grad_()
    found = []
    for _ in range(2):
        y = facula.conv2d(x, w, None, stride, padding)
        found.append([y, *facula.autograd.grad(y, [x, w], g)])
    assert all(facula.equal(a, b) for a, b in zip(*found, strict=True))
    return found[0]


@pytest.mark.parametrize("x, outputs, window, stride, padding", LARGE)
def test_many_channels(x, outputs, window, stride, padding):
    x, w = facula.from_numpy(numbers(x, 1)), facula.from_numpy(numbers((outputs, x[1], window, window), 2))
    g = facula.from_numpy(numbers(tuple(facula.conv2d(x, w, None, stride, padding).shape), 3))
    wanted = images_and_gradients(x, w, g, stride, padding)
    x, w, g = x.float(), w.float(), g.float().contiguous(memory_format=facula.channels_last)
    threads = facula.get_num_threads()
    try:
        facula.set_num_threads(1)
        alone = images_and_gradients(x, w, g, stride, padding)
        facula.set_num_threads(2)
        together = images_and_gradients(x, w, g, stride, padding)
    finally:
        facula.set_num_threads(threads)
    for one, two, exact in zip(alone, together, wanted, strict=True):
        assert facula.equal(one, two)
        scale = float(exact.square().mean().sqrt())
        # windows of 5x5 are computed in tiles of seven points, which are 2.7 times less exact than those of six
        assert float((one - exact).abs().max()) < (4e-5 if window == 5 else 2e-5) * scale


@pytest.mark.parametrize("back", [False, True], ids=["images", "gradients"])
@pytest.mark.parametrize("x, w, padding, groups", SMALL)
def test_small_images(x, w, padding, groups, back):
    """Against float64, forwards and as the map of the images' gradients."""
    n = len(x) - 2
    op = (TRANSPOSED if back else CONV)[n]
    if back:
        x = (x[0], w[0], *x[2:])
    channels = w[1] * groups if back else w[0]
    x, w, b = (numbers(shape, i, "float32") for i, shape in enumerate((x, w, (channels,))))
    for bias in (None, b):
        wide = [None if t is None else facula.from_numpy(t.astype("float64")) for t in (x, w, bias)]
        narrow = [None if t is None else facula.from_numpy(t) for t in (x, w, bias)]
        expected = op(*wide, padding=padding, groups=groups)
        got = op(*narrow, padding=padding, groups=groups)
        assert got.dtype == facula.float32 and got.shape == expected.shape and got.is_contiguous()
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("x, w, stride, padding, dilation, groups", CASES)
def test_gradients_are_the_adjoint_maps(x, w, stride, padding, dilation, groups, dtype):
    """<y', conv(x, w)> is bilinear: its gradients, dotted with x and w, both give it back."""
    x = facula.from_numpy(numbers(x, 1, dtype)).requires_grad_()
    w = facula.from_numpy(numbers(w, 2, dtype)).requires_grad_()
    b = facula.from_numpy(numbers((w.shape[0],), 3, dtype)).requires_grad_()
    y = CONV[x.dim() - 2](x, w, None, stride, padding, dilation, groups)
    weights = facula.from_numpy(numbers(tuple(y.shape), 4, dtype))
    value = (y * weights).sum()
    gx, gw = facula.autograd.grad(value, [x, w])
    tolerance = 1e-3 if dtype == "float32" else 1e-9
    assert float((gx * x).sum()) == pytest.approx(float(value), rel=tolerance, abs=tolerance)
    assert float((gw * w).sum()) == pytest.approx(float(value), rel=tolerance, abs=tolerance)
    moved = CONV[x.dim() - 2](x, w, b, stride, padding, dilation, groups)
    (gb,) = facula.autograd.grad((moved * weights).sum(), [b])
    axes = (0, *range(2, x.dim()))
    np.testing.assert_allclose(gb.numpy(), weights.numpy().sum(axes), rtol=1e-4)


def test_second_derivatives_match_differences():
    x = facula.from_numpy(numbers((1, 2, 5, 4), 1)).requires_grad_()
    w = facula.from_numpy(numbers((3, 2, 3, 2), 2)).requires_grad_()
    v = facula.from_numpy(numbers((1, 2, 5, 4), 5))

    def slope(weight):
        y = facula.conv2d(x, weight, stride=2, padding=1).tanh().sum()
        (g,) = facula.autograd.grad(y, [x], create_graph=True)
        return (g * v).sum()

    (second,) = facula.autograd.grad(slope(w), [w])
    base = w.detach().numpy().copy()
    for at in [(0, 0, 0, 0), (1, 1, 2, 1), (2, 0, 1, 0)]:
        values = []
        for step in (1e-5, -1e-5):
            moved = base.copy()
            moved[at] += step
            values.append(float(slope(facula.from_numpy(moved).requires_grad_())))
        assert float(second[at]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "n, stride, padding, output_padding, dilation, groups",
    [
        (1, 2, 1, 1, 1, 1),
        (2, 1, 0, 0, 1, 1),
        (2, 2, 1, 1, 2, 2),
        (2, 3, 0, 2, 1, 4),
        (2, 1, 2, 1, 2, 1),
        (3, 2, 1, 0, 1, 2),
    ],
)
def test_transposed_is_the_adjoint(n, stride, padding, output_padding, dilation, groups, dtype):
    """<conv_transpose(y), x> == <y, conv(x)> for every x, with sizes as documented."""
    y = facula.from_numpy(numbers((2, 4, *[5, 4, 3][:n]), 1, dtype))
    w = facula.from_numpy(numbers((4, 8 // groups, *[3, 2, 3][:n]), 2, dtype))
    image = TRANSPOSED[n](y, w, None, stride, padding, output_padding, groups, dilation)
    sizes = [
        (y.shape[2 + d] - 1) * stride - 2 * padding + dilation * (w.shape[2 + d] - 1) + output_padding + 1 for d in range(n)
    ]
    assert list(image.shape) == [2, 8, *sizes]
    x = facula.from_numpy(numbers(tuple(image.shape), 3, dtype))
    back = CONV[n](x, w, None, stride, padding, dilation, groups)
    back = back[(slice(None), slice(None), *[slice(0, s) for s in y.shape[2:]])]
    left, right = float((image * x).sum()), float((back * y).sum())
    assert left == pytest.approx(right, rel=1e-3 if dtype == "float32" else 1e-9, abs=1e-3)
    leaf, weight = y.clone().requires_grad_(), w.clone().requires_grad_()
    result = TRANSPOSED[n](leaf, weight, None, stride, padding, output_padding, groups, dilation)
    gy, gw = facula.autograd.grad((result * x).sum(), [leaf, weight])
    for given, gradient in ((y, gy), (w, gw)):
        assert float((given * gradient).sum()) == pytest.approx(left, rel=1e-3 if dtype == "float32" else 1e-9, abs=1e-3)
    b = facula.from_numpy(numbers((8,), 4, dtype))
    moved = TRANSPOSED[n](y, w, b, stride, padding, output_padding, groups, dilation)
    np.testing.assert_allclose(moved.numpy(), image.numpy() + b.numpy().reshape(-1, *[1] * n), rtol=1e-4, atol=1e-4)


def test_scipy_agrees():
    x, w = numbers((12, 11), 1), numbers((4, 3), 2)
    got = facula.conv2d(facula.from_numpy(x[None, None]), facula.from_numpy(w[None, None]))
    np.testing.assert_allclose(got.numpy()[0, 0], signal.correlate2d(x, w, mode="valid"), atol=1e-12)


@pytest.mark.parametrize("kernel, dilation", [(3, 1), (2, 1), (4, 1), (2, 3), (1, 1)])
def test_same_padding_keeps_the_size(kernel, dilation):
    """An uneven total of padding puts the larger part behind."""
    x, w = numbers((1, 2, 7, 6), 1), numbers((3, 2, kernel, kernel), 2)
    total = dilation * (kernel - 1)
    padded = np.pad(x, [(0, 0), (0, 0)] + [(total // 2, total - total // 2)] * 2)
    expected = direct(padded, w, None, (1, 1), (0, 0), (dilation, dilation), 1)
    got = facula.conv2d(facula.from_numpy(x), facula.from_numpy(w), padding="same", dilation=dilation)
    assert got.shape == (1, 3, 7, 6) and got.is_contiguous()
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


def test_unbatched_input_and_integers():
    x = facula.arange(2 * 5 * 5).reshape(2, 5, 5)
    w = facula.ones(3, 2, 2, 2, dtype=facula.int64)
    got = facula.conv2d(x, w)
    assert got.shape == (3, 4, 4) and got.dtype == facula.int64
    np.testing.assert_array_equal(got.numpy(), direct(x.numpy()[None], w.numpy(), None, (1, 1), (0, 0), (1, 1), 1)[0])


@pytest.mark.parametrize("dtype", [facula.bfloat16, facula.float16])
def test_narrow_floats_add_up_wide(dtype):
    x = facula.from_numpy(numbers((2, 16, 6, 6), 1, "float32")).to(dtype)
    w = facula.from_numpy(numbers((8, 16, 3, 3), 2, "float32")).to(dtype)
    got = facula.conv2d(x, w, padding=1)
    expected = facula.conv2d(x.to(facula.float32), w.to(facula.float32), padding=1)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.to(facula.float32).numpy(), expected.numpy(), rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
@pytest.mark.parametrize("groups, stride", [(16, 1), (16, 2), (4, (1, 2)), (1, 2)])
def test_gradients_of_narrow_images(groups, stride, dtype):
    """Also where they are computed in float32: they are rounded once."""
    numpy_of = [numbers((2, 16, 9, 8), 1, "float32"), numbers((16, 16 // groups, 3, 3), 2, "float32")]
    for layout in (facula.contiguous_format, facula.channels_last):
        x, w = (facula.from_numpy(t).to(dtype) for t in numpy_of)
        wide = x.float().requires_grad_()
        narrow = x.contiguous(memory_format=layout).requires_grad_()
        y, expected = (facula.conv2d(t, w.to(t.dtype), None, stride, 1, 1, groups) for t in (narrow, wide))
        upstream = facula.from_numpy(numbers(tuple(y.shape), 3, "float32")).to(dtype)
        y.backward(upstream)
        expected.backward(upstream.float())
        assert narrow.grad.dtype == dtype
        unit = facula.finfo(dtype).eps
        np.testing.assert_allclose(narrow.grad.float().numpy(), wide.grad.numpy(), rtol=2 * unit, atol=16 * unit)


@pytest.mark.parametrize("groups", [1, 16])
def test_channels_last_in_channels_last_out(groups):
    x = facula.from_numpy(numbers((2, 16, 6, 5), 1, "float32"))
    w = facula.from_numpy(numbers((16, 16 // groups, 3, 3), 2, "float32"))
    expected = facula.conv2d(x, w, padding=1, groups=groups)
    last = x.contiguous(memory_format=facula.channels_last).requires_grad_()
    got = facula.conv2d(last, w, padding=1, groups=groups)
    assert expected.is_contiguous() and got.is_contiguous(memory_format=facula.channels_last)
    np.testing.assert_allclose(got.detach().numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
    (g,) = facula.autograd.grad((got * got).sum(), [last])
    plain = x.clone().requires_grad_()
    y = facula.conv2d(plain, w, padding=1, groups=groups)
    (h,) = facula.autograd.grad((y * y).sum(), [plain])
    np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-3, atol=1e-3)


def test_strided_views_and_empty_batches():
    x, w = numbers((2, 3, 12, 10), 1), numbers((4, 3, 3, 3), 2)
    view = facula.from_numpy(x)[:, :, ::2].transpose(2, 3)
    got = facula.conv2d(view, facula.from_numpy(w))
    np.testing.assert_allclose(got.numpy(), direct(x[:, :, ::2].swapaxes(2, 3), w, None, (1, 1), (0, 0), (1, 1), 1), atol=1e-12)
    empty = facula.zeros(0, 3, 8, 8, requires_grad=True)
    weight = facula.ones(4, 3, 3, 3, requires_grad=True)
    y = facula.conv2d(empty, weight)
    assert y.shape == (0, 4, 6, 6)
    gx, gw = facula.autograd.grad(y.sum(), [empty, weight])
    assert gx.shape == empty.shape and float(gw.abs().sum()) == 0


def test_no_channels_leave_the_bias():
    got = facula.conv2d(facula.zeros(1, 0, 4, 4), facula.zeros(2, 0, 3, 3), facula.tensor([1.0, 2.0]))
    assert got.tolist() == [[[[1.0] * 2] * 2, [[2.0] * 2] * 2]]


def test_tbc_is_conv1d_over_time():
    x, w, b = numbers((6, 2, 3), 1), numbers((3, 3, 4), 2), numbers((4,), 3)
    got = facula.conv_tbc(*map(facula.from_numpy, (x, w, b)), 1)
    expected = direct(x.transpose(1, 2, 0), w.transpose(2, 1, 0), b, (1,), (1,), (1,), 1).transpose(2, 0, 1)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


def test_meta_gives_the_shape():
    x = facula.empty(2, 3, 9, 8, device="meta")
    w = facula.empty(4, 3, 3, 3, device="meta")
    assert facula.conv2d(x, w, stride=2).shape == (2, 4, 4, 3)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: facula.conv2d(facula.ones(1, 4, 8, 8), facula.ones(8, 3, 3, 3)), "conv2d.*3 channels, got 4"),
        (lambda: facula.conv2d(facula.ones(8, 8), facula.ones(8, 3, 3, 3)), r"conv2d.*got shape \(8, 8\)"),
        (
            lambda: facula.conv2d(facula.ones(1, 3, 2, 2), facula.ones(8, 3, 3, 3)),
            "conv2d.*larger than the padded input",
        ),
        (
            lambda: facula.conv2d(facula.ones(1, 3, 8, 8), facula.ones(8, 3, 3, 3), facula.ones(7)),
            r"conv2d.*bias.*\(7,\)",
        ),
        (lambda: facula.conv2d(facula.ones(1, 3, 8, 8), facula.ones(8, 3, 3, 3), stride=0), "conv2d.*stride"),
        (lambda: facula.conv2d(facula.ones(1, 3, 8, 8), facula.ones(8, 3, 3, 3), padding=-1), "conv2d.*padding"),
        (lambda: facula.conv2d(facula.ones(1, 3, 8, 8), facula.ones(8, 3, 3, 3), groups=0), "conv2d.*groups"),
        (lambda: facula.conv2d(facula.ones(1, 4, 8, 8), facula.ones(9, 2, 3, 3), groups=2), "conv2d.*divisible"),
        (
            lambda: facula.conv2d(facula.ones(1, 3, 8, 8), facula.ones(8, 3, 3, 3), padding="same", stride=2),
            "conv2d.*same",
        ),
        (
            lambda: facula.conv2d(facula.ones(1, 3, 8, 8), facula.ones(8, 3, 3, 3, dtype=facula.float64)),
            "conv2d.*dtype",
        ),
        (
            lambda: facula.conv_transpose2d(facula.ones(1, 3, 8, 8), facula.ones(3, 3, 3, 3), output_padding=1),
            "conv_transpose2d.*output_padding",
        ),
    ],
)
def test_errors(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_columns_and_back():
    """im2col lists the windows; col2im is its adjoint and gradient."""
    x = numbers((2, 3, 5, 6), 1)
    t = facula.from_numpy(x).requires_grad_()
    columns = facula.nn.functional.unfold(t, (2, 3), padding=(0, 1), stride=(2, 1))
    assert columns.shape == (2, 18, 12)
    padded = np.pad(x, [(0, 0), (0, 0), (0, 0), (1, 1)])
    np.testing.assert_array_equal(columns.detach().numpy()[1, :, 7], padded[1, :, 2:4, 1:4].ravel())
    ones = facula.ones_like(columns)
    (gradient,) = facula.autograd.grad(columns.sum(), [t])
    folded = facula.nn.functional.fold(ones, (5, 6), (2, 3), padding=(0, 1), stride=(2, 1))
    np.testing.assert_array_equal(gradient.numpy(), folded.numpy())
    assert folded.detach().numpy()[0, 0, :, 2].tolist() == [
        3.0,
        3.0,
        3.0,
        3.0,
        0.0,
    ]  # three windows wide, the last row in none
    with pytest.raises(RuntimeError, match="im2col.*got|im2col.*fits"):
        facula.nn.functional.unfold(facula.ones(1, 2, 3, 3), 4)
