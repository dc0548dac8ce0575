"""Images that the library keeps channels-last inside: no program can tell but by time."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import threading
import time

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula import nn


@pytest.fixture
def image():
    """A fresh result of a convolution, large enough for a private layout."""
    facula.manual_seed(0)
    inputs, weight = facula.randn(2, 16, 24, 24), facula.randn(32, 16, 3, 3)
    return lambda: F.conv2d(inputs, weight, padding=1)


def plainly(function):
    before = facula.cpu.set_private_layouts(False)
    try:
        return function()
    finally:
        facula.cpu.set_private_layouts(before)


def copies_made_by_looking(tensor):
    """Allocations made when the strides of the tensor are asked for: one where its layout was private."""
    before = facula.cpu.memory_stats()["allocations.total"]
    tensor.stride()
    return facula.cpu.memory_stats()["allocations.total"] - before


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="off where threads have no lock")
def test_results_of_convolution_and_what_follows_are_private(image):
    y = image()
    kept = [y, F.relu(y), F.relu(y) + y, F.max_pool2d(y, 2), F.batch_norm(y, None, None, training=True), facula.cat([y, y], 1),
            F.interpolate(y, scale_factor=2), F.avg_pool2d(y, 3), F.leaky_relu(y, inplace=False), F.group_norm(y, 4),
            F.instance_norm(y), F.dropout(y, 0.5), F.dropout2d(y, 0.5), F.pad(y, (1, 2, 0, 1)), F.pad(y, (-1, 1)),
            F.pad(y, (1, 1, 2, 0), mode="reflect"), F.pad(y, (1, 1, 0, 0), mode="replicate"),
            F.prelu(y, facula.ones(32)), y.clamp(-1, 1), facula.where(y > 0, y, 0.0), y.clone(), y.clone().contiguous()]  # fmt: skip
    assert [copies_made_by_looking(t) > 0 for t in kept] == [True] * len(kept)
    assert [copies_made_by_looking(t) for t in kept] == [0] * len(kept)
    assert plainly(lambda: copies_made_by_looking(image())) == 0


FORMATS = (facula.contiguous_format, facula.channels_last, facula.preserve_format)
READERS = {
    "stride": lambda t: t.stride(),
    "stride of one dimension": lambda t: t.stride(1),
    "is_contiguous": lambda t: (t.is_contiguous(), t.is_contiguous(memory_format=facula.channels_last)),
    "view": lambda t: t.view(2, -1),
    "reshape is a view": lambda t: t.reshape(-1).data_ptr() == t.data_ptr(),
    "flatten is a view": lambda t: t.flatten(1).data_ptr() == t.data_ptr(),
    "numpy": lambda t: t.numpy(),
    "numpy strides": lambda t: t.numpy().strides,
    "dlpack": lambda t: np.from_dlpack(t),
    "buffer": lambda t: np.asarray(memoryview(t)),
    "storage": lambda t: np.frombuffer(bytes(t.untyped_storage().tolist()), np.float32),
    "offset": lambda t: t.storage_offset(),
    "clone": lambda t: t.clone().stride(),
    "clone in an order": lambda t: [t.clone(memory_format=f).stride() for f in FORMATS],
    "contiguous": lambda t: (t.contiguous() is t, t.contiguous().stride()),
    "contiguous in an order": lambda t: t.contiguous(memory_format=facula.channels_last).stride(),
    "new_zeros": lambda t: t.new_zeros(t.shape).stride(),
    "pad": lambda t: [F.pad(t, (1, 2, 0, 0), mode=m).stride() for m in ("constant", "reflect", "replicate", "circular")],
    "group_norm": lambda t: (F.group_norm(t, 4), F.group_norm(t, 4).stride(), F.layer_norm(t, t.shape[1:])),
    "feature dropout draws the same numbers": lambda t: F.dropout2d(t, 0.5),
    "dropout in place": lambda t: (F.dropout(t, 0.5, inplace=True), t),
    "empty_like": lambda t: facula.empty_like(t).stride(),
    "zeros_like": lambda t: facula.zeros_like(t).stride(),
    "to": lambda t: (t.to(facula.float64).stride(), t.double().stride(), t.to(facula.float32).stride()),
    "detach": lambda t: t.detach().stride(),
    "data": lambda t: t.data.stride(),
    "parameter": lambda t: nn.Parameter(t).stride(),
    "transpose": lambda t: t.mT.stride(),
    "permute": lambda t: t.permute(0, 2, 3, 1).stride(),
    "index": lambda t: t[0].stride(),
    "slice": lambda t: t[:, ::2].stride(),
    "as_strided": lambda t: t.as_strided((4, 5), (7, 2)),
    "expand": lambda t: t[None].expand(3, *t.shape).stride(),
    "arithmetic": lambda t: ((t + 1).stride(), (2 * t - t).stride(), facula.exp(t).stride(), (t > 0).stride()),
    "sum": lambda t: (t.sum((2, 3)), t.mean(1).stride()),
    "softmax": lambda t: F.softmax(t, 1).stride(),
    "pickle": lambda t: pickle.loads(pickle.dumps(t)).stride(),
    "deepcopy": lambda t: copy.deepcopy(t).stride(),
    "dropout draws the same numbers": lambda t: F.dropout(t, 0.5),
    "pool": lambda t: F.max_pool2d(t, 2, return_indices=True),
    "pool strides": lambda t: F.max_pool2d(t, 2).stride(),
    "set_": lambda t: facula.empty(0).set_(t).stride(),
    "out": lambda t: facula.add(t, 1, out=t).stride(),
    "unbind": lambda t: [part.stride() for part in t.unbind(1)],
    "subclass": lambda t: t.as_subclass(facula.Tensor).stride(),
    "vmap": lambda t: facula.vmap(lambda u: u.view(-1).sin())(t),
    "saved file": lambda t: reloaded(t).stride(),
}


def reloaded(t):
    file = io.BytesIO()
    facula.save(t, file)
    file.seek(0)
    return facula.load(file)


def same(a, b):
    if isinstance(a, (tuple, list)) and not isinstance(a, facula.Size):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, facula.Tensor):
        return facula.allclose(a, b, atol=1e-3) and a.stride() == b.stride()  # of values around ten
    return np.allclose(a, b, atol=1e-3) if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_programs_see_plain_tensors(image, reader):
    results = []
    for run in (plainly, lambda function: function()):
        facula.manual_seed(1)
        results.append(run(lambda: READERS[reader](image())))
    assert same(*results)


def test_other_tensors_on_the_same_memory_stay_so(image):
    for share in (
        lambda t: t.detach(),
        lambda t: t.view(-1),
        lambda t: t[0],
        lambda t: t.data,
        lambda t: t.mT,
        lambda t: facula.from_numpy(t.numpy()),
    ):
        y = image()
        other = share(y)
        other.fill_(3.0)
        assert (y if other.numel() == y.numel() else y[0]).eq(3).all()
        y.zero_()
        assert other.eq(0).all()


def test_in_place_writes_keep_and_obey_history(image):
    y = image()
    y.relu_()
    y += 1
    y[:, 0] = 5
    assert y.min() >= 1 and y[:, 0].eq(5).all() and y.is_contiguous()
    weight = facula.randn(8, 32, 3, 3, requires_grad=True)
    z = F.conv2d(image(), weight)
    square = z * z
    z.stride()  # settled between forward and backward
    square.sum().backward()
    expected = weight.grad.clone()
    weight.grad = None
    plainly(lambda: F.conv2d(image(), weight).square().sum().backward())
    assert close(expected, weight.grad)
    z = F.conv2d(image(), weight)
    square = z * z
    z.view(-1)[0] = 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()


def close(a, b):
    """As a whole: rounding may move single elements over the edge of a ReLU or another maximum; what norms cancel is zero."""
    return (a - b).norm() <= 2e-3 * a.norm() + 1e-4


class Beside(nn.Module):
    """What a layer makes beside what it got."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return facula.cat([x, self.layer(x).clone()], 1)


