"""Define recurrent layers as ops of PyTorch's core IR, step by step, forwards and backwards: rules for
`_backward_rules.RULES`.

The forward rule saves for the backward one the values of the gates (LSTM: input, forget, cell, output; GRU: reset, update,
new, and the recurrent part of new; otherwise the new state), and the states before every step.
"""

from __future__ import annotations

from facula.export._functional import op
from facula.export._rule_words import RULES, added, less, times


def _rows(x, start, end):
    return op("slice.Tensor", x, 0, start, end, 1)


def _part(x, k, hidden):
    return op("slice.Tensor", x, 1, k * hidden, (k + 1) * hidden, 1)


def _turned(x):
    return op("permute.default", x, [1, 0])


def _joined(parts, dim):
    return op("cat.default", parts, dim) if len(parts) > 1 else parts[0]


def _lstm(x, h, c, weight, bias, hidden):
    sums = added(x, _product(h, weight, bias))
    i, f, o = (op("sigmoid.default", _part(sums, k, hidden)) for k in (0, 1, 3))
    g = op("tanh.default", _part(sums, 2, hidden))
    c = added(times(f, c), times(i, g))
    return times(o, op("tanh.default", c)), c, [i, f, g, o]


def _gru(x, h, c, weight, bias, hidden):
    recurrent = _product(h, weight, bias)
    r, z = (op("sigmoid.default", added(_part(x, k, hidden), _part(recurrent, k, hidden))) for k in (0, 1))
    last = _part(recurrent, 2, hidden)
    n = op("tanh.default", added(_part(x, 2, hidden), times(r, last)))
    return added(times(less(h, n), z), n), c, [r, z, n, last]


def _plain(activation):
    def step(x, h, c, weight, bias, hidden):
        h = op(activation, added(x, _product(h, weight, bias)))
        return h, c, [h]

    return step


def _product(h, weight, bias):
    turned = _turned(weight)
    return op("mm.default", h, turned) if bias is None else op("addmm.default", bias, h, turned)


_STEPS = {"LSTM": _lstm, "GRU": _gru, "RNN_TANH": _plain("tanh.default"), "RNN_RELU": _plain("relu.default")}


def _places(batch_sizes, reverse):
    """Return (start, end) of every step's rows, in the order in which they run; None for packed sequences."""
    if not batch_sizes or any(n != batch_sizes[0] for n in batch_sizes):
        return None
    places = [(k * batch_sizes[0], (k + 1) * batch_sizes[0]) for k in range(len(batch_sizes))]
    return places[::-1] if reverse else places


def steps(gates, h0, c0, weight, bias, mode, batch_sizes, reverse):
    """Compute `_rnn_steps`: output, final states, and what `steps_backward` takes."""
    places = _places(batch_sizes, reverse)
    if places is None or h0.shape[0] != batch_sizes[0]:
        return NotImplemented
    h, c, hidden, all_steps = h0, c0, int(h0.shape[1]), []
    for start, end in places:
        before = h, c
        h, c, saved = _STEPS[mode](_rows(gates, start, end), h, c, weight, bias, hidden)
        all_steps.append((start, h, _joined(saved, 1), *before))
    # Back into the order of the rows: the other direction has run from the end.
    all_steps.sort(key=lambda one: one[0])
    output, saved, before = (_joined([one[k] for one in all_steps], 0) for k in (1, 2, 3))
    empty = op("full.default", [0], 0.0, gates.dtype)
    if mode != "LSTM":
        return output, h, empty, saved, before, empty
    return output, h, c, saved, before, _joined([one[4] for one in all_steps], 0)


def _lstm_back(dh, dc, saved, before, c_before, hidden):
    i, f, g, o = (_part(saved, k, hidden) for k in range(4))
    t = op("tanh.default", added(times(f, c_before), times(i, g)))
    dc = added(dc, times(dh, o, less(1, times(t, t))))
    sigmoids = [times(d, y, less(1, y)) for d, y in ((times(dc, g), i), (times(dc, c_before), f), (times(dh, t), o))]
    made = op("cat.default", [*sigmoids[:2], times(dc, i, less(1, times(g, g))), sigmoids[2]], 1)
    return made, made, None, times(dc, f)


def _gru_back(dh, dc, saved, before, c_before, hidden):
    r, z, n, last = (_part(saved, k, hidden) for k in range(4))
    dn = times(dh, less(1, z), less(1, times(n, n)))
    dz = times(dh, less(before, n), z, less(1, z))
    dr = times(dn, last, r, less(1, r))
    return op("cat.default", [dr, dz, dn], 1), op("cat.default", [dr, dz, times(dn, r)], 1), times(dh, z), dc


def _tanh_back(dh, dc, saved, before, c_before, hidden):
    made = times(dh, less(1, times(saved, saved)))
    return made, made, None, dc


def _relu_back(dh, dc, saved, before, c_before, hidden):
    made = op("where.default", op("gt.default", saved, 0), dh, op("full.default", [], 0.0, dh.dtype))
    return made, made, None, dc


_BACK = {"LSTM": _lstm_back, "GRU": _gru_back, "RNN_TANH": _tanh_back, "RNN_RELU": _relu_back}


def steps_backward(
    grad_output, grad_h, grad_c, weight, saved, before, c_before, mode, batch_sizes, reverse, rows, of_state, of_weight, of_bias
):  # fmt: skip
    """Compute _rnn_steps_backward: gradients of the gates, the states, the weight and the bias."""
    places = _places(batch_sizes, reverse)
    if places is None or rows != batch_sizes[0]:
        return NotImplemented
    hidden = int(before.shape[1])
    zeros = op("full.default", [rows, hidden], 0.0, weight.dtype)
    dh, dc = (zeros if t is None else t for t in (grad_h, grad_c))
    made = []
    for start, end in reversed(places):
        if grad_output is not None:
            dh = added(dh, _rows(grad_output, start, end))
        cell = _rows(c_before, start, end) if mode == "LSTM" else None
        kept = _rows(saved, start, end), _rows(before, start, end), cell
        of_x, of_h, rest, dc = _BACK[mode](dh, dc, *kept, hidden)
        dh = op("mm.default", of_h, weight)
        dh = dh if rest is None else added(dh, rest)
        made.append((start, of_x, of_h))
    made.sort(key=lambda one: one[0])
    gates, recurrent = (_joined([one[k] for one in made], 0) for k in (1, 2))
    return (
        gates, dh if of_state else None, dc if of_state else None,
        op("mm.default", _turned(recurrent), before) if of_weight else None,
        op("sum.dim", recurrent, [0], False) if of_bias else None,
    )  # fmt: skip


RULES["_rnn_steps.default"] = steps
RULES["_rnn_steps_backward.default"] = steps_backward
