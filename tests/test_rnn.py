"""Recurrent layers and attention against their definitions in NumPy, and their derivatives against differences."""

import numpy as np
import pytest

import facula
from facula import nn
from facula.autograd.gradcheck import gradcheck, gradgradcheck
from facula.nn import functional as F

rng = np.random.default_rng(0)
MODES = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN_TANH": nn.RNN}


def double(*shape, grad=False):
    return facula.tensor(rng.standard_normal(shape).tolist(), dtype=facula.float64, requires_grad=grad)


def values(t):
    return np.array(t.tolist())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(mode, x, h, c, w_ih, w_hh, b_ih, b_hh):
    a, b = x @ w_ih.T + b_ih, h @ w_hh.T + b_hh
    if mode == "LSTM":
        i, f, g, o = np.split(a + b, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if mode == "GRU":
        (ar, az, an), (br, bz, bn) = np.split(a, 3, -1), np.split(b, 3, -1)
        r, z = sigmoid(ar + br), sigmoid(az + bz)
        return (1 - z) * np.tanh(an + r * bn) + z * h, c
    return np.tanh(a + b), c


@pytest.mark.parametrize("mode", MODES)
def test_layer(mode):
    layer = MODES[mode](3, 4, dtype=facula.float64)
    x, h0, c0 = double(5, 2, 3), double(1, 2, 4), double(1, 2, 4)
    output, final = layer(x, (h0, c0) if mode == "LSTM" else h0)
    h, c = values(h0)[0], values(c0)[0]
    weights = [values(w) for w in layer.parameters()]
    for t in range(5):
        h, c = step(mode, values(x)[t], h, c, *weights)
        np.testing.assert_allclose(values(output)[t], h, atol=1e-12)
    final = final if mode == "LSTM" else (final,)
    for got, want in zip(final, (h, c)):
        np.testing.assert_allclose(values(got)[0], want, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_packed_sequences_equal_single_ones(mode):
    layer = MODES[mode](3, 4, num_layers=2, bidirectional=True, dtype=facula.float64)
    sequences = [double(n, 3) for n in (5, 3, 2)]
    packed = nn.utils.rnn.pack_sequence(sequences)
    output, _ = layer(packed)
    output, lengths = nn.utils.rnn.pad_packed_sequence(output)
    assert lengths.tolist() == [5, 3, 2]
    for k, sequence in enumerate(sequences):
        want, _ = layer(sequence.unsqueeze(1))
        np.testing.assert_allclose(values(output)[: lengths[k].item(), k], values(want)[:, 0], atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", [*MODES, "RNN_RELU"])
def test_layer_derivatives(mode, reverse):
    factor = {"LSTM": 4, "GRU": 3}.get(mode, 1)
    inputs = [double(6, 2 * factor, grad=True), double(2, 2, grad=True), double(2 * factor, 2, grad=True)]
    inputs += [double(2 * factor, grad=True), double(2, 2, grad=True)]

    def layer(sizes):
        def run(gates, h0, w, b, c0):
            c0 = c0 if mode == "LSTM" else None
            output, h, c = facula._C.nn_functional._rnn_layer(gates, h0, c0, w, b, mode, sizes, reverse)
            return (output, h, c) if mode == "LSTM" else (output, h)

        return run

    used = inputs if mode == "LSTM" else [*inputs[:4], inputs[4].detach()]
    assert gradcheck(layer([2, 2, 2]), used)
    assert gradgradcheck(layer([2, 2, 2]), used)
    used[0] = double(5, 2 * factor, grad=True)
    assert gradcheck(layer([2, 2, 1]), used)


def test_public_functions():
    layer = nn.LSTM(3, 4, batch_first=True)
    x, state = facula.randn(2, 5, 3), (facula.zeros(1, 2, 4), facula.zeros(1, 2, 4))
    want = layer(x, state)
    output, h, c = facula.lstm(x, state, list(layer.parameters()), True, 1, 0.0, False, False, True)
    assert output.tolist() == want[0].tolist() and (h.tolist(), c.tolist()) == tuple(t.tolist() for t in want[1])
    cell = facula.gru_cell(facula.zeros(2, 3), facula.zeros(2, 4), facula.zeros(12, 3), facula.zeros(12, 4))
    assert cell.shape == (2, 4)
    with pytest.raises(TypeError, match="gru: takes the arguments"):
        facula.gru(x, state[0])


def test_layer_errors():
    layer = facula._C.nn_functional._rnn_layer
    with pytest.raises(ValueError, match="mode"):
        layer(facula.zeros(2, 4), facula.zeros(1, 4), None, facula.zeros(4, 4), None, "ELMAN", [1, 1], False)
    with pytest.raises(RuntimeError, match="never increase"):
        layer(facula.zeros(3, 4), facula.zeros(2, 4), None, facula.zeros(4, 4), None, "RNN_TANH", [1, 2], False)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("kind", ["none", "bool", "float", "causal", "scale"])
def test_attention(kind):
    q, k, v = double(2, 3, 4, 6), double(2, 3, 5, 6), double(2, 3, 5, 7)
    keep = np.tril(np.ones((4, 5), bool)) if kind == "causal" else rng.random((4, 5)) > 0.3
    keep[:, 0] = True
    added = rng.standard_normal((4, 5))
    scores = values(q) @ np.swapaxes(values(k), -1, -2) * (0.3 if kind == "scale" else 6**-0.5)
    options = {}
    if kind == "bool":
        options["attn_mask"] = facula.tensor(keep.tolist())
    elif kind == "float":
        options["attn_mask"] = facula.tensor(added.tolist(), dtype=facula.float64)
        scores = scores + added
    elif kind == "causal":
        options["is_causal"] = True
    elif kind == "scale":
        options["scale"] = 0.3
    if kind in ("bool", "causal"):
        scores = np.where(keep, scores, -np.inf)
    got = F.scaled_dot_product_attention(q, k, v, **options)
    np.testing.assert_allclose(values(got), softmax(scores) @ values(v), atol=1e-12)


def test_attention_with_shared_heads():
    q, k, v = double(1, 4, 3, 2), double(1, 2, 3, 2), double(1, 2, 3, 2)
    repeated = [t.repeat_interleave(2, 1) for t in (k, v)]
    got = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    np.testing.assert_allclose(values(got), values(F.scaled_dot_product_attention(q, *repeated)), atol=1e-12)


def test_attention_without_positions_is_zero():
    q = double(1, 2, 3, grad=True)
    mask = facula.tensor([[True, True], [False, False]])
    got = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert got[0, 1].tolist() == [0.0, 0.0, 0.0]
    got.sum().backward()
    assert np.isfinite(values(q.grad)).all()


def test_attention_errors():
    q = facula.zeros(1, 2, 3)
    with pytest.raises(RuntimeError, match="exclude each other"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=facula.zeros(2, 2), is_causal=True)
    with pytest.raises(RuntimeError, match="dtype"):
        F.scaled_dot_product_attention(q, q.double(), q)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_second_derivatives_of_packed_sequences(mode, reverse):
    factor = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1}[mode]
    gates, weight, bias = double(6, factor * 2, grad=True), double(factor * 2, 2, grad=True), double(factor * 2, grad=True)
    h0, c0 = double(3, 2, grad=True), double(3, 2, grad=True) if mode == "LSTM" else None

    def layer(*args):
        c = args[4] if c0 is not None else None
        output, h, c = facula._C.nn_functional._rnn_layer(args[0], args[1], c, args[2], args[3], mode, [3, 2, 1], reverse)
        return (output, h, c) if c0 is not None else (output, h)

    inputs = (gates, h0, weight, bias) + ((c0,) if c0 is not None else ())
    assert gradcheck(layer, inputs)
    assert gradgradcheck(layer, inputs)


@pytest.mark.parametrize("mode", MODES)
def test_forward_mode(mode):
    layer = MODES[mode](3, 4, dtype=facula.float64)
    x, t = double(5, 2, 3), double(5, 2, 3)
    value, tangent = facula.func.jvp(lambda a: layer(a)[0], (x,), (t,))
    difference = (layer(x + 1e-6 * t)[0] - layer(x - 1e-6 * t)[0]) / 2e-6
    np.testing.assert_allclose(values(tangent), values(difference), atol=1e-8)
    with facula.autograd.forward_ad.dual_level():
        with facula.no_grad():
            output = layer(facula.autograd.forward_ad.make_dual(x, t))[0]
        np.testing.assert_allclose(values(facula.autograd.forward_ad.unpack_dual(output).tangent), values(tangent), atol=1e-12)


def test_the_tangent_of_an_attention_mask():
    q, mask, t = double(2, 4, 3), double(4, 4), double(4, 4)
    attention = lambda m: F.scaled_dot_product_attention(q, q, q, attn_mask=m)  # noqa: E731
    difference = (attention(mask + 1e-6 * t) - attention(mask - 1e-6 * t)) / 2e-6
    with facula.autograd.forward_ad.dual_level():
        tangent = facula.autograd.forward_ad.unpack_dual(attention(facula.autograd.forward_ad.make_dual(mask, t))).tangent
    np.testing.assert_allclose(values(tangent), values(difference), atol=1e-8)


@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
def test_a_cell_is_one_step_of_the_layer(mode, dtype):
    layer, cell = getattr(nn, mode)(3, 5).to(dtype), getattr(nn, mode + "Cell")(3, 5).to(dtype)
    for mine, its in zip(cell.parameters(), layer.parameters()):
        mine.data.copy_(its)
    x, h, c = (facula.randn(4, n).to(dtype).requires_grad_() for n in (3, 5, 5))
    states = (h, c) if mode == "LSTM" else (h,)
    new = cell(x, states if mode == "LSTM" else h)
    _, final = layer(x.unsqueeze(0), tuple(s.unsqueeze(0) for s in states) if mode == "LSTM" else h.unsqueeze(0))
    new, final = (new, final) if mode == "LSTM" else ((new,), (final,))
    tolerance = 0.02 if dtype is facula.bfloat16 else 1e-6
    assert type(new) is tuple
    for a, b in zip(new, final):
        facula.testing.assert_close(a, b[0], rtol=tolerance, atol=tolerance)
    ours = facula.autograd.grad(sum(t.sum() for t in new), [x, *states, *cell.parameters()])
    theirs = facula.autograd.grad(sum(t.sum() for t in final), [x, *states, *layer.parameters()])
    for a, b in zip(ours, theirs):
        facula.testing.assert_close(a, b, rtol=tolerance, atol=10 * tolerance)
    single = cell(x[0], tuple(s[0] for s in states) if mode == "LSTM" else h[0])
    facula.testing.assert_close(single[0] if mode == "LSTM" else single, new[0][0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN"])
def test_cells_refuse_what_does_not_fit(mode):
    cell, name = getattr(nn, mode + "Cell")(3, 5), f"^{mode}Cell: "
    given = (lambda h: (h, h)) if mode == "LSTM" else (lambda h: h)
    for call, error in (
        (lambda: cell(facula.ones(4, 2)), RuntimeError),
        (lambda: cell(facula.ones(4, 2), given(facula.ones(4, 5))), RuntimeError),
        (lambda: cell(facula.ones(1, 4, 3)), ValueError),
        (lambda: cell(facula.ones(1, 4, 3), given(facula.ones(4, 5))), ValueError),
        (lambda: cell(facula.ones(4, 3), given(facula.ones(5, 5))), RuntimeError),
        (lambda: cell(facula.ones(4, 3), given(facula.ones(4, 4))), RuntimeError),
        (lambda: cell(facula.ones(4, 3), given(facula.ones(5))), RuntimeError),
        (lambda: cell(facula.ones(3), given(facula.ones(1, 5))), RuntimeError),
    ):
        with pytest.raises(error, match=name):
            call()


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_empty_batch(kind):
    module = kind(4, 6, 2, bidirectional=True)
    x = facula.ones(5, 0, 4, requires_grad=True)
    y, _ = module(x)
    assert y.shape == (5, 0, 12)
    y.sum().backward()
    assert x.grad.shape == x.shape and all(not p.grad.any() for p in module.parameters())


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}], ids=str)
def test_lstm_of_bfloat16_is_computed_in_float32(options):
    facula.manual_seed(0)
    narrow = facula.nn.LSTM(5, 6, **options).bfloat16()
    wide = facula.nn.LSTM(5, 6, **options)
    wide.load_state_dict({name: value.float() for name, value in narrow.state_dict().items()})
    x = facula.randn(7, 7, 5).bfloat16()
    layers = 4 if "num_layers" in options else 1
    h, c = facula.randn(layers, 7, 6).bfloat16(), facula.randn(layers, 7, 6)
    output, (h_n, c_n) = narrow(x, (h, c))
    wanted, (h_w, c_w) = wide(x.float(), (h.float(), c))
    assert (output.dtype, h_n.dtype, c_n.dtype) == (facula.bfloat16, facula.bfloat16, facula.float32), "each state keeps its dtype"
    if layers == 1:  # the input of a second layer is rounded
        assert facula.equal(output, wanted.bfloat16()) and facula.equal(h_n, h_w.bfloat16()) and facula.equal(c_n, c_w)
    assert narrow(x, (h, c.bfloat16()))[1][1].dtype is facula.bfloat16
    output.float().sum().backward()
    wanted.sum().backward()
    for (name, p), q in zip(narrow.named_parameters(), wide.parameters(), strict=True):
        assert p.grad.dtype is facula.bfloat16
        assert (p.grad.float() - q.grad).abs().max() <= 0.02 * q.grad.abs().max(), name
    with pytest.raises(RuntimeError, match="same dtype"):
        narrow(x, (h.float(), c))


def test_lstm_in_a_region_is_the_lstm_of_bfloat16():
    wide = facula.nn.LSTM(8, 16)
    narrow = facula.nn.LSTM(8, 16).bfloat16()
    narrow.load_state_dict(wide.state_dict())
    x = facula.randn(5, 3, 8)
    expected, (h, c) = narrow(x.bfloat16())
    for layer in (wide, narrow):
        with facula.autocast("cpu", dtype=facula.bfloat16):
            output, states = layer(x)
        assert output.dtype == facula.bfloat16 and facula.equal(output, expected)
        assert facula.equal(states[0], h) and facula.equal(states[1], c)
