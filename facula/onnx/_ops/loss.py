"""Translate losses."""

import math

import numpy as np

from .._graph import Value
from ._table import op
from .elementwise import log1p
from .matmul import pairwise_distance
from .reduce import summed

_NONE, _MEAN = (0, "none"), (1, "mean")


def reduced(g, loss, reduction):
    if reduction in _NONE:
        return loss
    return g.reduce("Mean", loss) if reduction in _MEAN else summed(g, loss)


@op("mse_loss")
def mse_loss(g, self, target, reduction=1):
    away = self - target
    return reduced(g, away * away, reduction)


@op("l1_loss")
def l1_loss(g, self, target, reduction=1):
    return reduced(g, g.Abs(self - target), reduction)


@op("smooth_l1_loss")
def smooth_l1_loss(g, self, target, reduction=1, beta=1.0):
    away = g.Abs(self - target)
    if beta == 0:
        return reduced(g, away, reduction)
    return reduced(g, g.Where(g.Less(away, float(beta)), away * away * (0.5 / beta), away - 0.5 * beta), reduction)


@op("huber_loss")
def huber_loss(g, self, target, reduction=1, delta=1.0):
    away = g.Abs(self - target)
    return reduced(g, g.Where(g.Less(away, float(delta)), away * away * 0.5, (away - 0.5 * delta) * float(delta)), reduction)


@op("binary_cross_entropy")
def binary_cross_entropy(g, self, target, weight=None, reduction=1):
    # PyTorch bounds the logarithm, so that a probability of zero gives no infinite loss.
    log = lambda v: g.Max(g.Log(v), -100.0)
    loss = -(target * log(self) + (1.0 - target) * log(1.0 - self))
    return reduced(g, loss if weight is None else loss * weight, reduction)


