"""Kernels for a few elements of float32, which stay in registers, against the same ops in float64 and against NumPy."""

import itertools

import numpy as np
import pytest

import facula
from facula.nn import functional as F


def numbers(*shape, seed=0):
    return facula.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def same(made, wanted, tolerance=2e-6):
    """Elements of float32 and what float64 makes of them; NaN at the same places."""
    made, wanted = made.detach().double().numpy(), wanted.detach().numpy()
    assert made.shape == wanted.shape
    np.testing.assert_allclose(made, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


WINDOWS = [
    (kernel, stride, padding, dilation, ceil)
    for kernel, stride, padding, dilation in itertools.product((1, 2, 3, 5), (1, 2, 3), (0, 1, 2), (1, 2))
    for ceil in (False, True)
    if padding <= kernel // 2
]


@pytest.mark.parametrize("size", [(7, 5), (16, 16), (9, 17), (11, 32)], ids=str)
def test_maxima_of_small_planes(size):
    x = numbers(2, 3, *size)
    x[0, 0, 2, 3] = x[1, 2, 4, 1] = float("nan")
    x[0, 1] = x[0, 1].round()  # with equal elements
    x[1, 0] = float("-inf")
    for kernel, stride, padding, dilation, ceil in WINDOWS:
        if min(size) + 2 * padding < dilation * (kernel - 1) + 1:
            continue
        arguments = (kernel, stride, padding, dilation, ceil)
        values, places = F.max_pool2d(x, *arguments, return_indices=True)
        wide_values, wide_places = F.max_pool2d(x.double(), *arguments, return_indices=True)
        same(values, wide_values, 0)
        assert places.equal(wide_places), arguments
        same(F.max_pool2d(x, *arguments), wide_values, 0)


@pytest.mark.parametrize("size", [(7, 5), (16, 16), (9, 17), (11, 32)], ids=str)
def test_means_of_small_planes(size):
    x = numbers(2, 3, *size)
    x[1, 1, 3, 2] = float("nan")
    x[0, 2, 1, 1] = float("inf")
    for kernel, stride, padding, dilation, ceil in WINDOWS:
        if dilation > 1:
            continue
        for counts, divisor in ((True, None), (False, None), (True, 5)):
            arguments = (kernel, stride, padding, ceil, counts, divisor)
            same(F.avg_pool2d(x, *arguments), F.avg_pool2d(x.double(), *arguments))


@pytest.mark.parametrize("out", [(1, 1), (7, 7), (3, 5), (4, 40), (64, 2)], ids=str)
def test_even_shares_of_small_planes(out):
    for size in ((6, 6), (8, 20), (13, 32)):
        x = numbers(2, 3, *size)
        same(F.adaptive_avg_pool2d(x, out), F.adaptive_avg_pool2d(x.double(), out))
        values, places = F.adaptive_max_pool2d(x, out, return_indices=True)
        wide_values, wide_places = F.adaptive_max_pool2d(x.double(), out, return_indices=True)
        same(values, wide_values, 0)
        assert places.equal(wide_places)


def test_small_lines_and_volumes():
    line, volume = numbers(2, 3, 31), numbers(2, 2, 5, 6, 7)
    same(F.max_pool1d(line, 3, 2, 1), F.max_pool1d(line.double(), 3, 2, 1), 0)
    same(F.avg_pool1d(line, 3, 2, 1), F.avg_pool1d(line.double(), 3, 2, 1))
    same(F.adaptive_avg_pool1d(line, 64), F.adaptive_avg_pool1d(line.double(), 64))
    same(F.max_pool3d(volume, 2, 1, 1), F.max_pool3d(volume.double(), 2, 1, 1), 0)
    same(F.avg_pool3d(volume, 3, 2, 1), F.avg_pool3d(volume.double(), 3, 2, 1))
    same(F.adaptive_avg_pool3d(volume, (2, 3, 9)), F.adaptive_avg_pool3d(volume.double(), (2, 3, 9)))


def test_windows_in_the_padding_alone_are_empty():
    x = numbers(1, 1, 3, 3)
    arguments = (4, 4, 2, 1, True)
    same(F.max_pool2d(x, *arguments), F.max_pool2d(x.double(), *arguments), 0)
    same(F.avg_pool2d(x, 4, 4, 2, True), F.avg_pool2d(x.double(), 4, 4, 2, True))


@pytest.mark.parametrize(
    ("mode", "antialias"),
    [(mode, False) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")] + [("bilinear", True), ("bicubic", True)],
)
def test_resized_small_images(mode, antialias):
    for shape, size in (((2, 3, 6, 6), (12, 12)), ((1, 2, 9, 32), (5, 64)), ((2, 1, 16, 17), (3, 7)), ((1, 1, 1, 5), (4, 33))):
        x = numbers(*shape)
        same(F.interpolate(x, size, mode=mode, antialias=antialias),
             F.interpolate(x.double(), size, mode=mode, antialias=antialias), 1e-5)  # fmt: skip
    x = numbers(2, 3, 6, 6)
    x[0, 0, 2, 2], x[0, 1, 0, 5] = float("nan"), float("inf")
    same(F.interpolate(x, scale_factor=2.0, mode=mode), F.interpolate(x.double(), scale_factor=2.0, mode=mode), 1e-5)


@pytest.mark.parametrize("mode", ["replicate", "reflect", "circular"])
def test_padded_short_rows(mode):
    for width, pad in ((8, (1, 1, 1, 1)), (16, (0, 0, 2, 1)), (5, (4, 4, 0, 3)), (12, (2, 3, 1, 1))):
        x = numbers(2, 3, 6, width)
        same(F.pad(x, pad, mode), F.pad(x.double(), pad, mode), 0)
        whole = (x * 100).int()
        assert F.pad(whole, pad, mode).long().equal(F.pad(whole.long(), pad, mode))


@pytest.mark.parametrize("width", [1, 2, 4, 5, 8, 13, 16, 17])
def test_soft_max_of_short_rows(width):
    x = numbers(37, width) * 5
    x[3, 0], x[5, -1], x[7] = float("nan"), float("inf"), float("-inf")
    x[9] = 1e30
    for f in (facula.softmax, facula.log_softmax):
        same(f(x, 1), f(x.double(), 1), 4e-6)
        same(f(x[:1], 1), f(x[:1].double(), 1), 4e-6)


@pytest.mark.parametrize("width", [1, 3, 8, 15, 16, 17])
def test_norms_of_short_rows(width):
    x, weight, bias = numbers(19, width), numbers(width, seed=1), numbers(width, seed=2)
    for w, b in ((None, None), (weight, bias), (weight, None)):
        wide = [None if t is None else t.double() for t in (w, b)]
        same(F.layer_norm(x, (width,), w, b), F.layer_norm(x.double(), (width,), *wide), 1e-5)
        same(F.rms_norm(x, (width,), w, 1e-6), F.rms_norm(x.double(), (width,), wide[0], 1e-6), 1e-5)
    x[4, 0] = float("nan")
    same(F.layer_norm(x, (width,)), F.layer_norm(x.double(), (width,)), 1e-5)


@pytest.mark.parametrize("keys", [1, 3, 8, 15, 16, 17])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_to_few_keys(keys, causal):
    for queries, size, value_size in ((1, 4, 4), (7, 16, 20), (12, 40, 33)):
        q, k, v = numbers(2, 3, queries, size), numbers(2, 3, keys, size, seed=1), numbers(2, 3, keys, value_size, seed=2)
        masks = [None]
        if not causal:
            masks += [numbers(queries, keys, seed=3), numbers(2, 1, queries, keys, seed=4) > 0, numbers(keys, queries).t()]
            masks[2][0, 0, 0] = False  # sees nothing
        for mask in masks:
            wide = mask.double() if mask is not None and mask.is_floating_point() else mask
            same(F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal),
                 F.scaled_dot_product_attention(q.double(), k.double(), v.double(), wide, is_causal=causal), 1e-5)  # fmt: skip
        turned = q.transpose(1, 2).contiguous().transpose(1, 2)
        same(F.scaled_dot_product_attention(turned, k, v, is_causal=causal),
             F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal), 1e-5)  # fmt: skip


