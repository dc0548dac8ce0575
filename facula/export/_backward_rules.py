"""What private ops, of which backward passes are full, are made of: rules by Facula's names, of ops of PyTorch's core IR.

As in `_decompositions.py`; these are found where an op has no name in PyTorch.

Long because it is one table, rule by rule: activations, losses, recurrent layers.
"""

from __future__ import annotations

import math

import facula
from facula.export._decompositions import _cast, _decomposed_scores, _expand, _in_order_of_query, _swapped, _view, matmul
from facula.export._functional import op

#: rules by Facula's names
RULES = {}


# ---- What rules for private ops are written with: short names of ops, and where the rules are noted


def private(function):
    """Note a rule under its function's name, the op's."""
    RULES[f"{function.__name__}.default"] = function
    return function


def added(a, b):
    return op("add.default", a, b)


def less(a, b):
    return op("sub.default", a, b)


def times(a, *others):
    for b in others:
        a = op("mul.default", a, b)
    return a


def over(a, b):
    return op("div.default", a, b)


def total(x, dims, keep=False):
    return op("sum.dim", x, dims, keep)


def number(value, like):
    return op("full.default", [], value, like.dtype)


def where(condition, a, b):
    return op("where.default", condition, a, b)


def zeros(sizes, like):
    return op("full.default", list(sizes), 0, like.dtype)


# ---- element by element

RULES["_mse_each.default"] = lambda x, target: op("pow.default", less(x, target), 2)
RULES["_mse_backward.default"] = lambda grad, x, target: times(grad, less(x, target), 2)


# ---- Losses as ops of PyTorch's core IR, forwards and backwards


@private
def _smooth_l1_each(x, target, beta):
    distance = op("abs.default", less(x, target))
    if not beta:
        return distance
    near = times(distance, distance, 0.5 / beta)
    return where(op("lt.default", distance, beta), near, less(distance, 0.5 * beta))


@private
def _smooth_l1_backward(grad, x, target, beta):
    if not beta:
        return NotImplemented
    return times(op("clamp.default", over(less(x, target), beta), -1, 1), grad)


@private
def _huber_each(x, target, delta):
    distance = op("abs.default", less(x, target))
    near, far = times(distance, distance, 0.5), times(less(distance, 0.5 * delta), delta)
    return where(op("lt.default", distance, delta), near, far)


@private
def _huber_backward(grad, x, target, delta):
    return times(op("clamp.default", less(x, target), -delta, delta), grad)


def _limited_log(x):
    return op("clamp.default", op("log.default", x), -100, None)


@private
def _bce_each(x, target):
    return less(times(less(target, 1), _limited_log(less(1, x))), times(target, _limited_log(x)))


@private
def _bce_backward(grad, x, target):
    return over(times(grad, less(x, target)), op("clamp.default", times(less(1, x), x), 1e-12, None))


@private
def _bce_logits_each(x, target):
    tail = op("log1p.default", op("exp.default", op("neg.default", op("abs.default", x))))
    below = op("relu.default", op("neg.default", x))
    return added(added(times(less(1, target), x), below), tail)


# ---- of classes (N, C, ...)


def _classes(target, ignored):
    """Return which targets count, and the class of each, with a dimension for the classes."""
    counts = op("ne.default", target, ignored)
    return counts, op("unsqueeze.default", where(counts, target, op("full.default", [], 0, target.dtype)), 1)


def _each_class(weight, dim):
    return _view(weight, 1, weight.shape[0], *[1] * (dim - 2))


def _of_target(x, index):
    return op("squeeze.dim", op("gather.default", x, 1, index), 1)


def _picked(scores, target, weight, reduction, ignored, smoothing=0.0):
    """Return the loss of log-probabilities, and the sum of the weights that count."""
    counts, index = _classes(target, ignored)
    each, share, smooth = op("neg.default", _of_target(scores, index)), _cast(counts, scores.dtype), scores
    if weight is not None:
        weights = _each_class(weight, scores.dim())
        chosen = _of_target(_expand(weights, *scores.shape), index)
        each, share, smooth = times(each, chosen), times(share, chosen), times(scores, weights)
    if smoothing:
        rest = times(total(smooth, [1]), -smoothing / scores.shape[1])
        each = added(times(each, 1 - smoothing), rest)
    each, weight_sum = where(counts, each, number(0.0, each)), op("sum.default", share)
    if reduction == 0:
        return each, weight_sum
    loss = op("sum.default", each)
    return (loss if reduction == 2 else over(loss, weight_sum)), weight_sum


