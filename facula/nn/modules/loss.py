"""Loss layers; each calls the function of the same name in nn.functional."""

from __future__ import annotations

import math
import warnings

import facula

from .. import _reduction
from .. import functional as F
from .distance import PairwiseDistance
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .module import Module

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


class _Loss(Module):
    """A loss with a reduction: 'mean', 'sum' or 'none'; ``size_average`` and ``reduce`` are its older
    flags.
    """

    reduction: str

    def __init__(self, size_average=None, reduce=None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _reduction.resolve(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight tensor, kept as a buffer."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: facula.Tensor | None


class L1Loss(_Loss):
    """Absolute difference.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared difference.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below ``beta``, linear above; see `functional.smooth_l1_loss`.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input, target):
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared below ``delta``, linear above; see `functional.huber_loss`.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input, target):
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Minus the log-probability (N, C, ...) of the target class (N, ...); see `functional.nll_loss`.

    Args:
        weight: a factor for each class or element; None for 1.
        ignore_index: a target that does not count.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight=None,
        size_average=None,
        ignore_index: int = -100,
        reduce=None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input, target):
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """Deprecated name of `NLLLoss`.

    Args:
        weight: a factor for each class or element; None for 1.
        ignore_index: a target that does not count.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    def __init__(
        self, weight=None, size_average=None, ignore_index: int = -100, reduce=None, reduction: str = "mean"
    ) -> None:
        warnings.warn("NLLLoss2d: deprecated, use NLLLoss", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """The negative log-likelihood of the target under ``softmax(input)``: what a classifier minimises.

    Args:
        weight: (C,): a factor for each class; 'mean' then divides by the sum of the factors of the targets.
        ignore_index: the class number of targets that do not count.
        reduction: 'mean' over the targets, 'sum', or 'none' for the loss of each.
        label_smoothing: the share of each target that is spread evenly over all classes, in [0, 1].
        size_average, reduce: older flags, in the place of reduction.

    Shapes: input (C,), (N, C) or (N, C, ...), not normalised; target of the same shape without C with class numbers of int64,
    or of the same shape with probabilities. The result is one number, or for 'none' of the shape of the class numbers.

    Errors: IndexError for a class number that does not exist, RuntimeError or ValueError for shapes that do not fit.

    >>> loss = nn.CrossEntropyLoss()
    >>> loss(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    tensor(0.4100)
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight=None,
        size_average=None,
        ignore_index: int = -100,
        reduce=None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input, target):
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities.

    Args:
        weight: a factor for each class or element; None for 1.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of ``sigmoid(input)``; see `functional.binary_cross_entropy_with_logits`.

    Args:
        weight: a factor for each class or element; None for 1.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
        pos_weight: a factor for the part of the positive answers, for each class.
    """

    def __init__(
        self, weight=None, size_average=None, reduce=None, reduction: str = "mean", pos_weight=None
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self.weight: facula.Tensor | None
        self.pos_weight: facula.Tensor | None

    def forward(self, input, target):
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """``target * (log(target) - input)`` for log-probabilities ``input``; see `functional.kl_div`.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
        log_target: whether the target is given as logarithms too.
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average=None,
        reduce=None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input, target):
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of Poisson counts; see `functional.poisson_nll_loss`.

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: whether the constant terms are added.
        eps: a small number that keeps logarithms and divisions finite.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average=None,
        eps: float = 1e-8,
        reduce=None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input, target):
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Negative log likelihood of a Gaussian; see `functional.gaussian_nll_loss`.

    Args:
        full: whether the constant terms are added.
        eps: the least variance.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input, target, var):
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """The input for targets 1, ``max(0, margin - input)`` for targets -1.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 1.0, size_average=None, reduce=None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input, target):
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Margin between target classes and others; see `functional.multilabel_margin_loss`.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean over the classes of binary cross entropies with logits.

    Args:
        weight: a factor for each class or element; None for 1.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """``1 - cos`` for targets 1, ``max(0, cos - margin)`` for targets -1.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 0.0, size_average=None, reduce=None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """``max(0, -target * (input1 - input2) + margin)``.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin: float = 0.0, size_average=None, reduce=None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Margin between the target class and the others; see `functional.multi_margin_loss`.

    Args:
        p: the power of each difference, 1 or 2.
        margin: the distance beyond which there is no loss.
        weight: a factor for each class or element; None for 1.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["p", "margin", "reduction"]
    margin: float
    p: int

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight=None,
        size_average=None,
        reduce=None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p must be 1 or 2, got {p}")
        if weight is not None and weight.dim() != 1:
            raise AssertionError(f"MultiMarginLoss: weight must have 1 dimension, got {weight.dim()}")
        self.p = p
        self.margin = margin

    def forward(self, input, target):
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``; see
    `functional.triplet_margin_loss`.

    Args:
        p: the norm that gives distances.
        eps: added to differences.
        swap: whether the positive may take the place of the anchor where it lies nearer to the negative.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]
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
        size_average=None,
        reduce=None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin must be greater than 0, got {margin}")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor, positive, negative):
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
    """`TripletMarginLoss` with a distance of your own (default: `PairwiseDistance`).

    Args:
        distance_function: (tensor, tensor) -> distances; by default the Euclidean one.
        margin: the distance beyond which there is no loss.
        swap: whether the positive may take the place of the anchor where it lies nearer to the negative.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["margin", "swap", "reduction"]
    margin: float
    swap: bool

    def __init__(
        self, *, distance_function=None, margin: float = 1.0, swap: bool = False, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: margin must be greater than 0, got {margin}")
        self.distance_function = distance_function if distance_function is not None else PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification; see `functional.ctc_loss`.

    Args:
        blank: the class that stands for no label.
        zero_infinity: give zero where the target does not fit the input length.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """

    __constants__ = ["blank", "reduction"]
    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer followed by cross entropy; see `functional.linear_cross_entropy`.

    Args:
        in_features, num_classes: sizes of the linear layer.
        out_features: further dimensions of a K-dimensional loss.
        bias: whether the layer has a bias.
        Others as in `CrossEntropyLoss`.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
        weight: a factor for each class or element; None for 1.
        ignore_index: a target that does not count.
        label_smoothing: the share of the target that is spread over all classes, in [0, 1].
        options: how the work is cut; the result is the same.
    """

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device=None,
        dtype=None,
        reduction: str = "mean",
        weight=None,
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
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input, target):
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
