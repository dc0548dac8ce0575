"""Modules on quantized tensors, and those with quantized weights: their results, their files, their float forms."""

from __future__ import annotations

import io

import numpy as np
import pytest
from quantized_values import quantized, values

import facula as torch
from facula.ao.nn import quantized as nnq
from facula.ao.nn.quantized import dynamic as nnqd


def test_arithmetic_on_levels_of_a_module():
    x, y = quantized(3, 4), quantized(3, 4, scale=0.1, seed=1)
    f = nnq.QFunctional()
    f.scale, f.zero_point = 0.1, 60
    for name in ("add", "mul", "add_relu"):
        expected = {"add": torch.add, "mul": torch.mul, "add_relu": lambda a, b: torch.relu(a + b)}[name]
        assert (getattr(f, name)(x, y).dequantize() - expected(x.dequantize(), y.dequantize())).abs().max() <= 0.0501
    assert f.cat([x, y], 1).shape == (3, 8)
    for number in (0.5, -3.0, 20.0):
        np.testing.assert_allclose(f.add_scalar(x, number).dequantize(), (x.dequantize() + number).numpy(), atol=0.06)
    for number in (2.0, -2.0, 0.0):
        np.testing.assert_allclose(f.mul_scalar(x, number).dequantize(), (x.dequantize() * number).numpy(), atol=1e-5)
    assert nnq.FloatFunctional().add(torch.ones(1), torch.ones(1)).item() == 2


@pytest.mark.parametrize("kind", ["ELU", "Hardswish", "LeakyReLU", "Sigmoid", "Softmax"])
def test_activations_have_levels_of_their_own(kind):
    x = quantized(3, 4)
    module = nnq.Softmax(-1, 0.01, 3) if kind == "Softmax" else getattr(nnq, kind)(0.01, 3)
    reference = getattr(torch.nn, kind)(*([-1] if kind == "Softmax" else []))
    expected = reference(x.dequantize()).clamp(-0.03, 2.52)
    assert (module(x).dequantize() - expected).abs().max() <= 0.00501


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_are_near_float(kind, bidirectional):
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(6, 8, num_layers=2, bidirectional=bidirectional)
    narrow = getattr(nnqd, kind).from_float(module)
    x = values(5, 3, 6)
    expected, state = module(x)
    result, own = narrow(x)
    assert (result - expected).abs().max() < 0.03
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 5, 3]), enforce_sorted=False)
    reference, _ = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0])
    assert (torch.nn.utils.rnn.pad_packed_sequence(narrow(packed)[0])[0] - reference).abs().max() < 0.03
    again = getattr(nnqd, kind)(6, 8, num_layers=2, bidirectional=bidirectional)
    again.load_state_dict(narrow.state_dict())
    assert torch.equal(again(x)[0], result)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_recurrent_cells_are_near_float(kind):
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(6, 8)
    narrow = getattr(nnqd, kind).from_float(module)
    first = lambda x: x[0] if isinstance(x, tuple) else x  # noqa: E731
    assert (first(narrow(values(3, 6))) - first(module(values(3, 6)))).abs().max() < 0.03
    again = getattr(nnqd, kind)(6, 8)
    again.load_state_dict(narrow.state_dict())
    assert torch.equal(first(again(values(3, 6))), first(narrow(values(3, 6))))


def test_tables_of_bytes():
    torch.manual_seed(0)
    table, bag = torch.nn.Embedding(10, 6), torch.nn.EmbeddingBag(10, 6, mode="sum")
    narrow, narrow_bag = nnq.Embedding.from_float(table), nnq.EmbeddingBag.from_float(bag)
    index = torch.tensor([[1, 2], [9, 1]])
    assert (narrow(index) - table(index)).abs().max() < 0.02
    assert (narrow_bag(index) - bag(index)).abs().max() < 0.04
    again = nnq.Embedding(10, 6)
    again.load_state_dict(narrow.state_dict())
    assert torch.equal(again(index), narrow(index))


@pytest.mark.parametrize("make", [lambda: nnq.Linear(4, 3), lambda: nnq.Conv2d(2, 3, 3), lambda: nnqd.Linear(4, 3)])
def test_modules_are_saved_with_their_levels(make):
    module = make()
    weight = torch.quantize_per_tensor(values(*module.weight().shape), 0.02, 0, torch.qint8)
    module.set_weight_bias(weight, values(3))
    module.scale, module.zero_point = 0.25, 7
    stream = io.BytesIO()
    torch.save(module.state_dict(), stream)
    stream.seek(0)
    other = make()
    other.load_state_dict(torch.load(stream))
    assert torch.equal(other.weight(), weight) and torch.equal(other.bias(), values(3))
    assert (other.scale, other.zero_point) == (0.25, 7)
    assert list(make().state_dict()) == list(module.state_dict())


def test_a_quantized_instance_norm_keeps_momentum_and_affine():
    layer = torch.nn.InstanceNorm1d(2, momentum=0.25, affine=True)
    layer.activation_post_process = torch.ao.quantization.default_observer()
    layer.activation_post_process(layer(values(1, 2, 3)))
    made = nnq.InstanceNorm1d.from_float(layer)
    assert (made.momentum, made.affine) == (0.25, True) and made.weight is layer.weight


@pytest.mark.parametrize("dims", [2, 3])
def test_the_step_of_quantized_pooling_is_the_window_by_default(dims):
    x = quantized(1, 2, *[4] * dims)
    pool = getattr(nnq.functional, f"avg_pool{dims}d")
    assert pool(x, 2).dequantize().equal(pool(x, 2, stride=2).dequantize())
