"""Losses of nn.functional as the top level has them: the reduction is a number (0 "none", 1 "mean", 2 "sum")."""

from __future__ import annotations

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(op, number):
    if not isinstance(number, int) or not 0 <= number <= 2:
        raise ValueError(f"{op}: reduction is 0 (none), 1 (mean) or 2 (sum), got {number!r}")
    return _REDUCTIONS[number]


def _functional():
    from facula.nn import functional

    return functional


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """As nn.functional.cosine_embedding_loss."""
    how = _reduction("cosine_embedding_loss", reduction)
    return _functional().cosine_embedding_loss(input1, input2, target, margin, reduction=how)


def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """As nn.functional.hinge_embedding_loss."""
    how = _reduction("hinge_embedding_loss", reduction)
    return _functional().hinge_embedding_loss(input, target, margin, reduction=how)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """As nn.functional.margin_ranking_loss."""
    how = _reduction("margin_ranking_loss", reduction)
    return _functional().margin_ranking_loss(input1, input2, target, margin, reduction=how)


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """As nn.functional.poisson_nll_loss."""
    how = _reduction("poisson_nll_loss", reduction)
    return _functional().poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=how)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    """As nn.functional.triplet_margin_loss."""
    how = _reduction("triplet_margin_loss", reduction)
    return _functional().triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=how)
