"""Define the losses of distances, pairs, rankings and triplets in nn.functional.

``reduction`` is 'mean', 'sum' or 'none'; ``size_average`` and ``reduce`` are the older flags it replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula._C import pairwise_distance
from facula._shared.autocast import in_float32

from .. import _reduction
from .._reduction import reduced

if TYPE_CHECKING:
    from collections.abc import Callable

    from facula import Tensor

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


@in_float32
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
                          reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return ``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos(input1, input2) - margin)`` where it is -1;
    reduced.

    Args:
        input1, input2: the vectors, (N, D) or (D,).
        target: 1 for pairs that belong together, -1 for others: (N,) or ().
        margin: how similar others may be, in [-1, 1].
        reduction: 'mean' over the pairs, 'sum', or 'none' for the loss of each.

    Returns: a number; for 'none' (N,) or ().

    Errors: RuntimeError for other numbers of dimensions; ValueError for another reduction.

    >>> input1, input2 = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    >>> F.cosine_embedding_loss(input1, input2, torch.tensor([1, -1]), reduction="none")
    tensor([1., 1.])
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if target.dim() not in (0, 1) or not input1.dim() == input2.dim() == target.dim() + 1:
        raise RuntimeError(
            "cosine_embedding_loss: takes inputs (N, D) with a target (N) or inputs (D) with a 0-D target, "
            "got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    epsilon = 1e-12  # makes the gradient of a vector of zeros finite
    dot = (input1 * input2).sum(-1)
    squares1 = (input1 * input1).sum(-1) + epsilon
    squares2 = (input2 * input2).sum(-1) + epsilon
    cosine = dot / (squares1 * squares2).sqrt()
    zeros = facula.zeros_like(cosine)
    loss = facula.where(target == 1, 1 - cosine, zeros) + facula.where(
        target == -1, (cosine - margin).clamp_min(0), zeros
    )
    return reduced(loss, reduction)


@in_float32
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return the input (a distance) where the target is 1, ``max(0, margin - input)`` where it is -1; reduced.

    Args:
        input: the distances, of any shape.
        target: 1 or -1 for each.
        margin: the distance beyond which a pair that does not belong together costs nothing.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.

    Returns: a number; for 'none' a tensor of the shape of input.

    Errors: ValueError for another reduction; RuntimeError for shapes that do not broadcast.

    >>> F.hinge_embedding_loss(torch.tensor([0.5, 0.25]), torch.tensor([1, -1]), reduction="none")
    tensor([0.5000, 0.7500])
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    # Targets that are neither 1 nor -1 count in both sums, as they do in PyTorch.
    zeros = facula.zeros_like(input)
    far = facula.where(target != 1, (margin - input).clamp_min(0), zeros)
    near = facula.where(target != -1, input, zeros)
    return reduced(far + near, reduction)


@in_float32
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return ``max(0, -target * (input1 - input2) + margin)``, reduced: no loss where the order is that of the target.

    Args:
        input1, input2: the scores, of one shape.
        target: 1 where input1 shall be greater, -1 where input2.
        margin: the difference that is wanted at least.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.

    Returns: a number; for 'none' a tensor of the shape of the inputs.

    Errors: RuntimeError for different numbers of dimensions; ValueError for another reduction.

    >>> F.margin_ranking_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 3.0]), torch.tensor([1, 1]), reduction="none")
    tensor([0., 1.])
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss: the three tensors must agree in the number of dimensions, got shapes "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@in_float32
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with the p-norm distance of the last dimension;
    reduced.

    Args:
        anchor: (N, D) or (D,).
        positive: like anchor: what shall be near.
        negative: like anchor: what shall be far.
        margin: by how much farther, greater than 0.
        p: the power of the norm.
        eps: added to differences, so that the gradient is finite where they are 0.
        swap: if True, take d(positive, negative) where it is smaller than d(anchor, negative).
        reduction: 'mean' over the batch, 'sum', or 'none' for the loss of each triplet.

    Returns: a number; for 'none' the losses of the triplets, (N,) or ().

    Errors: ValueError for a margin that is not positive, or another reduction; RuntimeError for different numbers of
    dimensions.

    >>> anchor, positive, negative = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
    >>> F.triplet_margin_loss(anchor, positive, negative)
    tensor(4.0000)
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "triplet_margin_loss: the three tensors must agree in the number of dimensions, got "
            f"{anchor.dim()}, {positive.dim()} and {negative.dim()}"
        )

    def distance(a, b):
        return pairwise_distance(a, b, p, eps)

    return _triplet(distance, anchor, positive, negative, margin, swap, reduction)


def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *,
                                      distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
                                      swap: bool = False, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return `triplet_margin_loss` with a distance d: ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, reduced.

    Args:
        anchor: (N, ...), what the distance takes.
        positive: like anchor: what shall be near.
        negative: like anchor: what shall be far.
        distance_function: (tensor, tensor) -> distances (N,); default: `pairwise_distance`.
        margin: by how much farther, greater than 0.
        swap: if True, take d(positive, negative) where it is smaller than d(anchor, negative).
        reduction: 'mean' over the batch, 'sum', or 'none' for the loss of each triplet.

    Returns: a number; for 'none' the losses of the triplets, of the shape of the distances.

    Errors: ValueError for a margin that is not positive, or another reduction; RuntimeError for different numbers of
    dimensions.

    >>> anchor, positive, negative = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
    >>> def largest(a, b):
    ...     return (a - b).abs().amax(-1)
    >>> F.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=largest)
    tensor(3.)
    """
    _reduction.get_enum(reduction)
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "triplet_margin_with_distance_loss: the three tensors must agree in the number of dimensions, got "
            f"{anchor.dim()}, {positive.dim()} and {negative.dim()}"
        )
    return _triplet(
        distance_function or pairwise_distance, anchor, positive, negative, margin, swap, reduction
    )


def _triplet(distance, anchor, positive, negative, margin, swap, reduction):
    near = distance(anchor, positive)
    far = distance(anchor, negative)
    if swap:
        far = facula.min(far, distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)
