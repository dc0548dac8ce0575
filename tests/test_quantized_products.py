"""Products of quantized tensors, of levels and of numbers that are rounded first, against sums in NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from quantized_values import per_channel, quantized, values

import facula as torch
from facula.ao.nn import quantized as nnq
from facula.ao.nn.quantized import dynamic as nnqd

F = torch.nn.functional


# ---- levels


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (17, 64, 33), (6, 130, 100), (64, 257, 65)])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_products_of_bytes_are_exact(shape, kind):
    m, k, n = shape
    rng = np.random.default_rng(m)
    a = rng.integers(*((-128, 128) if kind == "int8" else (0, 256)), (m, k)).astype(kind)
    b = rng.integers(-128, 128, (n, k)).astype("int8")
    expected = a.astype("int32") @ b.astype("int32").T
    assert np.array_equal(torch._C._int8_linear(torch.from_numpy(a), torch.from_numpy(b)).numpy(), expected)
    if kind == "int8":
        assert np.array_equal(torch._int_mm(torch.from_numpy(a), torch.from_numpy(b).t()).numpy(), expected)


def test_a_weight_that_changes_is_put_in_order_again():
    a, b = torch.ones(2, 8, dtype=torch.int8), torch.ones(4, 8, dtype=torch.int8)
    assert (torch._int_mm(a, b.t()) == 8).all()
    b.fill_(2)
    assert (torch._int_mm(a, b.t()) == 16).all()


@pytest.mark.parametrize("zero_point", [0, 3])
@pytest.mark.parametrize("make", [quantized, per_channel])
def test_linear_agrees_with_values(make, zero_point):
    x = quantized(5, 12, zero_point=20)
    weight = quantized(7, 12, scale=0.02, zero_point=zero_point, dtype=torch.qint8, seed=1) if make is quantized else make(7, 12)
    bias = values(7, seed=2)
    layer = nnq.Linear(12, 7)
    layer.set_weight_bias(weight, bias)
    layer.scale, layer.zero_point = 0.1, 100
    expected = F.linear(x.dequantize(), weight.dequantize(), bias)
    result = layer(x)
    assert result.dtype is torch.quint8 and (result.dequantize() - expected.clamp(-10.0, 15.5)).abs().max() <= 0.0501


CONVOLUTIONS = {
    "Conv1d": ((2, 4, 9), {}), "Conv2d": ((2, 4, 7, 7), {"stride": 2, "padding": 1}), "Conv3d": ((1, 4, 5, 5, 5), {"groups": 2}),
    "ConvTranspose1d": ((2, 4, 5), {"stride": 2}), "ConvTranspose2d": ((2, 4, 5, 5), {"stride": 2, "output_padding": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_agree_with_values(name):
    shape, options = CONVOLUTIONS[name]
    x = quantized(*shape, zero_point=60)
    layer = getattr(nnq, name)(4, 6, 3, **options)
    weight = torch.quantize_per_tensor(values(*layer.weight().shape) * 0.3, 0.01, 0, torch.qint8)
    layer.set_weight_bias(weight, values(6))
    layer.scale, layer.zero_point = 0.05, 128
    reference = getattr(torch.nn, name)(4, 6, 3, **options)
    with torch.no_grad():
        reference.weight.copy_(weight.dequantize())
        reference.bias.copy_(values(6))
        expected = reference(x.dequantize()).clamp(-6.4, 6.35)
    assert (layer(x).dequantize() - expected).abs().max() <= 0.02501


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolutions_of_bytes_are_exact(kind, groups):
    low, high = (-128, 128) if kind is torch.int8 else (0, 256)
    rng = np.random.default_rng(groups)
    x = torch.from_numpy(rng.integers(low, high, (2, 40, 9, 8)).astype(str(kind).removeprefix("torch.")))
    w = torch.from_numpy(rng.integers(-128, 128, (12, 40 // groups, 3, 2)).astype("int8"))
    expected = F.conv2d(x.double(), w.double(), None, (2, 1), 0, (1, 2), groups)
    result = torch._C._int8_conv(x, w, [2, 1], [1, 2], groups)
    assert result.dtype is torch.int32 and torch.equal(result.double(), expected)


def test_padding_modes_of_convolutions():
    x = quantized(1, 2, 6, 6, zero_point=60)
    layer = nnq.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")
    weight = torch.quantize_per_tensor(values(3, 2, 3, 3), 0.02, 0, torch.qint8)
    layer.set_weight_bias(weight, None)
    layer.scale, layer.zero_point = 0.1, 128
    padded = F.pad(x.dequantize(), (1, 1, 1, 1), mode="reflect")
    expected = F.conv2d(padded, weight.dequantize()).clamp(-12.8, 12.7)
    assert (layer(x).dequantize() - expected).abs().max() <= 0.0501


@pytest.mark.parametrize("rows", [1, 2, 32])
@pytest.mark.parametrize("channels", [False, True])
def test_dynamic_linear_is_near_float(rows, channels):
    weight = values(40, 96, seed=3) * 0.1
    scales = weight.abs().amax(1) / 127 if channels else torch.full((40,), weight.abs().max().item() / 127)
    zeros = torch.zeros(40, dtype=torch.int64)
    layer = nnqd.Linear(96, 40)
    layer.set_weight_bias(torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8), values(40))
    x = values(rows, 96, seed=4)
    expected = F.linear(x, weight, values(40))
    assert (layer(x) - expected).abs().max() < 0.05 * expected.abs().max() + 0.02
    assert layer(values(2, 3, 96)).shape == (2, 3, 40)


def test_dynamic_linear_is_the_sum_of_levels():
    """Bit for bit what the definition says: levels of the input, an exact sum, one factor."""
    x, weight = values(4, 50), torch.quantize_per_tensor(values(8, 50), 0.02, 0, torch.qint8)
    levels = torch.quantize_per_tensor_dynamic(x, torch.quint8, True)
    sums = (levels.int_repr().long() - levels.q_zero_point()) @ weight.int_repr().long().t()
    expected = sums.float() * (torch.tensor(levels.q_scale()) * torch.tensor(0.02))
    layer = nnqd.Linear(50, 8, bias_=False)
    layer.set_weight_bias(weight, None)
    np.testing.assert_allclose(layer(x).numpy(), expected.numpy(), rtol=1e-6)


def test_float8_products():
    a, b = values(3, 4).to(torch.float8_e4m3fn), values(4, 5).to(torch.float8_e4m3fn)
    one, two = torch.tensor(1.0), torch.tensor(2.0)
    result = torch._scaled_mm(a, b, scale_a=one, scale_b=two, bias=values(5), out_dtype=torch.float32)
    np.testing.assert_allclose(result.numpy(), (a.float() @ b.float() * 2 + values(5)).numpy(), rtol=1e-5, atol=1e-6)
    rows = torch._scaled_mm(a, b, scale_a=torch.ones(3, 1), scale_b=torch.arange(5.0)[None], out_dtype=torch.bfloat16)
    assert rows.dtype is torch.bfloat16 and (rows[:, 0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("shape", [(3, 8, 4), (1, 1, 1), (1, 300, 130), (5, 129, 67), (16, 64, 3), (40, 70, 9), (0, 4, 3), (2, 0, 3)])
def test_weights_of_int8_in_a_product_of_floats(shape, dtype):
    m, k, n = shape
    x, scales = values(m, k).to(dtype), (values(n).abs() + 0.1).to(dtype)
    weight = torch.from_numpy(np.random.default_rng(k).integers(-128, 128, (n, k)).astype("int8"))
    expected = x.double() @ (weight.double() * scales.double()[:, None]).t()
    result = torch._weight_int8pack_mm(x, weight, scales)
    assert result.dtype is dtype
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-14}.get(dtype, 0.02)
    assert ((result.double() - expected).abs() <= tolerance * (expected.abs().amax() + 1 if expected.numel() else 1)).all()


def test_the_gradient_of_a_product_with_weights_of_int8():
    x, scales = values(3, 8).requires_grad_(), (values(4).abs() + 0.1).requires_grad_()
    weight = torch.arange(-16, 16, dtype=torch.int8).view(4, 8)
    grads = torch.autograd.grad(torch._weight_int8pack_mm(x, weight, scales).square().sum(), (x, scales))
    expected = torch.autograd.grad((x @ (weight.float() * scales[:, None]).t()).square().sum(), (x, scales))
    for a, b in zip(grads, expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4)


# ---- dynamic products


def dynamic_layer(weight, scales, bias):
    """A layer whose weight has these levels; per row where there are several scales."""
    layer = nnqd.Linear(weight.shape[1], weight.shape[0])
    values = weight.float() * scales.reshape(-1, 1)
    zeros = torch.zeros(len(scales), dtype=torch.long)
    if len(scales) == 1:
        made = torch.quantize_per_tensor(values, scales.item(), 0, torch.qint8)
    else:
        made = torch.quantize_per_channel(values, scales, zeros, 0, torch.qint8)
    layer.set_weight_bias(made, bias)
    assert torch.equal(made.int_repr(), weight)
    return layer


def dynamic_product(x, weight, scales, bias):
    """What a layer computes, in NumPy: levels from 0 to 127, of which zero is one, and sums without rounding."""
    x, weight, scales = x.numpy(), weight.numpy().astype(np.int64), scales.numpy()
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = (np.float64(high) - low) / 127
    zero = np.rint(-low / scale) if abs(low / scale) < 127 + abs(high / scale) else np.rint(127 - high / scale)
    scale = np.float32(scale)
    levels = np.clip(np.rint(x * (np.float32(1) / scale)) + zero, 0, 127).astype(np.int64)
    sums = (levels - int(zero)) @ weight.T
    return sums.astype(np.float32) * (scale * scales) + (0 if bias is None else bias.numpy())


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 70])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 17), (4, 16), (7, 15), (130, 65), (1030, 33), (6000, 5)])
def test_dynamic_products_are_exact(rows, k, n):
    torch.manual_seed(rows * k + n)
    x, weight = torch.randn(rows, k), torch.randint(-128, 128, (n, k), dtype=torch.int8)
    bias = torch.randn(n)
    for scales, added in [(torch.tensor([0.5]), None), (torch.linspace(0.25, 0.5, n) if n > 1 else torch.ones(1), bias)]:
        layer = dynamic_layer(weight, scales, added)
        expected = dynamic_product(x, weight, scales, added)
        for _ in range(3):  # the weight is put in order anew, and kept
            np.testing.assert_allclose(layer(x).numpy(), expected, rtol=3e-6, atol=1e-5)


@pytest.mark.parametrize("k", [2, 4, 1000])
def test_dynamic_products_hold_the_largest_sums(k):
    weight = torch.full((16, k), -128, dtype=torch.int8)
    x = torch.full((4, k), 127.0)
    assert torch.equal(dynamic_layer(weight, torch.tensor([1.0]), None)(x), torch.full((4, 16), -128.0 * 127 * k))


@pytest.mark.parametrize("bad", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("place", [0, 20, 99])
def test_dynamic_products_want_finite_inputs(bad, place):
    x = torch.ones(100)
    x[place] = bad
    with pytest.raises(RuntimeError, match="expected finite values"):
        nnqd.Linear(100, 3)(x)


def test_dynamic_layers_follow_their_weight():
    layer, x = dynamic_layer(torch.full((2, 3), 4, dtype=torch.int8), torch.tensor([1.0]), None), torch.ones(1, 3)
    assert layer(x).tolist() == [[12.0, 12.0]]
    layer.weight().copy_(torch.quantize_per_tensor(torch.full((2, 3), 2.0), 0.5, 0, torch.qint8))
    assert layer(x).tolist() == [[6.0, 6.0]]
    layer.set_weight_bias(torch.quantize_per_tensor(torch.ones(2, 3), 0.5, 1, torch.qint8), None)
    assert layer(x).tolist() == [[3.0, 3.0]]
    assert not layer(x.requires_grad_()).requires_grad


IN_TILES = """
import numpy as np
import facula as torch

rng = np.random.default_rng(0)
for m, k, n in ((16, 1, 1), (17, 64, 64), (33, 65, 130), (100, 257, 65), (600, 48, 70)):
    b = rng.integers(-128, 128, (n, k)).astype("int8")
    for low, high, kind in ((-128, 128, "int8"), (0, 256, "uint8")):
        a = rng.integers(low, high, (m, k)).astype(kind)
        result = torch._C._int8_linear(torch.from_numpy(a), torch.from_numpy(b)).numpy()
        assert np.array_equal(result, a.astype("int32") @ b.astype("int32").T), (m, k, n, kind)
    x, scales = torch.randn(m, k), torch.rand(n) + 0.1
    whole = torch._C._dynamic_int8_linear(torch.cat([x, x]), torch.from_numpy(b), scales, None, False)
    assert torch.equal(whole[:m], whole[m:])
print("exact")
"""


def test_products_in_tiles_are_exact():
    """Registers of tiles, which few processors have, are numbers here: what is put into them and how is the same."""
    env = {**os.environ, "FACULA_TILES": "emulated", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", IN_TILES], env=env, cwd=tempfile.gettempdir(), capture_output=True, text=True)
    assert done.stdout == "exact\n", done.stderr