def network():
    facula.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU6(inplace=True), nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.SiLU(),
        nn.MaxPool2d(3, 2, 1), nn.ReflectionPad2d((1, 0, 2, 1)), nn.Conv2d(16, 24, (4, 2), bias=False), nn.GroupNorm(4, 24), nn.PReLU(24),
        nn.Dropout(0.1), Beside(nn.Conv2d(24, 24, 3, padding=1)), nn.InstanceNorm2d(48, affine=True), nn.ZeroPad2d((-1, 1, 0, 0)),
        nn.Conv2d(48, 24, 1), nn.ReplicationPad2d((0, 0, 1, -1)), nn.Upsample(scale_factor=2), nn.ConvTranspose2d(24, 12, 2, 2),
        nn.AdaptiveAvgPool2d((8, 8)), nn.Flatten(), nn.Linear(12 * 64, 5),
    )  # fmt: skip


def test_a_network_trains_to_the_same_gradients():
    images, labels = facula.randn(4, 3, 32, 32, requires_grad=True), facula.tensor([0, 1, 2, 3])

    def step():
        model = network()
        images.grad = None
        facula.manual_seed(5)  # of dropout
        F.cross_entropy(model(images), labels).backward()
        return [images.grad, *(p.grad for p in model.parameters())]

    for plain, private in zip(plainly(step), step()):
        assert private.stride() == plain.stride() and close(plain, private)