def test_gradients_of_attention_to_few_keys():
    shapes = ((2, 5, 8), (2, 9, 8), (2, 9, 6))
    arguments = [numbers(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]
    wide = [t.detach().double().requires_grad_() for t in arguments]
    for made, wanted in zip(
        facula.autograd.grad(F.scaled_dot_product_attention(*arguments).square().sum(), arguments),
        facula.autograd.grad(F.scaled_dot_product_attention(*wide).square().sum(), wide),
    ):
        same(made, wanted, 2e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_of_few_positions(reduction, smoothing):
    for shape in ((4, 4), (16, 16), (64, 5), (65, 5), (3, 6, 7), (1, 40)):
        x = numbers(*shape).requires_grad_()
        classes = facula.tensor(np.random.default_rng(1).integers(0, shape[1], shape[:1] + shape[2:]))
        weight = numbers(shape[1], seed=2).abs()
        for w, ignored in ((None, -100), (weight, -100), (weight, 1)):
            wide = x.detach().double().requires_grad_()
            v = None if w is None else w.double()
            made = F.cross_entropy(x, classes, w, reduction=reduction, label_smoothing=smoothing, ignore_index=ignored)
            wanted = F.cross_entropy(wide, classes, v, reduction=reduction, label_smoothing=smoothing, ignore_index=ignored)
            same(made, wanted, 1e-5)
            same(facula.autograd.grad(made, x)[0], facula.autograd.grad(wanted, wide)[0], 1e-5)
            same(F.nll_loss(x, classes, w, reduction=reduction, ignore_index=ignored),
                 F.nll_loss(wide, classes, v, reduction=reduction, ignore_index=ignored), 1e-5)  # fmt: skip
    with pytest.raises(IndexError, match="out of range"):
        F.cross_entropy(numbers(2, 3), facula.tensor([0, 3]))
    unseen = F.cross_entropy(numbers(2, 3), facula.tensor([-100, -100]))
    assert unseen.isnan()
    x = numbers(2, 5)
    x[0, 1] = float("nan")
    assert F.cross_entropy(x, facula.tensor([0, 1])).isnan()


DTYPES = [facula.uint8, facula.float16, facula.float32, facula.float64, facula.complex128, facula.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies_of_few_elements(dtype):
    rng = np.random.default_rng(0)
    for shape in ((3, 4, 5), (16, 16), (2, 3, 2, 5), (1, 17), (600, 3), (2, 300), (4, 2, 2, 2, 3)):
        x = facula.tensor(rng.integers(0, 100, shape)).to(dtype)
        array = x.numpy()
        for order in itertools.permutations(range(len(shape))):
            if len(shape) > 4 and order[0] % 2:
                continue
            np.testing.assert_array_equal(x.permute(order).contiguous().numpy(), array.transpose(order))
        np.testing.assert_array_equal(x.flip(0).numpy(), array[::-1])
        np.testing.assert_array_equal(x.flip(-1).numpy(), array[..., ::-1])
        np.testing.assert_array_equal(x[..., ::2].clone().numpy(), array[..., ::2])
        np.testing.assert_array_equal(x[..., :1].expand(shape).contiguous().numpy(), np.broadcast_to(array[..., :1], shape))
        np.testing.assert_array_equal(facula.stack([x, x], -1).numpy(), np.stack([array, array], -1))
        np.testing.assert_array_equal(facula.cat([x, x[..., :1], x], -1).numpy(),
                                      np.concatenate([array, array[..., :1], array], -1))  # fmt: skip


@pytest.mark.parametrize("bytes", range(1, 70))
def test_joined_pieces_of_every_length(bytes):
    rng = np.random.default_rng(bytes)
    parts = [rng.integers(0, 255, (7, n)).astype(np.uint8) for n in (bytes, 3, 70 - bytes)]
    made = facula.cat([facula.tensor(p) for p in parts], 1)
    np.testing.assert_array_equal(made.numpy(), np.concatenate(parts, 1))


@pytest.mark.parametrize("shape", [(5,), (64,), (65,), (200,), (16, 16), (3, 70), (130, 3), (2, 3, 4), (7, 0), ()], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_positions_of_truths(shape, share):
    array = np.random.default_rng(0).random(shape) < share
    x = facula.tensor(array)
    wanted = np.stack(np.nonzero(np.atleast_1d(array)), 1) if shape else np.zeros((int(array), 0))
    np.testing.assert_array_equal(x.nonzero().numpy(), wanted)
    np.testing.assert_array_equal(x.to(facula.uint8).nonzero().numpy(), wanted)
    assert int(x.count_nonzero()) == array.sum()
    if shape == (200,):
        first = facula.nonzero_static(x, size=9).ravel().numpy()
        few = wanted.ravel()[:9]
        np.testing.assert_array_equal(first, np.concatenate([few, np.full(9 - len(few), -1)]))


def test_columns_of_small_images():
    for shape, options in (((2, 3, 6, 6), {"padding": 1}), ((1, 2, 9, 18), {"padding": 2, "stride": 2}),
                           ((1, 2, 8, 16), {"dilation": 2}), ((2, 1, 5, 40), {"padding": 1})):  # fmt: skip
        x = numbers(*shape)
        columns = F.unfold(x, 3, **options)
        same(columns, F.unfold(x.double(), 3, **options), 0)
        same(F.fold(columns, shape[2:], 3, **options), F.fold(columns.double(), shape[2:], 3, **options), 1e-5)
        whole = (x * 100).long()
        assert F.fold(F.unfold(x.half(), 3, **options), shape[2:], 3, **options).shape == facula.Size(shape)
        assert whole.dtype == facula.int64


@pytest.mark.parametrize("columns", [1, 4, 5, 8, 11, 16, 17])
def test_narrow_products(columns):
    for rows, inner in ((1, 1), (3, 7), (8, 8), (13, 16), (17, 5)):
        a, b, c = numbers(3, rows, inner), numbers(3, inner, columns, seed=1), numbers(3, rows, columns, seed=2)
        same(facula.bmm(a, b), facula.bmm(a.double(), b.double()), 1e-5)
        same(facula.baddbmm(c, a, b), facula.baddbmm(c.double(), a.double(), b.double()), 1e-5)
        same(a[0] @ b[0], a[0].double() @ b[0].double(), 1e-5)
        turned = a.transpose(1, 2).contiguous().transpose(1, 2)
        same(turned @ b, a.double() @ b.double(), 1e-5)


def test_extrema_keep_their_shapes():
    x = numbers(3, 4, 5)
    for dim in range(-3, 3):
        values, places = x.max(dim)
        wanted = x.numpy().max(dim)
        np.testing.assert_array_equal(values.numpy(), wanted)
        np.testing.assert_array_equal(places.numpy(), x.numpy().argmax(dim))
        assert values.stride() == facula.zeros(wanted.shape).stride() and values.is_contiguous()
        assert x.argmax(dim).add(1).equal(places + 1)
    assert x[0, 0].argmax().dim() == 0
