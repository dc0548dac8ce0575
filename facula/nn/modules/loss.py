"""Define loss layers; each calls the function of the same name in nn.functional.

Long because PyTorch has all losses in one file of this name, and each class stands there with its docstring and example.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, ClassVar

import facula

from .. import _reduction
from .. import functional as F
from .distance import PairwiseDistance
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .module import Module

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.types import Device

__all__ = [
    "L1Loss",
    "MSELoss",
    "SmoothL1Loss",
    "HuberLoss",
    "NLLLoss",
    "CrossEntropyLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "KLDivLoss",
    "PoissonNLLLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "MultiLabelMarginLoss",
    "SoftMarginLoss",
    "MultiLabelSoftMarginLoss",
    "CosineEmbeddingLoss",
    "MarginRankingLoss",
    "NLLLoss2d",
    "MultiMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "CTCLoss",
    "LinearCrossEntropyLoss",
]


# ---- What loss layers share


class _Loss(Module):
    """Hold the reduction of a loss: 'mean', 'sum' or 'none'. ``size_average`` and ``reduce`` are its older flags."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _reduction.resolve(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """Hold the weight tensor of a loss as a buffer."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: facula.Tensor | None


# ---- Losses of numbers and of distributions


class L1Loss(_Loss):
    """Compute the absolute difference.

    Formula: loss = abs(input - target)

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target of one shape (others broadcast, with a warning); output one number, or for 'none' of that shape.

    Errors: ValueError, when called, for another reduction; RuntimeError for shapes that do not broadcast.

    >>> nn.L1Loss()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    tensor(1.5000)
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Compute the squared difference.

    Formula: loss = (input - target) ** 2

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target of one shape (others broadcast, with a warning); output one number, or for 'none' of that shape.

    Errors: ValueError, when called, for another reduction; RuntimeError for shapes that do not broadcast.

    >>> nn.MSELoss()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    tensor(4.5000)
    >>> nn.MSELoss(reduction="none")(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    tensor([0., 9.])
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Compute the squared difference where it is small, the absolute one elsewhere (Girshick 2015).

    Formula:
        d = abs(input - target)
        loss = d ** 2 / (2 * beta) if d < beta else d - beta / 2

    It punishes outliers less than `MSELoss`.

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        beta: the distance at which the square ends; 0 gives `L1Loss`.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target of one shape (others broadcast, with a warning); output one number, or for 'none' of that shape.

    Errors: RuntimeError, when called, for a negative beta, or shapes that do not broadcast; ValueError for another reduction.

    >>> nn.SmoothL1Loss(reduction="none")(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0]))
    tensor([0.1250, 2.5000])
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 beta: float = 1.0) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Compute the squared difference where it is small, the absolute one elsewhere (Huber 1964).

    Formula:
        d = abs(input - target)
        loss = d ** 2 / 2 if d < delta else delta * (d - delta / 2)

    It is delta times the `SmoothL1Loss` with that beta.

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        delta: the distance at which the square ends; greater than 0.

    Shapes: input and target of one shape (others broadcast, with a warning); output one number, or for 'none' of that shape.

    Errors: TypeError for a delta that is no number; RuntimeError, when called, for one that is not positive, or shapes that do
    not broadcast.

    >>> nn.HuberLoss(reduction="none", delta=2.0)(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0]))
    tensor([0.1250, 4.0000])
    """

    __constants__: ClassVar[list[str]] = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (int, float)):
            raise TypeError(f"HuberLoss: expected delta to be a number, got {type(delta).__name__}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """Compute the Kullback-Leibler divergence of the target from a distribution whose logarithm is the input.

    Formula: loss = target * (log(target) - input)

    Args:
        reduction: 'batchmean', which is the divergence: the sum divided by the size of the batch; 'mean' over the
            elements (with a warning), 'sum', or 'none' for each element.
        log_target: if True, the target has logarithms, too.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target that broadcast to one another; output one number, or for 'none' of the common shape.

    Errors: ValueError, when called, for another reduction; RuntimeError for shapes that do not broadcast.

    >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
    >>> nn.KLDivLoss(reduction="batchmean")(q.log(), p)
    tensor(0.1438)
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Compute the negative log-likelihood of counts under Poisson distributions.

    Formula:
        loss = exp(input) - target * input
        loss = input - target * log(input + eps)  # log_input=False

    For rates it is ``input - target * log(input + eps)``; ``log(target!)`` is left out.

    Args:
        log_input: if True, the input is the logarithm of the rate.
        full: if True, add Stirling's formula for ``log(target!)`` where the target exceeds 1.
        eps: a number that keeps the logarithm of a rate finite.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target that broadcast to one another; output one number, or for 'none' of the common shape.

    Errors: ValueError, when called, for another reduction; RuntimeError for shapes that do not broadcast.

    >>> nn.PoissonNLLLoss()(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]))
    tensor(0.8591)
    """

    __constants__: ClassVar[list[str]] = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: bool, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Compute the negative log-likelihood of the target under normal distributions whose mean is the input.

    Formula: loss = (log(max(var, eps)) + (input - target) ** 2 / max(var, eps)) / 2

    Args:
        full: if True, add ``0.5 * log(2 * pi)``.
        eps: the smallest variance.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.

    Shapes: called with input, target and var of one shape; var may also be a number, or have size 1 in, or lack, the last
    dimension. Output one number, or for 'none' of the input's shape.

    Errors: ValueError, when called, for a negative var, and for one that does not fit.

    >>> nn.GaussianNLLLoss()(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 0.0]), torch.ones(2))
    tensor(1.)
    """

    __constants__: ClassVar[list[str]] = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# ---- Losses of distances and orders


