"""Which memory order results have: channels-last images stay so through a network."""

import numpy as np
import pytest

import facula
from facula import nn
from facula.nn import functional as F

CL = facula.channels_last


def image(n=2, c=8, h=6, w=6):
    return facula.arange(n * c * h * w, dtype=facula.float32).view(n, c, h, w).sin().contiguous(memory_format=CL)


# what PyTorch 2.13 keeps in channels-last order
KEPT = {
    "conv2d": nn.Conv2d(8, 4, 3, padding=1),
    "1x1 convolution": nn.Conv2d(8, 4, 1),
    "depthwise convolution": nn.Conv2d(8, 8, 3, groups=8),
    "reflecting convolution": nn.Conv2d(8, 4, 3, padding=1, padding_mode="reflect"),
    "transposed convolution": nn.ConvTranspose2d(8, 4, 3),
    "batch norm": nn.BatchNorm2d(8),
    "batch norm in eval": nn.BatchNorm2d(8).eval(),
    "group norm": nn.GroupNorm(2, 8),
    "max pool": nn.MaxPool2d(2),
    "average pool": nn.AvgPool2d(2),
    "adaptive pool": nn.AdaptiveAvgPool2d(3),
    "adaptive max pool": nn.AdaptiveMaxPool2d(3),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "relu": F.relu,
    "gelu": F.gelu,
    "prelu": nn.PReLU(8),
    "dropout": F.dropout,
    "constant pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "reflect pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replicate pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "pixel shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel shuffle": lambda x: F.channel_shuffle(x, 2),
    "sum with a contiguous image": lambda x: x + x.contiguous(),
    "product with a factor per channel": lambda x: x * facula.ones(8, 1, 1),
    "cat": lambda x: facula.cat([x, x], 1),
    "comparison": lambda x: x > 0,
    "conversion": lambda x: x.double(),
    "zeros_like": facula.zeros_like,
    "clone": lambda x: x.clone(),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name):
    x = image()
    result = KEPT[name](x)
    assert result.is_contiguous(memory_format=CL) and not result.is_contiguous()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [facula.float32, facula.bfloat16])
def test_batch_norm_has_the_same_values_and_gradients(training, dtype):
    norms = [nn.BatchNorm2d(8).train(training) for _ in range(2)]
    for norm in norms:
        nn.init.uniform_(norm.running_var, 1, 2, generator=facula.Generator().manual_seed(1))
        nn.init.uniform_(norm.weight, 1, 2, generator=facula.Generator().manual_seed(2))
    inputs = [image().to(dtype).requires_grad_(), image().contiguous().to(dtype).requires_grad_()]
    outputs = [norm(x) for norm, x in zip(norms, inputs)]
    for y in outputs:
        y.float().sin().sum().backward()
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == facula.float32 else {"atol": 3e-2, "rtol": 3e-2}
    close = facula.testing.assert_close
    close(outputs[0], outputs[1], **tolerance)
    close(inputs[0].grad, inputs[1].grad, **tolerance)
    close(norms[0].running_var, norms[1].running_var, **tolerance)
    close(norms[0].weight.grad, norms[1].weight.grad, **tolerance)
    close(norms[0].bias.grad, norms[1].bias.grad, **tolerance)
    assert inputs[0].grad.is_contiguous(memory_format=CL)


def test_a_network_stays_in_channels_last_order():
    seen = []
    layers = [
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 8, 3), nn.GroupNorm(2, 8),
        nn.GELU(), nn.AvgPool2d(2),
    ]  # fmt: skip
    for layer in layers:
        layer.register_forward_hook(lambda module, args, out: seen.append(out.is_contiguous(memory_format=CL)))
    model = nn.Sequential(*layers).to(memory_format=CL)
    model(image(c=3, h=12, w=12)).sum().backward()
    assert seen == [True] * len(layers)
    assert model[4].weight.grad.is_contiguous(memory_format=CL)


def test_strides_say_which_order_is_meant_where_several_describe_a_tensor():
    x = facula.ones(2, 1, 3, 3)
    y = x.to(memory_format=CL)
    assert y.stride() == (9, 1, 3, 1) and y.is_contiguous() and x.contiguous(memory_format=CL).stride() == (9, 9, 3, 1)
    assert nn.Conv2d(1, 4, 2)(y).stride() == (16, 1, 8, 4)
    assert nn.Conv2d(1, 4, 2)(x).stride() == (16, 4, 2, 1)
    z = facula.ones(2, 8, 1, 1).to(memory_format=CL)
    assert z.stride() == (8, 1, 8, 8) and nn.Conv2d(8, 4, 1)(z).stride() == (4, 1, 4, 4)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (1, 3, 1, 40), (3, 3, 33, 31), (2, 4, 6, 3), (70, 3, 30, 31)])
def test_images_in_color_become_channels_last(dtype, sizes):
    values = np.arange(np.prod(sizes)).reshape(sizes).astype(dtype)
    image = facula.from_numpy(values)
    for given, expected in ((image, values), (image[:, :, 1:, ::2], values[:, :, 1:, ::2]), (image.flip(1), values[:, ::-1])):
        last = given.contiguous(memory_format=facula.channels_last)
        np.testing.assert_array_equal(last.numpy(), expected)
        np.testing.assert_array_equal(last.contiguous().numpy(), expected)