@op("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(g, self, target, weight=None, pos_weight=None, reduction=1):
    rest = g.Softplus(-g.Abs(self)) + g.Max(-self, 0.0)  # -log(sigmoid)
    if pos_weight is not None:
        loss = (1.0 - target) * self + ((pos_weight - 1.0) * target + 1.0) * rest
    else:
        loss = (1.0 - target) * self + rest
    return reduced(g, loss if weight is None else loss * weight, reduction)


@op("kl_div")
def kl_div(g, self, target, reduction=1, log_target=False):
    if log_target:
        return reduced(g, g.Exp(target) * (target - self), reduction)
    own = g.where(g.Equal(target, 0.0), 0.0, target * g.Log(target))
    return reduced(g, own - target * self, reduction)


@op("soft_margin_loss")
def soft_margin_loss(g, self, target, reduction=1):
    return reduced(g, log1p(g, g.Exp(-target * self)), reduction)


@op("poisson_nll_loss")
def poisson_nll_loss(g, input, target, log_input=True, full=False, eps=1e-8, reduction=1):
    loss = g.Exp(input) - target * input if log_input else input - target * g.Log(input + float(eps))
    if full:
        stirling = target * g.Log(target) - target + g.Log(target * (2 * math.pi)) * 0.5
        loss = loss + g.where(g.Greater(target, 1), stirling, 0.0)
    return reduced(g, loss, reduction)


@op("hinge_embedding_loss")
def hinge_embedding_loss(g, self, target, margin=1.0, reduction=1):
    near = g.where(g.Equal(target, -1), 0.0, self)
    return reduced(g, near + g.where(g.Equal(target, 1), 0.0, g.Max(float(margin) - self, 0.0)), reduction)


@op("margin_ranking_loss")
def margin_ranking_loss(g, input1, input2, target, margin=0.0, reduction=1):
    return reduced(g, g.Max(-target * (input1 - input2) + float(margin), 0.0), reduction)


def _words(reduction):
    return {0: "none", 1: "mean", 2: "sum"}.get(reduction, reduction)


@op("nll_loss nll_loss_nd nll_loss2d")
def nll_loss(g, self, target, weight=None, reduction=1, ignore_index=-100):
    if self.rank == 1:
        self, target = g.unsqueeze(self, 0), g.reshape(target, [1])
        loss = g.NegativeLogLikelihoodLoss(self, target, weight, reduction=_words(reduction), ignore_index=ignore_index)
        return g.scalar(loss) if reduction in _NONE else loss
    return g.NegativeLogLikelihoodLoss(self, target, weight, reduction=_words(reduction), ignore_index=ignore_index)


@op("nll_loss_forward nll_loss2d_forward")
def nll_loss_forward(g, self, target, weight, reduction, ignore_index):
    return nll_loss(g, self, target, weight, reduction, ignore_index), None


@op("cross_entropy_loss")
def cross_entropy_loss(g, self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    dim = 1 if self.rank > 1 else 0
    logs = g.LogSoftmax(self, axis=dim)
    if target.is_floating():
        return _against_probabilities(g, logs, target, weight, reduction, label_smoothing, dim)
    if not label_smoothing:
        return nll_loss(g, logs, target, weight, reduction, ignore_index)
    if not isinstance(logs, Value) or self.rank == 1:
        raise NotImplementedError("onnx.export: cross_entropy with label_smoothing of one example without a batch")
    plain = nll_loss(g, logs, target, weight, reduction, ignore_index)
    kept = g.cast(g.Not(g.Equal(target, ignore_index)), logs.dtype)
    channel = [1, -1] + [1] * (self.rank - 2)
    smooth = -summed(g, logs if weight is None else logs * g.reshape(weight, channel), dim) * kept
    classes = self.shape[dim]
    if reduction in _MEAN:
        valid = g.Where(g.Equal(target, ignore_index), g.constant(0), target)
        picked = kept if weight is None else kept * g.take(weight, valid, 0)
        smooth = summed(g, smooth) / summed(g, picked)
    elif reduction not in _NONE:
        smooth = summed(g, smooth)
    return plain * (1 - label_smoothing) + smooth * (label_smoothing / classes)


def _against_probabilities(g, logs, target, weight, reduction, smoothing, dim):
    classes = logs.shape[dim]
    target = target * (1 - smoothing) + smoothing / classes if smoothing else target
    weighted = logs if weight is None else logs * g.reshape(weight, [-1] + [1] * (logs.rank - 1 - dim))
    loss = -summed(g, weighted * target, dim)
    if reduction in _NONE:
        return loss
    return g.reduce("Mean", loss) if reduction in _MEAN else summed(g, loss)


@op("triplet_margin_loss")
def triplet_margin_loss(g, anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction=1):
    far = pairwise_distance(g, anchor, negative, p, eps)
    if swap:
        far = g.Min(far, pairwise_distance(g, positive, negative, p, eps))
    return reduced(g, g.Max(pairwise_distance(g, anchor, positive, p, eps) - far + float(margin), 0.0), reduction)


@op("cosine_embedding_loss")
def cosine_embedding_loss(g, input1, input2, target, margin=0.0, reduction=1):
    dim = target.rank
    product = summed(g, input1 * input2, dim)
    # PyTorch adds 1e-12 as well, so that vectors of zeros give no NaN.
    near = product / g.Sqrt((summed(g, input1 * input1, dim) + 1e-12) * (summed(g, input2 * input2, dim) + 1e-12))
    loss = g.where(g.Equal(target, 1), 1.0 - near, 0.0) + g.where(g.Equal(target, -1), g.Max(near - float(margin), 0.0), 0.0)
    return reduced(g, loss, reduction)


@op("multi_margin_loss")
def multi_margin_loss(g, self, target, p=1, margin=1, weight=None, reduction=1):
    lines = self if self.rank == 2 else g.unsqueeze(self, 0)
    at = g.reshape(target, [-1, 1])
    away = g.Max(lines - g.GatherElements(lines, at, axis=1) + float(margin), 0.0)
    away = away if p == 1 else away * away
    away = away if weight is None else away * g.take(weight, at, 0)
    others = g.Not(g.Equal(g.constant(np.arange(lines.shape[1])[None]), at))
    loss = summed(g, g.where(others, away, 0.0), 1) * (1 / lines.shape[1])
    return reduced(g, g.scalar(loss) if self.rank == 1 and reduction in _NONE else loss, reduction)


@op("ctc_loss")
def ctc_loss(g, log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Compute the forward recurrence over a target's classes with a blank before, between and behind them."""
    logs = log_probs if log_probs.rank == 3 else g.unsqueeze(log_probs, 1)
    used, lengths = (g.reshape(g.tensor(n, "int64"), [-1, 1]) for n in (input_lengths, target_lengths))
    batch, classes = g.size(logs, 1), _classes(g, g.cast(targets, "int64"), target_lengths, lengths, blank)
    most = classes.shape[1]
    place = np.arange(2 * most + 1)
    blanks = g.expand(g.constant([[blank]]), [batch, 1])
    states = g.take(g.concat([classes, blanks], 1), np.where(place % 2, place // 2, most), 1)
    before = g.take(states, np.maximum(place - 2, 0), 1)
    # The blank between two equal classes must not be skipped, or they would be one.
    skips = g.And(g.constant((place % 2 == 1) & (place > 1)), g.Not(g.Equal(states, before)))
    wanted = g.expand(g.unsqueeze(states, 0), [g.size(logs, 0), batch, len(place)])
    found = g.GatherElements(logs, wanted, axis=2)
    found.shape = (*logs.shape[:2], len(place))

    def step(g, time, paths):
        back = lambda n, kept: g.where(kept, g.take(paths, np.maximum(place - n, 0), 1), -math.inf)
        longer = _log_sum(g, paths, back(1, g.constant(place > 0)), back(2, skips)) + g.take(found, time, 0)
        return [g.Where(g.Less(time, used), longer, paths)]

    start = g.expand(g.constant(np.where(place == 0, 0.0, -math.inf)[None], logs.dtype), [batch, len(place)])
    paths = g.loop(g.size(logs, 0), [start], step)[0]
    ends = lambda n: g.GatherElements(paths, g.Max(lengths * 2 - n, 0), axis=1)
    loss = -_log_sum(g, ends(0), g.where(g.Greater(lengths, 0), ends(1), -math.inf))
    if zero_infinity:
        loss = g.where(g.Equal(loss, math.inf), 0.0, loss)
    if reduction in _MEAN:
        # PyTorch's mean divides every loss by the length of its target first.
        loss = loss / g.cast(g.Max(lengths, 1), loss.dtype)
    loss = g.reshape(loss, [-1] if log_probs.rank == 3 else [])
    return loss if log_probs.rank == 2 else reduced(g, loss, reduction)


def _classes(g, targets, target_lengths, lengths, blank):
    """Return the targets' classes, a row for each, blanks behind them."""
    known = not isinstance(target_lengths, Value)
    most = max(target_lengths, default=0) if known and targets.rank == 1 else targets.shape[-1]
    if not isinstance(most, int):
        raise NotImplementedError("onnx.export: ctc_loss with targets of a length that varies")
    place = g.constant(np.arange(most)[None])
    if targets.rank == 1:
        at = g.CumSum(lengths, g.constant(0), exclusive=1) + place
        targets = g.take(targets, g.Min(at, g.size(targets, 0) - 1), 0)
    made = g.where(g.Less(place, lengths), targets, blank)
    made.shape = (made.shape[0] if made.shape else None, most)
    return made


def _log_sum(g, *terms):
    """Return log(exp(a) + exp(b) + ...), also where all of them are -inf."""
    highest = g.Max(*terms)
    base = g.where(g.Equal(highest, -math.inf), 0.0, highest)
    total = g.Exp(terms[0] - base)
    for term in terms[1:]:
        total = total + g.Exp(term - base)
    return g.Log(total) + base