class HingeEmbeddingLoss(_Loss):
    """Compute a distance where the target is 1, and what it lacks to the margin where the target is -1.

    Formula: loss = input if target == 1 else max(0, margin - input)  # target is 1 or -1

    Like things shall be near, others at least margin apart.

    Args:
        margin: the distance beyond which unlike things have no loss.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target of one shape; output one number, or for 'none' of that shape.

    Errors: ValueError, when called, for another reduction; RuntimeError for shapes that do not broadcast.

    >>> nn.HingeEmbeddingLoss(reduction="none")(torch.tensor([0.5, 0.5]), torch.tensor([1, -1]))
    tensor([0.5000, 0.5000])
    """

    __constants__: ClassVar[list[str]] = ["margin", "reduction"]

    def __init__(self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """Compute a loss of the cosine of two vectors, which should be 1 where the target is 1, and at most margin where it is -1.

    Formula:
        c = input1 @ input2 / (norm(input1) * norm(input2))
        loss = 1 - c if target == 1 else max(0, c - margin)  # target is 1 or -1

    Args:
        margin: the cosine below which unlike vectors have no loss, in [-1, 1].
        reduction: 'mean' over the pairs, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: called with two inputs (N, D) or (D,) and the target (N,) or (); output one number, or for 'none' of
    the target's shape.

    Errors: RuntimeError, when called, for shapes that do not fit.

    >>> a, b = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    >>> nn.CosineEmbeddingLoss(reduction="none")(a, b, torch.tensor([1, -1]))
    tensor([1., 1.])
    """

    __constants__: ClassVar[list[str]] = ["margin", "reduction"]

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """Compute a loss of the order of two inputs: for target 1 the first shall be greater by margin, for -1 the second.

    Formula: loss = max(0, -target * (input1 - input2) + margin)

    Args:
        margin: the difference beyond which a pair has no loss.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: called with two inputs and the target, all of one shape; output one number, or for 'none' of that shape.

    Errors: RuntimeError, when called, for different numbers of dimensions.

    >>> nn.MarginRankingLoss(reduction="none")(torch.tensor([1.0, 1.0]), torch.tensor([3.0, 3.0]), torch.tensor([1, -1]))
    tensor([2., 0.])
    """

    __constants__: ClassVar[list[str]] = ["margin", "reduction"]

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """Compute a loss of distances: the positive shall be nearer to the anchor, by margin, than the negative.

    Formula: loss = max(0, norm(anchor - positive, p) - norm(anchor - negative, p) + margin)

    What belongs to the anchor shall be nearer to it, by margin, than what does not.

    Args:
        margin: the difference beyond which a triplet has no loss; greater than 0.
        p: the power of the norm.
        eps: a number added to differences, so that the gradient is finite at 0.
        swap: if True, take d(positive, negative) where it is smaller than d(anchor, negative) (Balntas et al. 2016).
        reduction: 'mean' over the triplets, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: called with three tensors (N, D) or (D,); output one number, or for 'none' (N,) or ().

    Errors: ValueError for a margin that is not positive; RuntimeError, when called, for different numbers of dimensions.

    >>> anchor, near, far = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.5]])
    >>> nn.TripletMarginLoss()(anchor, near, far)
    tensor(0.5000)
    """

    __constants__: ClassVar[list[str]] = ["margin", "p", "eps", "swap", "reduction"]
    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin must be greater than 0, got {margin}")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """Compute `TripletMarginLoss` with any distance d.

    Formula: loss = max(0, d(anchor, positive) - d(anchor, negative) + margin)

    Args:
        distance_function: a function of two tensors (N, ...) that returns the distances (N,). Default: the Euclidean distance.
        margin: the difference beyond which a triplet has no loss; greater than 0.
        swap: if True, take d(positive, negative) where it is smaller than d(anchor, negative).
        reduction: 'mean' over the triplets, 'sum', or 'none' for the loss of each.

    Shapes: called with three tensors of one shape that the distance takes; output one number, or for 'none' of the
    shape of the distances.

    Errors: ValueError for a margin that is not positive; RuntimeError, when called, for different numbers of dimensions.

    >>> def city_block(a, b):
    ...     return (a - b).abs().sum(-1)
    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=city_block)
    >>> loss(torch.zeros(1, 2), torch.ones(1, 2), torch.tensor([[2.0, 0.5]]))
    tensor(0.5000)
    """

    __constants__: ClassVar[list[str]] = ["margin", "swap", "reduction"]
    margin: float
    swap: bool

    def __init__(
        self, *, distance_function: Any = None, margin: float = 1.0, swap: bool = False, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: margin must be greater than 0, got {margin}")
        self.distance_function: Any = distance_function if distance_function is not None else PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class NLLLoss(_WeightedLoss):
    """Compute minus the log-probability of the target class. With `LogSoftmax` before it, it is `CrossEntropyLoss`.

    Formula: loss = -weight[target] * input[target]

    Args:
        weight: (C,), a factor for each class; 'mean' then divides by the sum of the factors of the targets.
        ignore_index: the class number of targets that do not count.
        reduction: 'mean' over the targets, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input (C,), (N, C) or (N, C, ...), log-probabilities; target of the same shape without C, class numbers of
    int64. Output one number, or for 'none' of the target's shape.

    Errors: IndexError, when called, for a class number that does not exist; ValueError for a batch that does not fit;
    RuntimeError for a target of another dtype or shape.

    >>> log_probs = torch.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    >>> nn.NLLLoss(reduction="none")(log_probs, torch.tensor([0, 1]))
    tensor([0.6931, 0.2877])
    """

    __constants__: ClassVar[list[str]] = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """Compute `NLLLoss`, of which this is a deprecated name; it warns.

    Args:
        weight: (C,), a factor for each class; 'mean' then divides by the sum of the factors of the targets.
        ignore_index: the class number of targets that do not count.
        reduction: 'mean' over the targets, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input (N, C, H, W), log-probabilities; target (N, H, W), class numbers of int64; output one number, or for 'none'
    (N, H, W).

    Errors: those of `NLLLoss`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     loss = nn.NLLLoss2d()
    >>> loss(torch.zeros(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.int64)).item() == 0
    True
    """

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean") -> None:  # fmt: skip
        warnings.warn("NLLLoss2d: deprecated, use NLLLoss", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Compute the negative log-likelihood of the target under the softmax of the input: what a classifier minimizes.

    Formula: loss = -weight[target] * log(exp(input[target]) / sum(exp(input[c]) for c in classes))

    Args:
        weight: (C,), a factor for each class; 'mean' then divides by the sum of the factors of the targets.
        ignore_index: the class number of targets that do not count.
        reduction: 'mean' over the targets, 'sum', or 'none' for the loss of each.
        label_smoothing: the share of each target that is spread evenly over all classes, in [0, 1].
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input (C,), (N, C) or (N, C, ...), not normalized; target of the same shape without C with class numbers of
    int64, or of the same shape with probabilities. Output one number, or for 'none' of the shape of the class
    numbers.

    Errors: IndexError, when called, for a class number that does not exist; ValueError for a batch that does not fit;
    RuntimeError for a target of another dtype or shape, a weight of another size, or a label_smoothing outside [0, 1].

    >>> loss = nn.CrossEntropyLoss()
    >>> loss(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    tensor(0.4100)
    """

    __constants__: ClassVar[list[str]] = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Compute the binary cross entropy, with logarithms of at least -100.

    Formula: loss = -weight * (target * log(input) + (1 - target) * log(1 - input))

    For what comes before a sigmoid, `BCEWithLogitsLoss` is more exact.

    Args:
        weight: factors that broadcast to the input.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input, probabilities in [0, 1], and target of one shape; output one number, or for 'none' of that
    shape.

    Errors: ValueError, when called, for different shapes; RuntimeError for an input outside [0, 1].

    >>> nn.BCELoss()(torch.tensor([0.5, 0.75]), torch.tensor([0.0, 1.0]))
    tensor(0.4904)
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Compute the binary cross entropy of the sigmoid of the input without overflow for large numbers.

    Formula:
        p = sigmoid(input)
        loss = -weight * (pos_weight * target * log(p) + (1 - target) * log(1 - p))

    Args:
        weight: factors that broadcast to the input.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        pos_weight: factors of the part ``-target * log(sigmoid(input))`` that broadcast to the input, usually (C,): above
            1 they raise recall, below 1 precision.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target of one shape; output one number, or for 'none' of that shape.

    Errors: ValueError, when called, for different shapes.

    >>> nn.BCEWithLogitsLoss()(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 1.0]))
    tensor(0.4100)
    """

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean", pos_weight: Tensor | None = None) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self.weight: facula.Tensor | None
        self.pos_weight: facula.Tensor | None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """Compute a margin between all target classes and all others.

    Formula: loss = sum(max(0, 1 - (input[j] - input[i])) for j in targets for i in others) / C

    Args:
        reduction: 'mean' over the samples, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input (N, C) or (C,); target of the same shape with class numbers of int64, of which those after the first -1
    do not count. Output one number, or for 'none' (N,) or ().

    Errors: RuntimeError, when called, for shapes that do not fit.

    >>> nn.MultiLabelMarginLoss()(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """Compute a logistic loss for targets of -1 and 1.

    Formula: loss = log(1 + exp(-target * input))

    Args:
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target of one shape; output one number, or for 'none' of that shape.

    Errors: ValueError, when called, for another reduction; RuntimeError for shapes that do not broadcast.

    >>> nn.SoftMarginLoss()(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 1.0]))
    tensor(0.4100)
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Compute the mean over the classes of a binary cross entropy, where each class is a question of its own.

    Formula:
        p = sigmoid(input)
        loss = -sum(target[c] * log(p[c]) + (1 - target[c]) * log(1 - p[c]) for c in classes) / C

    Args:
        weight: (C,), a factor for each class.
        reduction: 'mean' over the samples, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input and target (N, C) or (C,), targets 0 or 1; output one number, or for 'none' (N,) or ().

    Errors: ValueError, when called, for another reduction; RuntimeError for shapes that do not broadcast.

    >>> nn.MultiLabelSoftMarginLoss()(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, 1.0]]))
    tensor(0.4100)
    """

    __constants__: ClassVar[list[str]] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Compute a margin between the score of the target class and those of the others.

    Formula: loss = weight[target] * sum(max(0, margin - input[target] + input[i]) ** p for i in others) / C

    Args:
        p: the power, 1 or 2.
        margin: the difference by which the target shall exceed the others.
        weight: (C,), a factor for each class.
        reduction: 'mean' over the samples, 'sum', or 'none' for the loss of each.
        size_average, reduce: deprecated flags, which reduction replaces; a warning says what to write instead.

    Shapes: input (N, C) or (C,); target (N,) or (), class numbers of int64. Output one number, or for 'none' of
    the target's shape.

    Errors: ValueError for another p, and for a weight of another number of dimensions than 1.

    >>> nn.MultiMarginLoss()(torch.tensor([[0.1, 0.2, 0.8]]), torch.tensor([2]))
    tensor(0.2333)
    """

    __constants__: ClassVar[list[str]] = ["p", "margin", "reduction"]
    margin: float
    p: int

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p must be 1 or 2, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: weight must have 1 dimension, got {weight.dim()}")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """Compute the loss of connectionist temporal classification (Graves et al. 2006).

    Formula: loss = -log(sum(prod(p[t, path[t]] for t in times) for path in paths))  # paths that say the target

    It is minus the log-probability that the target is said, summed over all ways to spread the target over the time steps, with
    blanks between.

    Args:
        blank: the class that stands for no label.
        reduction: 'mean', where each loss is divided by its target's length first, 'sum', or 'none' for the loss of each.
        zero_infinity: if True, make loss and gradient zero instead of infinite where a target does not fit its input's length.

    Shapes: called with log_probs (T, N, C) or (T, C), logarithms of probabilities, targets (N, S) or all targets one
    after the other, input_lengths and target_lengths (N,) or (). Output one number, or for 'none' (N,) or ().

    Errors: RuntimeError, when called, for lengths that do not fit, and for a blank that is no class.

    >>> log_probs = torch.zeros(4, 1, 3).log_softmax(2)
    >>> nn.CTCLoss()(log_probs, torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))
    tensor(0.8432)
    """

    __constants__: ClassVar[list[str]] = ["blank", "reduction"]
    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """Apply a linear layer and compute the cross entropy of its result: the last layer of a classifier and its loss in one
    module.

    Args:
        in_features: the size of the input.
        num_classes: C, the number of classes.
        out_features: the sizes of further dimensions of the logits, which are then (N, C, *out_features).
        bias: if True, add a learned bias in the layer.
        device, dtype: the device and the dtype of the parameters.
        reduction: 'mean' over the targets, 'sum', or 'none' for the loss of each.
        weight: (C,), a factor for each class; 'mean' then divides by the sum of the factors of the targets.
        ignore_index: the class number of targets that do not count.
        label_smoothing: the share of each target that is spread evenly over all classes, in [0, 1].
        options: accepted without effect: how a fused kernel would split the work.

    Shapes: input (N, in_features) or (in_features,); target (N, *out_features) or () with class numbers of int64, or
    probabilities in the shape of the logits; output one number, or for 'none' of the shape of the class numbers.

    Errors: RuntimeError for a weight of another shape, for a label_smoothing outside [0, 1], and, when called, for shapes
    that do not fit.

    >>> loss = nn.LinearCrossEntropyLoss(16, 10)
    >>> loss(torch.randn(4, 16), torch.tensor([1, 0, 4, 9])).shape, loss.linear.weight.shape
    (torch.Size([]), torch.Size([10, 16]))
    """

    __constants__: ClassVar[list[str]] = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Device = None,
        dtype: facula.dtype | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"LinearCrossEntropyLoss: weight must have shape {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"LinearCrossEntropyLoss: label_smoothing must be between 0 and 1, got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        # Two-dimensional here; forward gives it the dimensions of a K-dimensional loss.
        rows = math.prod(out_features, start=num_classes)
        self.linear: Linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, "
            f"options={self.options}"
        )