def _of_each(grad, target, weight_sum, reduction, ignored):
    """Return the gradient of every target's loss, with a dimension for the classes."""
    counts, index = _classes(target, ignored)
    grad = over(grad, weight_sum) if reduction == 1 else grad
    return op("unsqueeze.default", times(_cast(counts, grad.dtype), grad), 1), index


@private
def _nll(x, target, weight, reduction, ignored):
    return _picked(x, target, weight, reduction, ignored)


@private
def _nll_backward(grad, sizes, target, weight, weight_sum, reduction, ignored):
    each, index = _of_each(grad, target, weight_sum, reduction, ignored)
    chosen = op("scatter.value", zeros(sizes, grad), 1, index, -1.0)
    chosen = chosen if weight is None else times(chosen, _each_class(weight, len(sizes)))
    return times(chosen, each)


@private
def _cross_entropy(x, target, weight, reduction, ignored, smoothing):
    scores = op("_core_log_softmax.default", x, 1, False)
    log_sum = op("select.int", less(x, scores), 1, 0)
    return *_picked(scores, target, weight, reduction, ignored, smoothing), log_sum


@private
def _cross_entropy_backward(grad, x, target, weight, weight_sum, log_sum, reduction, ignored, smoothing):
    each, index = _of_each(grad, target, weight_sum, reduction, ignored)
    factors = op("scatter.value", zeros(x.shape, x), 1, index, 1.0 - smoothing)
    factors = added(factors, smoothing / x.shape[1]) if smoothing else factors
    shares, whole = op("exp.default", less(x, op("unsqueeze.default", log_sum, 1))), 1
    if weight is not None:
        factors = times(factors, _each_class(weight, x.dim()))
        whole = total(factors, [1], True)
    return times(less(times(shares, whole), factors), each)


# ---- Recurrent layers as ops of PyTorch's core IR, step by step, forwards and backwards.
#
# What the forward rule keeps for the backward one: the gates' values (LSTM: input, forget, cell, output; GRU: reset, update,
# new, and the recurrent part of new; else the new state), and the states before every step.


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
    """Compute _rnn_steps: output, final states, and what `steps_backward` takes."""
    places = _places(batch_sizes, reverse)
    if places is None or h0.shape[0] != batch_sizes[0]:
        return NotImplemented
    h, c, hidden, kept = h0, c0, int(h0.shape[1]), []
    for start, end in places:
        before = h, c
        h, c, saved = _STEPS[mode](_rows(gates, start, end), h, c, weight, bias, hidden)
        kept.append((start, h, _joined(saved, 1), *before))
    kept.sort(key=lambda one: one[0])
    output, saved, before = (_joined([one[k] for one in kept], 0) for k in (1, 2, 3))
    empty = op("full.default", [0], 0.0, gates.dtype)
    if mode != "LSTM":
        return output, h, empty, saved, before, empty
    return output, h, c, saved, before, _joined([one[4] for one in kept], 0)


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


# ---- conversions, activations

RULES["_where.default"] = where
RULES["to_dtype.default"] = _cast
RULES["_softmax.default"] = lambda x, dim: op("_core_softmax.default", x, dim, False)
RULES["_log_softmax.default"] = lambda x, dim: op("_core_log_softmax.default", x, dim, False)
RULES["_gelu_erf.default"] = lambda x: op("gelu.default", x, "none")
RULES["_gelu_tanh.default"] = lambda x: op("gelu.default", x, "tanh")
RULES["_sigmoid_backward.default"] = lambda grad, y: times(grad, times(less(1, y), y))
RULES["_tanh_backward.default"] = lambda grad, y: times(grad, less(1, times(y, y)))
RULES["_square.default"] = lambda x: times(x, x)
RULES["_cube.default"] = lambda x: times(x, x, x)
RULES["_logit_backward.default"] = lambda grad, x: over(grad, times(x, less(1, x)))