@pytest.mark.parametrize("write", [lambda t: t.clamp_(-0.5, 0.5), lambda t: t.clamp_min_(0.1), lambda t: t.relu_(), lambda t: t.sigmoid_()])
def test_in_place_writes_that_keep_what_was_there(write):
    x, weight = facula.randn(2, 8, 40, 40, requires_grad=True), facula.randn(16, 8, 3, 3, requires_grad=True)
    gradients = lambda: facula.autograd.grad(write(F.conv2d(x, weight) * 1).sin().sum(), [x, weight])  # noqa: E731
    for plain, private in zip(plainly(gradients), gradients()):
        assert close(plain, private) and private.stride() == plain.stride()


def test_derivatives_of_second_order():
    weight = facula.randn(8, 16, 3, 3, requires_grad=True)
    x = facula.randn(2, 16, 40, 40, requires_grad=True)

    def second():
        (g,) = facula.autograd.grad(F.conv2d(x, weight).tanh().sum(), x, create_graph=True)
        return facula.autograd.grad(g.square().sum(), [x, weight])

    for plain, private in zip(plainly(second), second()):
        assert close(plain, private) and private.stride() == plain.stride()


def test_hooks_and_functions_see_plain_tensors(image):
    seen = []

    class Look(facula.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            seen.append(t.is_contiguous())
            ctx.save_for_backward(t)
            return t * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.saved_tensors[0].is_contiguous() and grad.is_contiguous())
            return grad * 2

    y = image().requires_grad_()
    z = F.relu(y)
    z.register_hook(lambda g: seen.append(g.is_contiguous()))
    z.retain_grad()
    F.conv2d(Look.apply(z), facula.randn(8, 32, 3, 3)).sum().backward()
    assert seen == [True] * 3 and z.grad.is_contiguous() and y.grad.is_contiguous()


