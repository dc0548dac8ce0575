"""Quantized tensors: their levels, the functions that take them, their files, and bad input."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
from quantized_values import per_channel, quantized, values

import facula as torch
from facula.ao.nn import quantized as nnq
from facula.ao.nn.quantized import dynamic as nnqd

F = torch.nn.functional


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
    with pytest.raises(NotImplementedError, match=f"{name}: not supported for quantized tensors.*quint8"):
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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("bits", [7, 8])
@pytest.mark.parametrize(("rows", "k", "n"), [(1, 1, 1), (2, 5, 33), (5, 64, 16), (70, 130, 47)])
def test_static_products_round_exact_sums(dtype, bits, rows, k, n):
    torch.manual_seed(rows + k + n)
    least = -128 if dtype is torch.int8 else 0
    low, high = (0, 128) if bits == 7 else (least, least + 256)
    x, weight = torch.randint(low, high, (rows, k), dtype=dtype), torch.randint(-128, 128, (n, k), dtype=torch.int8)
    zero, output_zero, lowest, scale = least + 9, least + 100, least + 20, 40.0
    for scales, bias in [(torch.tensor([0.5]), None), (torch.linspace(0.25, 0.5, n) if n > 1 else torch.ones(1), torch.randn(n))]:
        sums = ((x.numpy().astype(np.int64) - zero) @ weight.numpy().astype(np.int64).T).astype(np.float32)
        shifted = sums + (0 if bias is None else (bias / scales).numpy())
        levels = np.rint(shifted * (scales * np.float32(1 / scale)).numpy()) + output_zero
        found = torch._C._static_int8_linear(x, zero, weight, scales, bias, scale, output_zero, lowest)
        assert found.dtype is dtype
        assert np.array_equal(found.numpy(), np.clip(levels, lowest, least + 255))


@pytest.mark.parametrize("place", [1, 6, 7])
@pytest.mark.parametrize("level", [-1, 256])
def test_static_products_want_levels_of_the_dtype(place, level):
    given = [torch.zeros(1, 2, dtype=torch.uint8), 0, torch.zeros(3, 2, dtype=torch.int8), torch.ones(1), None, 1.0, 0, 0]
    given[place] = level
    with pytest.raises(RuntimeError, match=rf"^quantized.linear: expected levels from 0 to 255, got {level}$"):
        torch._C._static_int8_linear(*given)


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
        r"scales is a tensor of 2 elements, got \(3,\)",
    ),
    "axis": (
        lambda: torch.quantize_per_channel(values(2), torch.ones(2), torch.zeros(2).long(), 1, torch.qint8), IndexError, "got 1"
    ),
    "plain": (lambda: values(2).q_scale(), NotImplementedError, "q_scale: expected a quantized tensor, got torch.float32"),
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
    "linear size": (lambda: nnq.Linear(3, 2)(quantized(1, 2)), RuntimeError, r"\(1, 2\)"),
    "weight": (lambda: nnq.Linear(2, 2).set_weight_bias(values(2, 2), None), RuntimeError, "qint8, got torch.float32"),
    "conv": (lambda: nnq.Conv2d(2, 2, 3)(quantized(2, 5, 5)), ValueError, r"\(2, 5, 5\)"),
    "windows": (lambda: nnq.Conv2d(2, 2, 3)(quantized(1, 2, 5, 2)), RuntimeError, r"^quantized.conv: .*\(1, 2, 5, 2\)"),
    "groups": (lambda: nnq.Conv2d(3, 2, 3, groups=2), ValueError, "groups=2"),
    "lstm": (lambda: nnqd.LSTM(3, 4)(values(2, 2, 5)), RuntimeError, r"3 features.*\(2, 2, 5\)"),
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
    with pytest.raises(RuntimeError, match="load: a quantized tensor"):
        _utils._rebuild_qtensor(storage, 0, (3,), (1,), params, False, None)
    with pytest.raises(RuntimeError, match="load"):
        _utils._rebuild_qtensor(storage, 0, (30,), (1,), (torch.per_tensor_affine, 0.1, 0), False, None)
