"""Layers against their formulas in NumPy."""

import numpy as np
import pytest

import facula
from facula import nn


def array(tensor):
    return tensor.detach().numpy()


def tensor(shape, seed=0):
    return facula.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_linear_and_bilinear():
    x, y = tensor((5, 3)), tensor((5, 2), 1)
    layer = nn.Linear(3, 4)
    np.testing.assert_allclose(
        array(layer(x)), array(x) @ array(layer.weight).T + array(layer.bias), rtol=1e-5, atol=1e-6
    )
    assert np.abs(array(layer.weight)).max() <= 1 / np.sqrt(3)
    pair = nn.Bilinear(3, 2, 4)
    expected = np.einsum("ni,kij,nj->nk", array(x), array(pair.weight), array(y)) + array(pair.bias)
    np.testing.assert_allclose(array(pair(x, y)), expected, rtol=1e-4, atol=1e-5)


def test_conv2d_same_padding_modes():
    x = tensor((1, 1, 4, 4))
    layer = nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular", bias=False)
    padded = np.pad(array(x), ((0, 0), (0, 0), (1, 1), (1, 1)), mode="wrap")
    windows = np.lib.stride_tricks.sliding_window_view(padded[0, 0], (3, 3))
    expected = np.einsum("ijkl,kl->ij", windows, array(layer.weight)[0, 0])
    np.testing.assert_allclose(array(layer(x))[0, 0], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="Conv2d: padding 'same' needs stride 1"):
        nn.Conv2d(1, 1, 3, stride=2, padding="same")


def test_conv_transpose_output_size():
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
    x = tensor((1, 2, 4, 4))
    assert layer(x).shape == (1, 3, 7, 7)
    assert layer(x, output_size=(8, 8)).shape == (1, 3, 8, 8)
    with pytest.raises(ValueError, match=r"output_size\[0\].*got \(9, 9\)"):
        layer(x, output_size=(9, 9))