@private
def _clamp(x, least, most):
    if isinstance(least, facula.Tensor) or isinstance(most, facula.Tensor):
        return NotImplemented
    return op("clamp.default", x, least, most)


@private
def _threshold_backward(grad, x, threshold):
    return where(op("le.default", x, threshold), number(0.0, grad), grad)


@private
def _leaky_relu_backward(grad, x, slope):
    return where(op("gt.default", x, 0), grad, times(grad, slope))


@private
def _elu_backward(grad, x, alpha, scale, input_scale):
    below = times(grad, input_scale * alpha * scale, op("exp.default", times(x, input_scale)))
    return where(op("le.default", x, 0), below, times(grad, scale))


@private
def _hardtanh_backward(grad, x, least, most):
    outside = op("logical_or.default", op("le.default", x, least), op("ge.default", x, most))
    return where(outside, number(0.0, grad), grad)


@private
def _hardsigmoid_backward(grad, x):
    inside = op("logical_and.default", op("gt.default", x, -3), op("lt.default", x, 3))
    return where(inside, over(grad, 6), number(0.0, grad))


@private
def _hardswish_backward(grad, x):
    between = where(op("lt.default", x, 3), times(grad, added(over(x, 3), 0.5)), grad)
    return where(op("gt.default", x, -3), between, number(0.0, grad))


@private
def _shrink_backward(grad, x, least):
    return where(op("gt.default", op("abs.default", x), least), grad, number(0.0, grad))


@private
def _mish_backward(grad, x):
    log = where(op("gt.default", x, 20), x, op("log1p.default", op("exp.default", x)))
    t = op("tanh.default", log)
    return times(grad, added(t, times(x, less(1, times(t, t)), op("sigmoid.default", x))))


@private
def _silu_backward(grad, x):
    s = op("sigmoid.default", x)
    return times(grad, s, added(times(x, less(1, s)), 1))


@private
def _softplus_backward(grad, x, beta, threshold):
    scaled = times(x, beta)
    return where(op("gt.default", scaled, threshold), grad, times(grad, op("sigmoid.default", scaled)))


@private
def _gelu_erf_backward(grad, x):
    share = times(added(op("erf.default", times(x, math.sqrt(0.5))), 1), 0.5)
    density = times(op("exp.default", times(x, x, -0.5)), 1 / math.sqrt(2 * math.pi))
    return times(grad, added(share, times(x, density)))


@private
def _gelu_tanh_backward(grad, x):
    scale, cube, squared = math.sqrt(2 / math.pi), 0.044715, times(x, x)
    t = op("tanh.default", times(added(x, times(x, squared, cube)), scale))
    slope = times(added(times(squared, 3 * cube), 1), scale)
    return times(grad, added(times(added(t, 1), 0.5), times(x, less(1, times(t, t)), slope, 0.5)))


@private
def _softmax_backward(grad, y, dim):
    return times(y, less(grad, total(times(grad, y), [dim], True)))


@private
def _log_softmax_backward(grad, y, dim):
    return less(grad, times(op("exp.default", y), total(grad, [dim], True)))


# ---- attention


@private
def _attention(q, k, v, mask, seed, dropout, causal, scale, by_library):
    if seed is not None or dropout or by_library or q.dtype not in (facula.float32, facula.float64):
        return NotImplemented
    scores, weights = _decomposed_scores(q, k, mask, causal, scale)
    most = op("amax.default", scores, [-1], True)
    most = where(op("eq.default", most, -math.inf), number(0.0, most), most)
    sums = op("log.default", total(op("exp.default", less(scores, most)), [-1], True))
    return _in_order_of_query(matmul(weights, v), q), op("squeeze.dim", added(sums, most), -1)


