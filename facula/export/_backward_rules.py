"""Define rules that decompose private ops, of which backward passes are full, into ops of PyTorch's core IR.

They are as those in `_decompositions.py`, and are found by Facula's names where an op has no name in PyTorch. Those of losses
and of recurrent layers have files of their own.
"""

from __future__ import annotations

import math

import facula
from facula.export import _loss_rules, _recurrent_rules  # noqa: F401  (they add their rules)
from facula.export._decompositions import _cast, _decomposed_scores, _in_order_of_query, _swapped, _view, matmul
from facula.export._functional import op
from facula.export._rule_words import RULES, added, less, number, over, private, times, total, where, zeros

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
