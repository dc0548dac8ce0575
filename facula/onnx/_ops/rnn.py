"""Translate recurrent layers: one node of ONNX for a layer in both directions."""

from ._table import op

#: in which order ONNX has the gates: input, output, forget, cell for PyTorch's input, forget, cell, output; z, r, n for r, z, n
_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _gates(g, kind, weight):
    order = _ORDER[kind]
    if len(order) == 1:
        return weight
    hidden = weight.shape[0] // len(order)
    return g.concat([g.cut(weight, 0, i * hidden, (i + 1) * hidden) for i in order], 0)


def _layer(g, kind, x, states, weights, directions, **attributes):
    """Compute one layer: x [steps, batch, input], states each [directions, batch, hidden]; weights of each direction."""
    stack = lambda i: g.concat([g.unsqueeze(_gates(g, kind, w[i]), 0) for w in weights], 0)
    biases = None
    if len(weights[0]) > 2:
        biases = g.concat([g.unsqueeze(g.concat([_gates(g, kind, b) for b in w[2:4]], 0), 0) for w in weights], 0)
    hidden = weights[0][1].shape[1]
    node = getattr(g, kind)
    results = node(
        x, stack(0), stack(1), biases, None, *states, outputs=1 + len(states), hidden_size=hidden,
        direction="bidirectional" if directions == 2 else "forward", **attributes,
    )  # fmt: skip
    steps, batch = x.shape[:2]
    y = results[0]  # [steps, directions, batch, hidden]
    y.shape = (steps, directions, batch, hidden)
    if directions == 1:
        return g.squeeze(y, 1), results[1:]
    sizes = [*g.shape_of(x)[:2], directions * hidden]
    return g.reshape(g.Transpose(y, perm=[0, 2, 1, 3]), sizes), results[1:]


def _network(g, kind, input, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, **attributes):
    if train and dropout and num_layers > 1:
        raise NotImplementedError(f"onnx.export: {kind} with dropout while training has no translation to ONNX")
    directions, each = (2 if bidirectional else 1), (4 if has_biases else 2)
    if len(params) != num_layers * directions * each:
        raise NotImplementedError(f"onnx.export: {kind} with projections has no translation to ONNX")
    flat = input.rank == 2
    if flat:
        input, states = g.unsqueeze(input, 1), [g.unsqueeze(s, 1) for s in states]
    elif batch_first:
        input = g.permute(input, [1, 0, 2])
    x, last = input, []
    for layer in range(num_layers):
        start = layer * directions * each
        weights = [params[start + d * each : start + (d + 1) * each] for d in range(directions)]
        own = [g.cut(s, 0, layer * directions, (layer + 1) * directions) for s in states]
        x, ends = _layer(g, kind, x, own, weights, directions, **attributes)
        last.append(ends)
    finals = [g.concat([ends[i] for ends in last], 0) for i in range(len(states))]
    if flat:
        return g.squeeze(x, 1), *(g.squeeze(f, 1) for f in finals)
    return g.permute(x, [1, 0, 2]) if batch_first else x, *finals


@op("lstm.input lstm")
def lstm(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
    return _network(g, "LSTM", input, list(hx), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@op("gru.input gru")
def gru(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
    settings = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    # PyTorch multiplies by the reset gate after the product with the hidden state; ONNX's default is before it.
    return _network(g, "GRU", input, [hx], params, *settings, linear_before_reset=1)


def _plain(g, function, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
    settings = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return _network(g, "RNN", input, [hx], params, *settings, activations=[function] * (2 if bidirectional else 1))


@op("rnn_tanh.input rnn_tanh")
def rnn_tanh(g, *args, **kwargs):
    return _plain(g, "Tanh", *args, **kwargs)


@op("rnn_relu.input rnn_relu")
def rnn_relu(g, *args, **kwargs):
    return _plain(g, "Relu", *args, **kwargs)


def _sums(g, input, hx, w_ih, w_hh, b_ih, b_hh):
    from .matmul import linear

    return linear(g, input, w_ih, b_ih), linear(g, hx, w_hh, b_hh)


def _parts(g, value, count):
    width = value.shape[-1] // count
    return [g.cut(value, -1, i * width, (i + 1) * width) for i in range(count)]


@op("lstm_cell")
def lstm_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    a, b = _sums(g, input, hx[0], w_ih, w_hh, b_ih, b_hh)
    i, f, c, o = _parts(g, a + b, 4)
    cell = g.Sigmoid(f) * hx[1] + g.Sigmoid(i) * g.Tanh(c)
    return g.Sigmoid(o) * g.Tanh(cell), cell


@op("gru_cell")
def gru_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    a, b = (_parts(g, v, 3) for v in _sums(g, input, hx, w_ih, w_hh, b_ih, b_hh))
    reset, update = g.Sigmoid(a[0] + b[0]), g.Sigmoid(a[1] + b[1])
    new = g.Tanh(a[2] + reset * b[2])
    # The same as (1 - update) * new + update * hx, with one product less.
    return (hx - new) * update + new


@op("rnn_tanh_cell")
def rnn_tanh_cell(g, *args):
    a, b = _sums(g, *args, *[None] * (6 - len(args)))
    return g.Tanh(a + b)


@op("rnn_relu_cell")
def rnn_relu_cell(g, *args):
    a, b = _sums(g, *args, *[None] * (6 - len(args)))
    return g.Relu(a + b)
