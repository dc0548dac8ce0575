"""Quantised tensors: their levels, the functions that take them, their files, products of levels, and bad input."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
from quantized_values import quantized, values

import facula as torch
from facula.ao.nn import quantized as nnq
from facula.ao.nn.quantized import dynamic as nnqd

F = torch.nn.functional


def per_channel(*shape, axis=0, dtype=torch.qint8):
    count = shape[axis]
    scales, zeros = torch.linspace(0.02, 0.05, count), torch.arange(count)
    return torch.quantize_per_channel(values(*shape), scales, zeros, axis, dtype)


# ---- levels


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8, torch.qint32])
def test_levels_are_rounded_to_even_and_clamped(dtype):
    low, high = {torch.quint8: (0, 255), torch.qint8: (-128, 127), torch.qint32: (-(2**31), 2**31 - 1)}[dtype]
    x = torch.tensor([-1e9, -0.75, -0.25, 0.0, 0.25, 0.75, 1.25, 3.1, 1e9])
    q = torch.quantize_per_tensor(x, 0.5, 3, dtype)
    expected = np.clip(np.rint(x.numpy().astype("float64") / 0.5) + 3, low, high)
    assert q.int_repr().tolist() == expected.astype("int64").tolist()
    assert q.int_repr().dtype is {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}[dtype]
    np.testing.assert_allclose(q.dequantize().numpy(), (expected - 3) * 0.5, rtol=1e-6)
    assert q.dtype is dtype and q.is_quantized and q.qscheme() is torch.per_tensor_affine
    assert (q.q_scale(), q.q_zero_point()) == (0.5, 3)


def test_values_that_are_no_number_have_the_lowest_level():
    q = torch.quantize_per_tensor(torch.tensor([float("nan"), float("-inf"), float("inf")]), 1.0, 3, torch.quint8)
    assert q.int_repr().tolist() == [0, 0, 255]


def test_channels_have_levels_of_their_own():
    x, scales, zeros = values(3, 4), torch.tensor([0.1, 0.2, 0.4]), torch.tensor([0, 5, -7])
    q = torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8)
    expected = np.clip(np.rint(x.numpy() * (1 / scales.numpy())[:, None]) + zeros.numpy()[:, None], -128, 127)
    assert q.int_repr().tolist() == expected.astype(int).tolist()
    assert q.q_per_channel_axis() == 0 and q.q_per_channel_scales().dtype is torch.float64
    assert q.q_per_channel_zero_points().tolist() == [0, 5, -7] and q.qscheme() is torch.per_channel_affine
    assert q[1].q_scale() == pytest.approx(0.2) and q[1].int_repr().tolist() == q.int_repr()[1].tolist()
    assert q.t().q_per_channel_axis() == 1 and torch.equal(q.t().dequantize(), q.dequantize().t())


def test_float_zero_points_are_kept():
    x = values(2, 3).abs()
    q = torch.quantize_per_channel(x, torch.tensor([0.01, 0.02]), torch.tensor([3.5, 0.0]), 0, torch.quint8)
    assert q.qscheme() is torch.per_channel_affine_float_qparams
    assert (q.dequantize() - x).abs().max() < 0.02


def test_dynamic_levels_span_the_values():
    x = torch.tensor([-1.0, 0.0, 2.0])
    q = torch.quantize_per_tensor_dynamic(x, torch.quint8, False)
    assert q.q_scale() == pytest.approx(3 / 255) and q.q_zero_point() == 85
    assert torch.quantize_per_tensor_dynamic(x, torch.quint8, True).int_repr().max() <= 127
    assert torch.quantize_per_tensor_dynamic(x, torch.qint8, False).int_repr().tolist() == [-128, -43, 127]


def test_lists_are_quantized_one_by_one():
    parts = torch.quantize_per_tensor([values(2), values(3)], torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), torch.quint8)
    assert [p.q_scale() for p in parts] == pytest.approx([0.1, 0.2])
    assert [list(p.shape) for p in torch.dequantize(parts)] == [[2], [3]]
    assert torch.dequantize(values(2).double()).dtype is torch.float32


# ---- what functions do


PLACES = {
    "view": lambda x: x.view(4, 6), "transpose": lambda x: x.transpose(0, 1), "index": lambda x: x[1:, ::2],
    "permute": lambda x: x.permute(2, 0, 1), "flatten": lambda x: x.flatten(), "chunk": lambda x: x.chunk(2, 1)[1],
    "stack": lambda x: torch.stack([x, x]), "cat": lambda x: torch.cat([x, x], 1), "clone": lambda x: x.clone(),
    "unsqueeze": lambda x: x.unsqueeze(0), "expand": lambda x: x[:1].expand(2, 3, 4), "flip": lambda x: x.flip(0),
    "index_select": lambda x: x.index_select(1, torch.tensor([2, 0])), "contiguous": lambda x: x.mT.contiguous(),
    "unbind": lambda x: x.unbind()[1], "repeat": lambda x: x.repeat(1, 2, 1), "detach": lambda x: x.detach(),
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2), "max": lambda x: x.max(), "topk": lambda x: x.topk(2).values,
    "sort": lambda x: x.sort(-1).values, "relu": lambda x: F.relu(x), "min": lambda x: x.amin(1),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_functions_of_places_and_order_keep_levels(name):
    q = quantized(2, 3, 4)
    result = PLACES[name](q)
    assert result.is_quantized and (result.q_scale(), result.q_zero_point()) == (0.05, 10)
    np.testing.assert_allclose(result.dequantize().numpy(), PLACES[name](q.dequantize()).numpy(), rtol=1e-6)


ROUNDED = {
    "mean": lambda x: x.mean(-1), "avg_pool2d": lambda x: F.avg_pool2d(x, 2), "leaky_relu": F.leaky_relu,
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 1), "interpolate": lambda x: F.interpolate(x[None], scale_factor=2),
    "clamp": lambda x: x.clamp(-0.5, 0.5), "hardtanh": F.hardtanh, "relu6": F.relu6,
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDED)
def test_other_results_are_rounded_to_the_levels(name):
    q = quantized(2, 4, 4)
    result = ROUNDED[name](q)
    assert result.is_quantized and result.q_scale() == 0.05
    assert (result.dequantize() - ROUNDED[name](q.dequantize())).abs().max() <= 0.0251


def test_bounded_functions_have_levels_of_their_own():
    q = quantized(5)
    assert (torch.sigmoid(q).q_scale(), torch.sigmoid(q).q_zero_point()) == (1 / 256, 0)
    assert (torch.tanh(q).q_scale(), torch.tanh(q).q_zero_point()) == (2 / 256, 128)
    assert (torch.sigmoid(q).dequantize() - q.dequantize().sigmoid()).abs().max() <= 1 / 256


def test_comparisons_are_of_values():
    q = quantized(2, 3)
    assert torch.equal(q > 0.1, q.dequantize() > 0.1) and (q == q).all() and torch.equal(q, q.clone())
    assert not torch.equal(q, quantized(2, 3, scale=0.1))


def test_elements_are_written_as_values():
    q = quantized(2, 3)
    q[0, 1] = 1.0
    q[1] = torch.tensor([0.5, -0.5, 0.1])
    assert q[0, 1].item() == pytest.approx(1.0) and q[1].int_repr().tolist() == [20, 0, 12]
    q.fill_(0.25)
    assert q.int_repr().tolist() == [[15] * 3] * 2
    q.copy_(torch.zeros(2, 3))
    assert q.int_repr().unique().tolist() == [10]


@pytest.mark.parametrize("name", ["add", "mul", "sum", "matmul", "exp", "neg"])
def test_what_has_no_rule_says_so(name):
    q = quantized(3, 3)
    args = (q, q) if name in ("add", "mul", "matmul") else (q,)
    with pytest.raises(NotImplementedError, match=f"{name}: not supported for quantised tensors.*quint8"):
        getattr(torch, name)(*args)


# ---- printing and files


def test_printing_names_levels():
    q = torch.quantize_per_tensor(torch.tensor([0.5, -1.0]), 0.5, 3, torch.quint8)
    assert repr(q) == (
        "tensor([ 0.5000, -1.0000], size=(2,), dtype=torch.quint8,\n"
        "       quantization_scheme=torch.per_tensor_affine, scale=0.5, zero_point=3)"
    )
    assert "quantization_scheme=torch.per_channel_affine" in repr(per_channel(2, 2)) and "axis=0" in str(per_channel(2, 2))
    assert repr(torch.qint8) == "torch.qint8" and isinstance(torch.qint8, torch.dtype) and torch.qint32.itemsize == 4
    assert repr(torch.per_channel_symmetric) == "torch.per_channel_symmetric"


@pytest.mark.parametrize("make", [quantized, per_channel])
def test_files_and_copies(make):
    q = make(3, 4)
    stream = io.BytesIO()
    torch.save({"q": q, "view": q[1:] if make is quantized else None}, stream)
    stream.seek(0)
    loaded = torch.load(stream)
    for other in (loaded["q"], pickle.loads(pickle.dumps(q)), copy.deepcopy(q)):
        assert torch.equal(other, q) and other.dtype is q.dtype and other.qscheme() is q.qscheme()
    if make is quantized:
        assert torch.equal(loaded["view"], q[1:])
        assert loaded["view"].untyped_storage().data_ptr() == loaded["q"].untyped_storage().data_ptr()


def test_constants_are_pickled_by_name():
    for constant in (torch.qint8, torch.per_tensor_affine):
        assert pickle.loads(pickle.dumps(constant)) is constant and copy.deepcopy(constant) is constant


# ---- products


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


def test_weights_of_int8_in_a_product_of_floats():
    x, weight, scales = values(3, 8), torch.arange(-16, 16, dtype=torch.int8).view(4, 8), torch.tensor([1.0, 0.5, 2.0, 0.1])
    expected = x @ (weight.float() * scales[:, None]).t()
    np.testing.assert_allclose(torch._weight_int8pack_mm(x, weight, scales).numpy(), expected.numpy(), rtol=1e-5)


# ---- rounding while training


def test_fake_quantize_rounds_and_passes_the_gradient():
    x = torch.tensor([-2.0, -0.26, 0.0, 0.31, 5.0], requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 2, -8, 7)
    np.testing.assert_allclose(y.detach().numpy(), [-1.0, -0.3, 0.0, 0.3, 0.5], rtol=1e-6)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    same = torch.fake_quantize_per_tensor_affine(x.detach(), torch.tensor(0.1), torch.tensor(2, dtype=torch.int32), -8, 7)
    assert torch.equal(same, y.detach())


def test_fake_quantize_by_channels():
    x = values(3, 4).requires_grad_()
    scales, zeros = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0, 1, 2, 3], dtype=torch.int32)
    y = torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, 0, 7)
    level = np.clip(np.rint(x.detach().numpy() * (1 / scales.numpy())) + zeros.numpy(), 0, 7)
    np.testing.assert_allclose(y.detach().numpy(), (level - zeros.numpy()) * scales.numpy(), rtol=1e-6)
    y.sum().backward()
    free = np.rint(x.detach().numpy() / scales.numpy()) + zeros.numpy()
    assert x.grad.numpy().tolist() == ((free >= 0) & (free <= 7)).astype("float32").tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_fake_quantize_keeps_the_dtype(dtype):
    y = torch.fake_quantize_per_channel_affine(values(2, 2).to(dtype), torch.ones(2), torch.zeros(2, dtype=torch.int32), 0, 0, 1)
    assert y.dtype is dtype


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


# ---- bad input


BAD = {
    "dtype": (lambda: torch.quantize_per_tensor(values(2), 0.1, 0, torch.float32), RuntimeError, "quantize_per_tensor: .*float32"),
    "input": (lambda: torch.quantize_per_tensor(values(2).long(), 0.1, 0, torch.qint8), RuntimeError, "Float Tensor.*int64"),
    "zero": (lambda: torch.quantize_per_tensor(values(2), 0.1, 300, torch.quint8), RuntimeError, "above upper bound.*300"),
    "low": (lambda: torch.quantize_per_tensor(values(2), 0.1, -1, torch.quint8), RuntimeError, "below lower bound.*-1"),
    "scale": (lambda: torch.quantize_per_tensor(values(2), float("nan"), 0, torch.quint8), RuntimeError, "finite scale, got nan"),
    "nibble": (lambda: torch.quantize_per_tensor(values(2), 1.0, 0, torch.quint4x2), NotImplementedError, "got torch.quint4x2"),
    "scales": (
        lambda: torch.quantize_per_channel(values(2, 3), torch.ones(3), torch.zeros(2).long(), 0, torch.qint8),
        RuntimeError,
        r"scales is a tensor of 2 elements, got \[3\]",
    ),
    "axis": (
        lambda: torch.quantize_per_channel(values(2), torch.ones(2), torch.zeros(2).long(), 1, torch.qint8), IndexError, "got 1"
    ),
    "plain": (lambda: values(2).q_scale(), NotImplementedError, "q_scale: expected a quantised tensor, got torch.float32"),
    "function": (lambda: torch.int_repr(values(2)), NotImplementedError, "int_repr: .*got torch.float32"),
    "channels": (lambda: per_channel(2, 2).q_scale(), RuntimeError, "q_scale: .*per_channel_affine"),
    "tensor": (lambda: quantized(2).q_per_channel_axis(), RuntimeError, "q_per_channel_axis: .*per_tensor_affine"),
    "cast": (lambda: quantized(2).float(), RuntimeError, "float: .*dequantize"),
    "to": (lambda: quantized(2).to(torch.float32), RuntimeError, "to: .*float32"),
    "numpy": (lambda: quantized(2).numpy(), TypeError, "numpy: .*quint8"),
    "gradient": (lambda: quantized(2).requires_grad_(), RuntimeError, "requires_grad_: .*quint8"),
    "empty": (lambda: torch.empty(2, dtype=torch.qint8), (RuntimeError, TypeError), "^empty.*dtype"),
    "infinite": (
        lambda: torch.quantize_per_tensor_dynamic(torch.tensor([1.0, float("inf")]), torch.quint8, False), RuntimeError, "inf"
    ),
    "int_mm": (lambda: torch._int_mm(torch.ones(2, 2), torch.ones(2, 2)), RuntimeError, "_int_mm: .*float32"),
    "int_mm shapes": (
        lambda: torch._int_mm(torch.ones(2, 3, dtype=torch.int8), torch.ones(2, 3, dtype=torch.int8)), RuntimeError, "_int_mm"
    ),
    "range": (lambda: torch.fake_quantize_per_tensor_affine(values(2), 1.0, 0, 5, 2), RuntimeError, "got 5 and 2"),
    "point": (lambda: torch.fake_quantize_per_tensor_affine(values(2), 1.0, 9, 0, 7), RuntimeError, "zero_point.*got 9"),
    "fake": (
        lambda: torch.fake_quantize_per_channel_affine(values(2, 2), torch.ones(3), torch.zeros(3).int(), 0, 0, 7),
        RuntimeError,
        "2 elements",
    ),
    "linear": (lambda: nnq.Linear(2, 2)(values(1, 2)), RuntimeError, "quantized.linear: .*float32"),
    "linear size": (lambda: nnq.Linear(3, 2)(quantized(1, 2)), RuntimeError, r"\[1, 2\]"),
    "weight": (lambda: nnq.Linear(2, 2).set_weight_bias(values(2, 2), None), RuntimeError, "qint8, got torch.float32"),
    "conv": (lambda: nnq.Conv2d(2, 2, 3)(quantized(2, 5, 5)), ValueError, r"\[2, 5, 5\]"),
    "windows": (lambda: nnq.Conv2d(2, 2, 3)(quantized(1, 2, 5, 2)), RuntimeError, r"_int8_conv: .*\[1, 2, 5, 2\]"),
    "groups": (lambda: nnq.Conv2d(3, 2, 3, groups=2), ValueError, "groups=2"),
    "lstm": (lambda: nnqd.LSTM(3, 4)(values(2, 2, 5)), RuntimeError, r"3 features.*\[2, 2, 5\]"),
    "dynamic": (lambda: nnqd.Linear(3, 4)(values(2, 3).double()), RuntimeError, "float64"),
    "float8": (
        lambda: torch._scaled_mm(values(2, 2), values(2, 2), torch.ones(1), torch.ones(1)), RuntimeError, "float8, got float32"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, error, text = BAD[name]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    "params",
    [
        (torch.per_tensor_affine, 0.1, 300), (torch.per_tensor_affine, "x", 0), (torch.per_tensor_affine,), None,
        (torch.per_channel_affine, torch.ones(9), torch.zeros(9), 0), (torch.per_channel_affine, torch.ones(3), torch.zeros(3), 5),
    ],
)  # fmt: skip
def test_files_whose_levels_do_not_fit_are_refused(params):
    from facula import _utils
    from facula.storage import TypedStorage

    storage = TypedStorage(wrap_storage=torch.zeros(3, dtype=torch.uint8).untyped_storage(), dtype=torch.quint8)
    with pytest.raises(RuntimeError, match="load: a quantised tensor"):
        _utils._rebuild_qtensor(storage, 0, (3,), (1,), params, False, None)
    with pytest.raises(RuntimeError, match="load"):
        _utils._rebuild_qtensor(storage, 0, (30,), (1,), (torch.per_tensor_affine, 0.1, 0), False, None)
