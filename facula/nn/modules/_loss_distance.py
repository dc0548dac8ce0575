"""Losses of distances and orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import functional as F
from ._loss_base import _Loss
from .distance import PairwiseDistance

if TYPE_CHECKING:
    from typing import Any, ClassVar

    from facula import Tensor


class HingeEmbeddingLoss(_Loss):
    """The input, a distance, where the target is 1, and ``max(0, margin - input)`` where it is -1: alike things shall be
    near, others at least margin apart.

    Args:
        margin: the distance beyond which unlike things cost nothing.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: input and target of one shape; the result is one number, or for 'none' of that shape.

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
    """With the cosine of the angle between two vectors: ``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where
    it is -1.

    Args:
        margin: the cosine below which unlike vectors cost nothing, in [-1, 1].
        reduction: 'mean' over the pairs, 'sum', or 'none' for the loss of each.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: called with two inputs (N, D) or (D,) and the target (N,) or (); the result is one number, or for 'none' of
    the target's shape.

    Errors: RuntimeError for shapes that do not fit.

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
    """``max(0, -target * (input1 - input2) + margin)``: for target 1 the first shall be greater by margin, for -1 the
    second.

    Args:
        margin: the difference beyond which a pair costs nothing.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: called with two inputs and the target, all of one shape; the result is one number, or for 'none' of that
    shape.

    Errors: RuntimeError for different numbers of dimensions.

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
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with the p-norm of the difference as distance: what
    belongs to the anchor shall be nearer to it, by margin, than what does not.

    Args:
        margin: the difference beyond which a triplet costs nothing; greater than 0.
        p: of the norm.
        eps: added to differences, so that the gradient is finite at 0.
        swap: whether d(positive, negative) counts where it is smaller than d(anchor, negative) (Balntas et al. 2016).
        reduction: 'mean' over the triplets, 'sum', or 'none' for the loss of each.
        size_average, reduce: flags that reduction replaced; a warning tells what to write instead.

    Shapes: called with three tensors (N, D) or (D,); the result is one number, or for 'none' (N,) or ().

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
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with any distance d.

    Args:
        distance_function: takes two tensors (N, ...) and returns the distances (N,). Default: the Euclidean distance.
        margin: the difference beyond which a triplet costs nothing; greater than 0.
        swap: whether d(positive, negative) counts where it is smaller than d(anchor, negative).
        reduction: 'mean' over the triplets, 'sum', or 'none' for the loss of each.

    Shapes: called with three tensors of one shape that the distance takes; the result is one number, or for 'none' of the
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
