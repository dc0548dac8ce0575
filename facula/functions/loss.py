"""Define the losses of nn.functional in the form of the top level, where the reduction is a number: 0 "none", 1 "mean",
2 "sum".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.autocast import in_float32

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(op, number):
    if not isinstance(number, int) or not 0 <= number <= 2:
        raise ValueError(f"{op}: reduction is 0 (none), 1 (mean) or 2 (sum), got {number!r}")
    return _REDUCTIONS[number]


def _functional():
    from facula.nn import functional

    return functional


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """Return 1 - cos(input1, input2) where target is 1, and max(0, cos(input1, input2) - margin) where it is -1.

    Args:
        input1, input2: (N, D), or (D) for one pair.
        target: (N), 1 or -1.
        margin: the cosine from which on pairs that are to differ count.
        reduction: 0 for a loss of each pair, 1 for their mean, 2 for their sum.

    Errors: ValueError for another reduction; RuntimeError for shapes that do not fit.

    >>> torch.cosine_embedding_loss(torch.tensor([[1., 0.]]), torch.tensor([[0., 1.]]), torch.tensor([1.]), reduction=1)
    tensor(1.)
    """
    how = _reduction("cosine_embedding_loss", reduction)
    return _functional().cosine_embedding_loss(input1, input2, target, margin, reduction=how)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """Return `input` where target is 1, and max(0, margin - input) where it is -1: for distances of pairs that are alike or
    not.

    Args:
        input: distances, of any shape.
        target: 1 or -1, of the same shape.
        margin: the distance from which on pairs that are to differ cost nothing.
        reduction: 0 for a loss of each element, 1 for their mean, 2 for their sum.

    Errors: ValueError for another reduction.

    >>> torch.hinge_embedding_loss(torch.tensor([0.5, 0.2]), torch.tensor([1., -1.]), reduction=0)
    tensor([0.5000, 0.8000])
    """
    how = _reduction("hinge_embedding_loss", reduction)
    return _functional().hinge_embedding_loss(input, target, margin, reduction=how)


@in_float32
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
    """Return max(0, -target * (input1 - input2) + margin): target 1 wants input1 to be larger, -1 input2.

    Args:
        input1, input2, target: of shapes that broadcast.
        margin: how much larger it is to be.
        reduction: 0 for a loss of each element, 1 for their mean, 2 for their sum.

    Errors: ValueError for another reduction.

    >>> torch.margin_ranking_loss(torch.tensor([1.]), torch.tensor([3.]), torch.tensor([1.]), reduction=1)
    tensor(2.)
    """
    from facula.nn._reduction import reduced

    how = _reduction("margin_ranking_loss", reduction)
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), how)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """Return the negative log likelihood of counts: exp(input) - target * input; without log_input, input - target * log(input
    + eps).

    Args:
        input: the expected counts, or their logarithms.
        target: the counts, of a shape that broadcasts with input's.
        log_input: whether input holds logarithms.
        full: whether Stirling's approximation of log(target!) is added.
        eps: keeps the logarithm finite.
        reduction: 0 for a loss of each element, 1 for their mean, 2 for their sum.

    Errors: ValueError for another reduction.

    >>> torch.poisson_nll_loss(torch.tensor([0.]), torch.tensor([2.]), True, False, 1e-8, 1)
    tensor(1.)
    """
    how = _reduction("poisson_nll_loss", reduction)
    return _functional().poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=how)


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
                        eps: float = 1e-6, swap: bool = False, reduction: int = 0) -> Any:  # fmt: skip
    """Return max(0, |anchor - positive| - |anchor - negative| + margin): the anchor is to be nearer to the positive.

    Args:
        anchor, positive, negative: (N, D), or (D).
        margin: how much nearer.
        p: the order of the norm.
        eps: keeps the norm's derivative finite.
        swap: whether the distance of positive and negative counts where it is smaller than that of anchor and negative.
        reduction: 0 for a loss of each triple, 1 for their mean, 2 for their sum.

    Errors: ValueError for another reduction.

    >>> torch.triplet_margin_loss(torch.tensor([[0.]]), torch.tensor([[1.]]), torch.tensor([[3.]]), reduction=1)
    tensor(0.)
    """
    how = _reduction("triplet_margin_loss", reduction)
    return _functional().triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=how)