@private
def _attention_backward(grad, q, k, v, mask, seed, attended, sums, dropout, causal, scale, by_library):
    if seed is not None or dropout or by_library or q.dtype not in (facula.float32, facula.float64):
        return NotImplemented
    _, weights = _decomposed_scores(q, k, mask, causal, scale)
    of_weights = less(matmul(grad, _swapped(v, -2, -1)), total(times(grad, attended), [-1], True))
    of_scores = times(weights, of_weights, scale)
    return matmul(of_scores, k), matmul(_swapped(of_scores, -2, -1), q), matmul(_swapped(weights, -2, -1), grad)


# ---- norms


def _normalized(x, channels):
    """Return the last dimensions, of that many elements; None where there are none."""
    for k in range(x.dim()):
        if math.prod(int(n) for n in x.shape[k:]) == channels:
            return list(x.shape[k:])
    return None


def _groups(x, groups, channels):
    """Return native_group_norm's numbers: N, C, HxW, groups."""
    return x.shape[0], groups * channels, math.prod(x.shape[2:]), groups


def _is_layer(x, groups, channels):
    return groups == 1 and _normalized(x, channels) is not None


def _mean_square_norm(x, weight, rows, groups, channels, eps):
    if not _is_layer(x, groups, channels) or x.dtype not in (facula.float32, facula.float64):
        return NotImplemented
    flat = _view(x, rows, channels)
    rstd = op("rsqrt.default", added(op("mean.dim", times(flat, flat), [1], True), eps))
    y = times(flat, rstd) if weight is None else times(flat, rstd, weight)
    return _view(y, *x.shape), zeros([rows], x), _view(rstd, rows)


def _mean_square_norm_backward(grad, x, weight, rstd, groups, channels):
    if not _is_layer(x, groups, channels) or x.dtype not in (facula.float32, facula.float64):
        return NotImplemented
    rows = rstd.shape[0]
    flat, rstd, grad = _view(x, rows, channels), _view(rstd, rows, 1), _view(grad, rows, channels)
    normal = times(flat, rstd)
    of_normal = grad if weight is None else times(grad, weight)
    share = op("mean.dim", times(of_normal, normal), [1], True)
    of_x = times(less(of_normal, times(normal, share)), rstd)
    return _view(of_x, *x.shape), None if weight is None else total(times(grad, normal), [0]), None


@private
def _row_norm(x, weight, bias, rows, groups, channels, eps, center):
    if not center:
        return _mean_square_norm(x, weight, rows, groups, channels, eps)
    if _is_layer(x, groups, channels):
        shape = _normalized(x, channels)
        weight, bias = (t if t is None else _view(t, *shape) for t in (weight, bias))
        y, mean, rstd = op("native_layer_norm.default", x, shape, weight, bias, eps)
    else:
        y, mean, rstd = op("native_group_norm.default", x, weight, bias, *_groups(x, groups, channels), eps)
    return y, _view(mean, rows), _view(rstd, rows)


@private
def _row_norm_backward(grad, x, weight, mean, rstd, groups, channels, center, *wanted):
    if not center:
        return _mean_square_norm_backward(grad, x, weight, rstd, groups, channels)
    if _is_layer(x, groups, channels):
        shape = _normalized(x, channels)
        sizes = [*x.shape[: x.dim() - len(shape)], *[1] * len(shape)]
        weight = weight if weight is None else _view(weight, *shape)
        saved = _view(mean, *sizes), _view(rstd, *sizes)
        made = op("native_layer_norm_backward.default", grad, x, shape, *saved, weight, weight, list(wanted))
    else:
        saved = (_view(t, x.shape[0], groups) for t in (mean, rstd))
        made = op(
            "native_group_norm_backward.default", grad, x, *saved, weight, *_groups(x, groups, channels), list(wanted)
        )  # fmt: skip
    return made


