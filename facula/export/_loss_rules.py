"""Define losses as ops of PyTorch's core IR, forwards and backwards: rules for `_backward_rules.RULES`.

Element by element first, then those of classes: input (N, C, ...), target (N, ...).
"""

from __future__ import annotations

from facula.export._decompositions import _cast, _expand, _view
from facula.export._functional import op
from facula.export._rule_words import RULES, added, less, number, over, private, times, total, where, zeros

RULES["_mse_each.default"] = lambda x, target: op("pow.default", less(x, target), 2)
RULES["_mse_backward.default"] = lambda grad, x, target: times(grad, less(x, target), 2)


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
    # PyTorch has the same bound, so that probabilities of 0 and 1 do not divide by zero.
    return over(times(grad, less(x, target)), op("clamp.default", times(less(1, x), x), 1e-12, None))


@private
def _bce_logits_each(x, target):
    tail = op("log1p.default", op("exp.default", op("neg.default", op("abs.default", x))))
    below = op("relu.default", op("neg.default", x))
    return added(added(times(less(1, target), x), below), tail)


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