def test_threads_may_look_at_one_image(image):
    expected = plainly(lambda: F.relu(image()).view(-1))
    for _ in range(20):
        y, failures = image(), []

        def read(y=y, failures=failures):
            if not facula.allclose(F.relu(y).view(-1), expected, atol=1e-4):
                failures.append("values")
            if not y.is_contiguous():
                failures.append("strides")

        threads = [threading.Thread(target=read) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures


WRITES = {
    "element-wise": lambda y: y.lgamma_(),
    "element-wise, of another image": lambda y: y.add_(y.clone()).lgamma_(),
    "the operand": lambda y: facula.zeros(y.shape).add_(y).lgamma_(),
    "copy": lambda y: y.copy_(facula.lgamma(y.clone())),
    "clamp": lambda y: y.clamp_(-0.1, 0.1),
    "recorded": lambda y: y.requires_grad_().mul(1).lgamma_(),
    "out": lambda y: facula.lgamma(y, out=facula.empty(y.shape)),
}


@pytest.mark.parametrize("write", WRITES)
def test_no_write_is_lost_when_another_thread_looks(write):
    """Looking exchanges the memory, in the middle of an op that has let go of the interpreter's lock."""
    inputs, weight = facula.randn(2, 16, 96, 96), facula.randn(64, 16, 3, 3)
    expected = WRITES[write](F.conv2d(inputs, weight).contiguous())
    for repeat in range(12):
        y = F.conv2d(inputs, weight)
        begun = threading.Event()

        def look(y=y, begun=begun, repeat=repeat):
            begun.wait()
            time.sleep(repeat * 2e-4)
            y.stride()
            facula.empty(y.shape).fill_(7)  # takes memory that was let go

        thread = threading.Thread(target=look)
        thread.start()
        begun.set()
        result = WRITES[write](y)
        thread.join()
        assert facula.equal(result, expected) and result.stride() == expected.stride()
        assert y._version == (0 if write in ("the operand", "recorded", "out") else 2 if "another" in write else 1)


@pytest.mark.parametrize(
    "shape",
    [
        (8, 16, 12, 12, 24, 3, 1, 1),
        (2, 32, 15, 9, 16, 3, 2, 1),
        (4, 16, 20, 20, 32, 1, 1, 0),
        (3, 16, 17, 17, 16, 1, 2, 0),
        (1, 24, 30, 30, 40, 5, 1, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("dilation", [1, 2])
def test_weight_gradients_by_products(shape, dilation):
    compare_with_float64(shape, dilation, False, facula.channels_last)


# Images of few pixels and many channels; windows of one pixel next to each other and apart; results that fill no tile.
BY_PRODUCTS = [
    (2, 48, 14, 13, 64, 1, 1, 0),
    (2, 30, 25, 24, 50, 1, 2, 0),
    (3, 31, 17, 16, 33, 1, (3, 2), (1, 0)),
    (1, 96, 20, 20, 24, 1, 1, 0),
    (2, 24, 20, 20, 144, 1, 1, 0),
    (1, 512, 6, 7, 512, 3, 2, 1),
    (1, 520, 5, 4, 512, 3, 1, 1),
    (1, 512, 8, 8, 513, (2, 3), (3, 2), (0, 1)),
    (2, 3, 50, 47, 64, 8, 8, 0),
    (2, 3, 63, 64, 32, 11, 4, 2),
    (2, 5, 40, 37, 32, (4, 3), (5, 6), (3, 1)),
    (1, 40, 33, 31, 48, 2, 2, 1),
    (2, 16, 40, 41, 96, 1, 1, 0),  # gradients of weights from lines that are read where they lie
    (2, 32, 40, 40, 17, 1, 1, 0),
    (2, 64, 24, 24, 64, 3, 2, 1),
]


@pytest.mark.parametrize("shape", BY_PRODUCTS, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("weights_last", [False, True])
def test_convolutions_by_products(shape, transposed, weights_last):
    order = facula.channels_last if weights_last else facula.contiguous_format
    compare_with_float64(shape, 1, transposed, order)


def compare_with_float64(shape, dilation, transposed, order):
    n, c, h, w, k, size, stride, padding = shape
    size = (size, size) if isinstance(size, int) else size
    convolve = F.conv_transpose2d if transposed else F.conv2d
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    facula.manual_seed(4)
    x = facula.randn(n, c, h, w, dtype=facula.float64, requires_grad=True)
    weight = facula.randn(*((c, k) if transposed else (k, c)), *size, dtype=facula.float64, requires_grad=True)
    bias = facula.randn(k)
    y = convolve(x, weight, bias.double(), **how)
    upstream = facula.randn(y.shape)
    y.backward(upstream.double())
    for images in (facula.channels_last, facula.contiguous_format):
        narrow_x = x.detach().float().contiguous(memory_format=images).requires_grad_()
        narrow = weight.detach().float().contiguous(memory_format=order).requires_grad_()
        result = convolve(narrow_x, narrow, bias, **how)
        result.backward(upstream)
        for ours, exact in ((result, y), (narrow_x.grad, x.grad), (narrow.grad, weight.grad)):
            assert (ours.double() - exact).abs().max() < 1e-5 * exact.abs().max()
        if images == order == facula.contiguous_format:
            assert result.is_contiguous() and narrow_x.grad.is_contiguous()


TILED = [
    (8, 32, 17, 19, 48, 1, True),
    (12, 64, 8, 8, 32, 1, False),
    (4, 48, 16, 18, 64, 0, True),
    (16, 32, 6, 7, 32, 2, False),
    (4, 256, 14, 14, 128, 1, True),
    (8, 64, 7, 7, 64, 1, True),
    (3, 48, 8, 7, 32, 1, False),
    (2, 512, 8, 9, 192, 1, True),  # weights by blocks
    (4, 512, 24, 26, 80, 1, False),  # tiles by blocks, too
    (4, 512, 32, 32, 32, 1, True),  # sums of weights' gradients over blocks of tiles
    # tiles of seven points, where they fit the image better
    (32, 32, 13, 13, 48, 1, True),
    (40, 48, 15, 10, 32, 0, False),
    (24, 32, 8, 13, 32, 2, True),
    (16, 256, 13, 13, 128, 1, False),  # weights by blocks
    (24, 256, 13, 13, 128, 1, True),  # sums of weights' gradients over blocks of tiles
]
TILED_FIVES = [
    (8, 32, 17, 19, 48, 2, True),
    (12, 64, 8, 8, 32, 0, False),
    (4, 48, 12, 13, 64, 4, True),
    (2, 64, 27, 27, 192, 2, True),
    (8, 256, 9, 9, 224, 1, False),  # weights by blocks
    (16, 32, 4, 4, 48, 2, True),  # tiles of six points
    (16, 64, 8, 4, 32, 4, False),
]


@pytest.mark.parametrize("size, case", [(3, c) for c in TILED] + [(5, c) for c in TILED_FIVES], ids=str)
def test_windows_in_tiles_are_as_exact_as_training_needs(size, case):
    """Where they are computed in tiles, errors are some ten times those of the sums written out: 1e-5 of the largest value."""
    n, c, h, w, k, padding, with_bias = case
    facula.manual_seed(5)
    weight, bias = facula.randn(k, c, size, size), facula.randn(k) if with_bias else None
    wide = facula.randn(n, c, h, w, dtype=facula.float64, requires_grad=True)
    expected = F.conv2d(wide, weight.double(), None if bias is None else bias.double(), padding=padding)
    upstream = facula.randn(expected.shape)
    wide_weight = weight.double().requires_grad_()
    F.conv2d(wide.detach(), wide_weight, padding=padding).backward(upstream.double())
    expected.backward(upstream.double())
    results = []
    for threads, order in ((1, facula.contiguous_format), (1, facula.channels_last), (2, facula.channels_last)):
        before = facula.get_num_threads()
        facula.set_num_threads(threads)
        try:
            x = wide.detach().float().contiguous(memory_format=order).requires_grad_()
            narrow = weight.clone().requires_grad_()
            y = F.conv2d(x, narrow, bias, padding=padding)
            y.backward(upstream.contiguous(memory_format=order))
        finally:
            facula.set_num_threads(before)
        assert (y - expected).abs().max() < 2e-5 * expected.abs().max()
        assert (x.grad - wide.grad).abs().max() < 2e-5 * wide.grad.abs().max()
        assert (narrow.grad - wide_weight.grad).abs().max() < 2e-5 * wide_weight.grad.abs().max()
        results.append((y.detach(), x.grad, narrow.grad))
    # of two plain images oneDNN makes the weight's gradient, in as many parts as there are threads
    assert all(facula.equal(a, b) for a, b in zip(*results[1:]))


APART = [(3, (32, 32, 13, 13, 32, 1)), (3, (8, 32, 12, 12, 32, 1)), (5, (6, 32, 13, 11, 48, 2))]


@pytest.mark.parametrize("size, case", APART, ids=str)
def test_what_an_image_in_tiles_holds_reaches_no_other_image(size, case):
    """Also where it is infinite, not a number, or far larger than the others."""
    n, c, h, w, k, padding = case
    weight = facula.randn(k, c, size, size)
    x = facula.randn(n, c, h, w)
    y = F.conv2d(x, weight, padding=padding)
    upset = x.clone()
    for i, value in enumerate((float("nan"), float("inf"), 1e30)):
        upset[2 * i, :, 0, 0] = upset[2 * i, :, -1, -1] = value
    upset.requires_grad_()
    z = F.conv2d(upset, weight, padding=padding)
    z.backward(z.detach())
    gradient = F.conv_transpose2d(y, weight, padding=padding)
    for i in (1, 3, *range(5, n)):
        assert facula.equal(z[i], y[i]) and facula.equal(upset.grad[i], gradient[i])
    assert not facula.isfinite(z[0]).all() and not facula.isfinite(z[2]).all()


def test_one_channel_has_plain_strides(image):
    one = F.conv2d(image(), facula.randn(1, 32, 3, 3), padding=1)
    assert one.stride() == (576, 576, 24, 1) and one.tanh().stride() == (576, 576, 24, 1)
    again = F.conv2d(one.tanh(), facula.randn(32, 1, 3, 3), padding=1)
    assert again.view(2, -1).shape == (2, 32 * 576)
    one = F.conv2d(image(), facula.randn(1, 32, 3, 3, requires_grad=True), padding=1)
    one.mul_(2).sum().backward()
    assert one.is_contiguous() and one.grad_fn is not None


def test_kernels_are_given_memory_that_is_held():
    """A watched kernel refuses a private layout that another thread could exchange while it runs."""
    with facula.profiler.profile():
        model, x = network(), facula.randn(2, 3, 40, 40)
        for _ in range(2):
            model(x).sum().backward()
        for write in WRITES.values():
            write(F.conv2d(facula.randn(2, 16, 24, 24), facula.randn(32, 16, 3, 3)))