def test_batch_norm_statistics():
    layer, x = nn.BatchNorm1d(3, momentum=None), tensor((6, 3)) * 2 + 1
    values = array(x)
    expected = (values - values.mean(0)) / np.sqrt(values.var(0) + 1e-5)
    np.testing.assert_allclose(array(layer(x)), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(array(layer.running_mean), values.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(array(layer.running_var), values.var(0, ddof=1), rtol=1e-5)
    layer.eval()
    expected = (values - values.mean(0)) / np.sqrt(values.var(0, ddof=1) + 1e-5)
    np.testing.assert_allclose(array(layer(x)), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="more than one value per channel"):
        layer.train()(x[:1])
    with pytest.raises(ValueError, match="BatchNorm2d: the input must have 4 dimensions"):
        nn.BatchNorm2d(3)(x)


@pytest.mark.parametrize(
    "layer, axes", [(nn.LayerNorm(4), -1), (nn.InstanceNorm1d(3), -1), (nn.GroupNorm(1, 3), (1, 2))]
)
def test_normalizations(layer, axes):
    x = tensor((2, 3, 4))
    values = array(x)
    mean, var = values.mean(axes, keepdims=True), values.var(axes, keepdims=True)
    np.testing.assert_allclose(array(layer(x)), (values - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)


def test_embedding():
    table = nn.Embedding(5, 3, padding_idx=1, max_norm=0.5)
    assert not array(table.weight)[1].any()
    out = array(table(facula.tensor([[0, 4], [1, 4]])))
    np.testing.assert_allclose(out, array(table.weight)[[[0, 4], [1, 4]]])
    assert np.linalg.norm(array(table.weight)[[0, 4]], axis=1).max() <= 0.5 + 1e-5
    frozen = nn.Embedding.from_pretrained(facula.ones(2, 2))
    assert not frozen.weight.requires_grad


@pytest.mark.parametrize("mode", ["RNN", "GRU", "LSTM"])
def test_layer_repeats_its_cell(mode):
    facula.manual_seed(0)
    layer, cell = getattr(nn, mode)(3, 4), getattr(nn, mode + "Cell")(3, 4)
    cell.load_state_dict({k.replace("_l0", ""): v for k, v in layer.state_dict().items()})
    x, hidden, outputs = tensor((6, 2, 3)), None, []
    for step in x:
        hidden = cell(step, hidden)
        outputs.append(hidden[0] if mode == "LSTM" else hidden)
    output, final = layer(x)
    np.testing.assert_allclose(array(output), array(facula.stack(outputs)), rtol=1e-5, atol=1e-6)
    last = final[0] if mode == "LSTM" else final
    np.testing.assert_allclose(array(last[0]), array(outputs[-1]), rtol=1e-5, atol=1e-6)


def test_lstm_cell_formula():
    cell = nn.LSTMCell(2, 3)
    x, h, c = tensor((1, 2)), tensor((1, 3), 1), tensor((1, 3), 2)
    gates = array(x) @ array(cell.weight_ih).T + array(cell.bias_ih)
    gates = gates + array(h) @ array(cell.weight_hh).T + array(cell.bias_hh)
    i, f, g, o = np.split(gates, 4, axis=1)

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    new_c = sigmoid(f) * array(c) + sigmoid(i) * np.tanh(g)
    got_h, got_c = cell(x, (h, c))
    np.testing.assert_allclose(array(got_c), new_c, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(array(got_h), sigmoid(o) * np.tanh(new_c), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["RNN", "GRU", "LSTM"])
def test_packed_sequences_equal_single_ones(mode):
    layer = getattr(nn, mode)(2, 3, num_layers=2, bidirectional=True)
    sequences = [tensor((n, 2), n) for n in (3, 5, 2)]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    output, _ = layer(packed)
    for sequence, got in zip(sequences, nn.utils.rnn.unpack_sequence(output)):
        expected, _ = layer(sequence)
        np.testing.assert_allclose(array(got), array(expected), rtol=1e-5, atol=1e-6)


def test_multihead_attention_formula():
    layer = nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
    x = tensor((1, 3, 4))
    w_q, w_k, w_v = np.split(array(layer.in_proj_weight), 3)
    heads = []
    for head in range(2):
        part = slice(2 * head, 2 * head + 2)
        q, k, v = (array(x)[0] @ w[part].T for w in (w_q, w_k, w_v))
        scores = q @ k.T / np.sqrt(2)
        scores[np.triu_indices(3, 1)] = -np.inf
        weights = np.exp(scores - scores.max(1, keepdims=True))
        heads.append(weights / weights.sum(1, keepdims=True) @ v)
    expected = np.concatenate(heads, 1) @ array(layer.out_proj.weight).T
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    for need_weights in (True, False):
        got, weights = layer(x, x, x, attn_mask=mask, need_weights=need_weights)
        np.testing.assert_allclose(array(got)[0], expected, rtol=1e-4, atol=1e-5)
        assert (weights is not None) is need_weights
    with pytest.raises(AssertionError, match="got 10 and 3"):
        nn.MultiheadAttention(10, 3)


def test_transformer_shapes_and_causality():
    net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0).eval()
    source, target = tensor((5, 2, 8)), tensor((4, 2, 8), 1)
    mask = net.generate_square_subsequent_mask(4)
    out = array(net(source, target, tgt_mask=mask))
    assert out.shape == (4, 2, 8)
    changed = target.clone()
    changed[3] = 0.0
    np.testing.assert_allclose(array(net(source, changed, tgt_mask=mask))[:3], out[:3], rtol=1e-5, atol=1e-6)


def test_lazy_layers_become_ordinary():
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    with pytest.raises(RuntimeError, match="UninitializedParameter"):
        _ = net[0].weight.shape
    assert net(tensor((2, 3, 5, 5))).shape == (2, 2)
    assert type(net[0]) is nn.Conv2d and type(net[1]) is nn.BatchNorm2d and type(net[3]) is nn.Linear
    assert net[3].in_features == 36 and type(net[0].weight) is nn.Parameter


def test_adaptive_softmax_is_a_distribution():
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7], div_value=2.0)
    x, target = tensor((5, 6)), facula.tensor([0, 2, 4, 8, 11])
    log_prob = array(layer.log_prob(x))
    np.testing.assert_allclose(np.exp(log_prob).sum(1), 1.0, rtol=1e-5)
    output, loss = layer(x, target)
    np.testing.assert_allclose(array(output), log_prob[np.arange(5), [0, 2, 4, 8, 11]], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss.item(), -array(output).mean(), rtol=1e-5)
    np.testing.assert_array_equal(array(layer.predict(x)), log_prob.argmax(1))