@private
def _channel_norm_backward(grad, x, weight, mean, rstd, training, *wanted):
    dims = [d for d in range(x.dim()) if d != 1]
    shape = [1, x.shape[1], *[1] * (x.dim() - 2)]
    normal = times(less(x, _view(mean, *shape)), _view(rstd, *shape))
    of_bias, of_weight = total(grad, dims), total(times(grad, normal), dims)
    scale = _view(rstd if weight is None else times(rstd, weight), *shape)
    rest = grad
    if training:
        share = 1 / math.prod(int(x.shape[d]) for d in dims)
        rest = less(grad, times(added(_view(of_bias, *shape), times(normal, _view(of_weight, *shape))), share))
    return times(rest, scale), of_weight, of_bias


# ---- convolutions and pools


@private
def convolution_weight(grad, x, sizes, stride, padding, dilation, groups):
    n = len(sizes) - 2
    one = "convolution_backward.default", grad, x, zeros(sizes, x), None, stride, padding, dilation
    return op(*one, False, [0] * n, groups, [False, True, False])[1]


def _flat(kind, spatial):
    return f"{kind}{spatial}d" if spatial in (2, 3) else None


@private
def adaptive_avg_pool(x, sizes):
    name = _flat("adaptive_avg_pool", len(sizes))
    return op(f"{name}.default", x, sizes) if name else NotImplemented


@private
def adaptive_avg_pool_transpose(grad, sizes):
    name = _flat("_adaptive_avg_pool", len(sizes))
    whole = [*grad.shape[: grad.dim() - len(sizes)], *sizes]
    return op(f"{name}_backward.default", grad, zeros(whole, grad)) if name else NotImplemented


@private
def avg_pool(x, kernel, *rest):
    name = _flat("avg_pool", len(kernel))
    return op(f"{name}.default", x, kernel, *rest) if name else NotImplemented


@private
def avg_pool_transpose(grad, sizes, kernel, *rest):
    name = _flat("avg_pool", len(kernel))
    whole = [*grad.shape[: grad.dim() - len(sizes)], *sizes]
    return op(f"{name}_backward.default", grad, zeros(whole, grad), kernel, *rest) if name else NotImplemented


@private
def max_pool(x, kernel, *rest):
    name = _flat("max_pool", len(kernel))
    return op(f"{name}_with_indices.default", x, kernel, *rest) if name else NotImplemented


@private
def scatter_planes(grad, indices, sizes):
    planes, count = grad.shape[: grad.dim() - len(sizes)], math.prod(sizes)
    flat = [_view(t, *planes, math.prod(t.shape[grad.dim() - len(sizes) :])) for t in (grad, indices)]
    whole = op("scatter_add.default", zeros([*planes, count], grad), len(planes), flat[1], flat[0])
    return _view(whole, *planes, *sizes)


_RESAMPLED = {
    ("nearest", 1): "upsample_nearest1d", ("nearest", 2): "upsample_nearest2d", ("nearest", 3): "upsample_nearest3d",
    ("nearest-exact", 1): "_upsample_nearest_exact1d", ("nearest-exact", 2): "_upsample_nearest_exact2d",
    ("nearest-exact", 3): "_upsample_nearest_exact3d", ("linear", 1): "upsample_linear1d",
    ("linear", 2): "upsample_bilinear2d", ("linear", 3): "upsample_trilinear3d", ("cubic", 2): "upsample_bicubic2d",
}  # fmt: skip


@private
def resample(x, sizes, mode, align, scales, antialias):
    name = _RESAMPLED.get((mode, len(sizes)))
    if name is None or antialias or (any(scales) and not all(scales)):
        return NotImplemented
    align = [] if mode.startswith("nearest") else [align]
    given = (None, *align, list(scales)) if any(scales) else (list(sizes), *align, None)
    return op(f"{name}.default", x, *given)


@private
def resample_transpose(grad, sizes, mode, align, scales, antialias):
    name, spatial = _RESAMPLED.get((mode, len(sizes))), len(sizes)
    if name is None or antialias:
        return NotImplemented
    align = [] if mode.startswith("nearest") else [align]
    whole = [*grad.shape[:2], *sizes]
    scales = [s or None for s in scales]
    return op(f"{name}_backward.default", grad, list(grad.shape[grad.dim() - spatial :]), whole, *align, *scales)


RULES["_rnn_steps.default"] = steps
RULES["_rnn_steps_backward.default"] = steps_backward
