"""Views, splitting, joining, repeating and padding against NumPy and closed forms."""

import numpy as np
import pytest

import facula


def array(*shape):
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


def same(tensor, expected):
    assert tuple(tensor.shape) == np.shape(expected)
    np.testing.assert_array_equal(tensor.numpy(), expected)


def shares(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() if hasattr(a, "untyped_storage") else True


def numeric_gradient(f, x, seed=0):
    """The gradient of sum(f(x) * c) for a fixed random c; f is linear, so one difference is exact."""
    c = np.random.default_rng(seed).normal(size=f(facula.from_numpy(x)).shape)
    gradient = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        unit = np.zeros_like(x)
        unit[i] = 1
        gradient[i] = (f(facula.from_numpy(unit)).numpy() * c).sum()
    return gradient, c


LINEAR = {
    "view": ((2, 6), lambda t: t.view(3, 4)),
    "reshape of a transposed": ((2, 6), lambda t: t.t().reshape(3, -1)),
    "permute": ((2, 3, 4), lambda t: t.permute(2, 0, 1)),
    "movedim": ((2, 3, 4), lambda t: t.movedim(0, 2)),
    "expand": ((3, 1), lambda t: t.expand(2, 3, 4)),
    "select": ((3, 4), lambda t: t.select(1, -1)),
    "squeeze": ((2, 1, 3, 1), lambda t: t.squeeze((1, 3))),
    "diagonal": ((3, 4), lambda t: facula.diagonal(t, 1)),
    "unfold": ((7, 2), lambda t: t.unfold(0, 3, 2)),
    "overlapping unfold": ((7,), lambda t: t.unfold(0, 4, 1)),
    "cat": ((2, 3), lambda t: facula.cat([t, t * 2, facula.zeros(0, dtype=t.dtype), t[:1]])),
    "stack": ((2, 3), lambda t: facula.stack([t, t * 3], -1)),
    "flip": ((2, 3), lambda t: t.flip(0, 1)),
    "roll": ((4, 3), lambda t: t.roll((1, -4), (0, 1))),
    "flat roll": ((4, 3), lambda t: t.roll(5)),
    "rot90": ((2, 3), lambda t: facula.rot90(t, 3)),
    "repeat": ((2, 3), lambda t: t.repeat(2, 1, 3)),
    "repeat_interleave": ((3, 2), lambda t: t.repeat_interleave(facula.tensor([2, 0, 1]), 0)),
    "repeat_interleave int": ((3, 2), lambda t: t.repeat_interleave(2, 1)),
    "constant pad": ((2, 3), lambda t: facula._C.nn_functional.pad(t, (1, -1, 2, 0))),
    "reflect": ((1, 2, 5), lambda t: facula._C.nn_functional.pad(t, (2, 3), "reflect")),
    "replicate": ((1, 1, 3, 3), lambda t: facula._C.nn_functional.pad(t, (2, 1, 0, 3), "replicate")),
    "circular": ((1, 2, 4), lambda t: facula._C.nn_functional.pad(t, (4, 1), "circular")),
    "pixel_shuffle": ((1, 8, 2, 3), lambda t: facula.pixel_shuffle(t, 2)),
    "slice_scatter": ((5, 3), lambda t: facula.slice_scatter(t, t[:2] * 2, 0, 1, 4, 2)),
    "diagonal_scatter": ((3, 3), lambda t: facula.diagonal_scatter(t, t[0] * 2)),
    "as_strided": ((2, 6), lambda t: t.as_strided((3, 3), (2, 1), 1)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_gradients_of_linear_ops(name):
    shape, f = LINEAR[name]
    expected, c = numeric_gradient(f, array(*shape))
    x = facula.from_numpy(array(*shape)).requires_grad_()
    (f(x) * facula.from_numpy(c)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-12)


def test_view_rules():
    x = facula.arange(6)
    assert x.view(2, -1).stride() == (3, 1)
    assert x.view(2, 3).t().view(3, 2).stride() == (1, 3)
    with pytest.raises(RuntimeError, match="^view"):
        x.view(2, 3).t().view(6)
    with pytest.raises(RuntimeError, match="^view"):
        x.view(4, 2)
    assert facula.zeros(0, 3).view(3, 0, 5).shape == (3, 0, 5)
    with pytest.raises(RuntimeError, match="^view"):
        facula.zeros(0, 3).view(0, -1)
    assert facula.tensor(1.0).view(1, 1).stride() == (1, 1)
    deep = facula.zeros(1, 1, 1, 1, 2, 3, 1)
    assert deep.view(2, 1, 1, 1, 1, 1, 3).shape == (2, 1, 1, 1, 1, 1, 3) and deep.squeeze().shape == (2, 3)


def test_view_as_another_dtype():
    x = facula.tensor([1.0, -2.0])
    assert x.view(facula.int32).tolist() == np.array([1.0, -2.0], np.float32).view(np.int32).tolist()
    assert x.view(facula.uint8).shape == (8,)
    assert x.view(facula.uint8).view(facula.float64).shape == (1,)
    with pytest.raises(RuntimeError, match="^view"):
        facula.zeros(3).view(facula.float64)
    with pytest.raises(RuntimeError, match="^view"):
        facula.tensor(1.0).view(facula.uint8)


def test_layout_flags_follow_the_view():
    x = facula.zeros(2, 3, 4, 5)
    assert x.is_contiguous() and not x.transpose(1, 2).is_contiguous()
    last = x.permute(0, 2, 3, 1)
    assert last.permute(0, 3, 1, 2).is_contiguous()
    assert facula.zeros(2, 4, 5, 3).permute(0, 3, 1, 2).is_contiguous(memory_format=facula.channels_last)
    assert not x[:, 1:].is_contiguous() and x[1:].is_contiguous() and x[:, :0].is_contiguous()
    assert not x.expand(2, 3, 4, 5)[:, :, ::2].is_contiguous()


def test_dims_move():
    a = array(2, 3, 4)
    x = facula.from_numpy(a)
    same(x.transpose(0, -1), a.swapaxes(0, -1))
    same(facula.swapaxes(x, axis0=0, axis1=1), a.swapaxes(0, 1))
    same(facula.movedim(x, (0, 1), (-1, 0)), np.moveaxis(a, (0, 1), (-1, 0)))
    same(x[0].t(), a[0].T)
    same(x.unsqueeze(-1).squeeze(-1), a)
    same(x.flatten(1), a.reshape(2, 12))
    same(x.unflatten(2, (2, -1)), a.reshape(2, 3, 2, 2))
    same(x.ravel(), a.ravel())
    same(facula.adjoint(x), a.swapaxes(-1, -2))
    y = facula.from_numpy(a.copy())
    assert y.transpose_(0, 2).unsqueeze_(0).squeeze_(0).shape == (4, 3, 2)
    same(y, a.swapaxes(0, 2))
    with pytest.raises(RuntimeError, match="^t:"):
        x.t()
    with pytest.raises(IndexError, match="^transpose"):
        x.transpose(0, 3)
    with pytest.raises(RuntimeError, match="^permute"):
        x.permute(0, 0, 1)


def test_expand_and_broadcast():
    a = array(3, 1)
    x = facula.from_numpy(a)
    same(x.expand(2, -1, 4), np.broadcast_to(a, (2, 3, 4)))
    assert x.expand(2, 3, 4).stride() == (0, 1, 0)
    u, v = facula.broadcast_tensors(x, facula.zeros(4))
    assert u.shape == v.shape == (3, 4)
    assert facula.broadcast_shapes((3, 1), 4, (2, 1, 1)) == (2, 3, 4)
    with pytest.raises(RuntimeError, match="^broadcast_shapes"):
        facula.broadcast_shapes((3,), (4,))
    for wrong in ((-1, 3, 1), (2, 1), (3,)):
        with pytest.raises(RuntimeError, match="^expand"):
            x.expand(*wrong)


def test_narrow_select_unfold():
    a = array(5, 4)
    x = facula.from_numpy(a)
    same(x.narrow(0, -3, 2), a[2:4])
    same(facula.narrow(x, 1, facula.tensor(1), 2), a[:, 1:3])
    same(x.select(0, -1), a[-1])
    same(x.unfold(0, 2, 3), np.lib.stride_tricks.sliding_window_view(a, 2, 0)[::3])
    assert facula.tensor(3.0).unfold(0, 1, 1).tolist() == [3.0]
    same(facula.diagonal(x, -2), np.diagonal(a, -2))
    same(facula.diagonal(x, 9), np.diagonal(a, 9))
    with pytest.raises(IndexError, match="^select"):
        x.select(0, 5)
    with pytest.raises(RuntimeError, match="^narrow"):
        x.narrow(0, 4, 2)


def test_splitting():
    a = array(7, 4)
    x = facula.from_numpy(a)
    assert [len(p) for p in x.split(3)] == [3, 3, 1]
    assert [len(p) for p in facula.split(x, [2, 5])] == [2, 5]
    assert [len(p) for p in facula.split(tensor=x, split_size_or_sections=4)] == [4, 3]
    assert [len(p) for p in x.chunk(3)] == [3, 3, 1]
    assert [len(p) for p in x.tensor_split(3)] == [3, 2, 2]
    for ours, theirs in zip(x.tensor_split((2, 9, -1)), np.array_split(a, (2, 9, -1))):
        same(ours, theirs)
    for ours, theirs in zip(facula.hsplit(x, 2), np.hsplit(a, 2)):
        same(ours, theirs)
    assert len(x.unbind(1)) == 4
    assert [p.shape[0] for p in facula.zeros(0).chunk(3)] == [0, 0, 0]
    with pytest.raises(RuntimeError, match="^split"):
        x.split([1, 2])
    with pytest.raises(RuntimeError, match="^vsplit"):
        facula.vsplit(x, 2)


def test_joining():
    a, b = array(2, 3), array(4, 3) + 0.5
    x, y = facula.from_numpy(a), facula.from_numpy(b)
    same(facula.cat([x, y]), np.concatenate([a, b]))
    same(facula.cat([x.t(), y.t()], 1), np.concatenate([a.T, b.T], 1))
    same(facula.cat((x, facula.zeros(0)), dim=-1), a)
    assert facula.cat([facula.ones(2, dtype=facula.int64), facula.ones(1)]).dtype == facula.float32
    same(facula.stack([x, x], 1), np.stack([a, a], 1))
    same(facula.stack([x.t(), x.t()], -1), np.stack([a.T, a.T], -1))
    same(facula.vstack([x, x[0]]), np.vstack([a, a[0]]))
    same(facula.hstack([x, x]), np.hstack([a, a]))
    same(facula.dstack([x, x]), np.dstack([a, a]))
    same(facula.column_stack([x[0], x.t()]), np.column_stack([a[0], a.T]))
    out = facula.empty(6, 3, dtype=facula.float64)
    assert facula.cat([x, y], out=out) is out
    same(out, np.concatenate([a, b]))
    images = [facula.ones(1, 2, 3, 4).contiguous(memory_format=facula.channels_last)] * 2
    assert facula.cat(images).is_contiguous(memory_format=facula.channels_last)
    with pytest.raises(RuntimeError, match="^cat"):
        facula.cat([x, y], 1)
    with pytest.raises(ValueError, match="^cat"):
        facula.cat([])
    with pytest.raises(RuntimeError, match="^stack"):
        facula.stack([x, y])


def test_cat_does_not_keep_its_inputs():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    z = facula.cat([y, y])
    y.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex64", "complex128"])
def test_reordering(dtype):
    a = array(3, 5).astype(dtype)
    x = facula.from_numpy(a)
    same(x.flip(1), a[:, ::-1])
    same(x.t().flip((0, 1)), a.T[::-1, ::-1])
    same(facula.fliplr(x), np.fliplr(a))
    same(facula.flipud(x), np.flipud(a))
    same(x.roll(2, 1), np.roll(a, 2, 1))
    same(x.roll((1, 13), (0, 1)), np.roll(a, (1, 13), (0, 1)))
    same(x.roll(-4), np.roll(a, -4))
    same(facula.rot90(x, 1), np.rot90(a))
    same(facula.rot90(x, -2), np.rot90(a, -2))


def test_repeating():
    a = array(2, 3)
    x = facula.from_numpy(a)
    same(x.repeat(2, 3, 1), np.tile(a, (2, 3, 1)))
    same(x.t().repeat(2, 2), np.tile(a.T, (2, 2)))
    same(x.tile(2), np.tile(a, 2))
    assert x.repeat(0, 2).shape == (0, 6)
    same(x.repeat_interleave(2), a.repeat(2))
    same(facula.repeat_interleave(x, facula.tensor([1, 0, 2]), dim=1), a.repeat([1, 0, 2], 1))
    assert facula.repeat_interleave(facula.tensor([2, 0, 1])).tolist() == [0, 0, 2]
    with pytest.raises(RuntimeError, match="^repeat_interleave"):
        facula.repeat_interleave(x, facula.tensor([1, -1, 1]), dim=1)


@pytest.mark.parametrize("mode, name", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding_modes(mode, name):
    a = array(1, 2, 4, 5)
    pad = facula._C.nn_functional.pad
    same(pad(facula.from_numpy(a), (2, 3, 1, 0), mode), np.pad(a, ((0, 0), (0, 0), (1, 0), (2, 3)), mode=name))
    same(pad(facula.from_numpy(a), (-1, 2, 0, 0), mode="constant", value=7.0)[..., -2:], np.full((1, 2, 4, 2), 7.0))
    with pytest.raises(RuntimeError, match="^pad"):
        pad(facula.from_numpy(a), (6, 0), mode) if mode != "replicate" else pad(facula.from_numpy(a), (1,), mode)
    with pytest.raises(NotImplementedError, match="^pad"):
        pad(facula.ones(3), (1, 1), mode)


def test_copies_and_scatters():
    a = array(3, 4)
    x = facula.from_numpy(a)
    copy = facula.t_copy(x)
    same(copy, a.T)
    copy[0, 0] = -1
    assert x[0, 0].item() == 0.0
    out = facula.empty(0, dtype=facula.float64)
    same(facula.select_copy(x, 0, 1, out=out), a[1])
    expected = a.copy()
    expected[:, 1] = 9
    same(facula.select_scatter(x, facula.full((3,), 9.0), 1, 1), expected)
    with pytest.raises(RuntimeError, match="^slice_scatter"):
        facula.slice_scatter(x, facula.ones(3, 4), 0, 0, 2)
    with pytest.raises(RuntimeError, match="^slice_scatter: step must be positive, got 0"):
        facula.slice_scatter(x, x, step=0)


def test_shuffles():
    x = facula.arange(2 * 8 * 3 * 3).view(2, 8, 3, 3)
    shuffled = facula.pixel_shuffle(x, 2)
    assert shuffled.shape == (2, 2, 6, 6)
    same(facula.pixel_unshuffle(shuffled, 2), x.numpy())
    assert facula.channel_shuffle(x, 2)[0, :, 0, 0].tolist() == x[0, [0, 4, 1, 5, 2, 6, 3, 7], 0, 0].tolist()


def test_meta_tensors_have_shapes_only():
    x = facula.empty(2, 3, device="meta")
    assert facula.cat([x, x]).shape == (4, 3)
    assert x.repeat(2, 2).shape == (4, 6) and x.flip(0).shape == (2, 3)
    assert facula.stack([x, x]).is_meta and x.roll(1, 0).is_meta and facula.tril(x).is_meta


def test_circular_padding_wraps_what_a_negative_count_leaves():
    x = facula.arange(4).view(1, 1, 4)
    assert facula._C.nn_functional.pad(x, (-1, 2), "circular").tolist() == [[[1, 2, 3, 1, 2]]]


def test_pixel_shuffle_without_elements():
    shuffle = facula.nn.functional.pixel_shuffle
    assert shuffle(facula.zeros(0, 4, 2, 2), 2).shape == (0, 1, 4, 4)
    assert shuffle(facula.zeros(2, 4, 0, 2), 2).shape == (2, 1, 0, 4)
    assert shuffle(facula.zeros(2, 0, 3, 2), 2).shape == (2, 0, 6, 4)
    with pytest.raises(ValueError, match="^pixel_shuffle: "):
        shuffle(facula.zeros(2, 0, 3, 2), 2**62)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 700, 3000])
def test_rolled_and_narrow_rows(dtype, width):
    values = (np.arange(20 * width) % 251).astype(dtype).reshape(20, width)
    t = facula.from_numpy(values)
    for shift in (1, 3, -1):
        np.testing.assert_array_equal(facula.roll(t, shift, 1).numpy(), np.roll(values, shift, 1))
    wide = np.zeros((20, width + 4), dtype)
    target = facula.from_numpy(wide)
    target[:, 3 : width + 3] = t
    wide[:, 3 : width + 3] = values
    np.testing.assert_array_equal(target.numpy(), wide)


@pytest.mark.parametrize("size, step", [(3, 1), (3, 2), (4, 2), (5, 3), (2, 2), (2, 3), (7, 7), (6, 5)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gradients_of_overlapping_windows(size, step, dim):
    x = facula.randn(9, 11, 8, dtype=facula.float64, requires_grad=True)
    windows = x.unfold(dim, size, step)
    weights = facula.randn(windows.shape, dtype=facula.float64)
    (gradient,) = facula.autograd.grad(windows, x, weights)
    lines = np.zeros_like(np.moveaxis(x.detach().numpy(), dim, 0))
    for k, window in enumerate(np.moveaxis(weights.numpy(), dim % 3, 0)):
        for j in range(size):
            lines[k * step + j] += window[..., j]
    np.testing.assert_allclose(np.moveaxis(gradient.numpy(), dim, 0), lines, rtol=1e-12)
    line = facula.randn(8, dtype=facula.float64, requires_grad=True)
    assert facula.autograd.gradgradcheck(lambda a: a.unfold(0, size, step) ** 2, (line,))
