"""Loss functions of nn.functional.

``reduction`` is 'mean', 'sum' or 'none'; ``size_average`` and ``reduce`` are the older flags it replaced.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._autocast import in_float32

from .. import _reduction
from .matmul import linear, pairwise_distance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

_nn = _C.nn_functional


def _reduce(loss, reduction: str):
    code = _reduction.get_enum(reduction)
    if code == 1:
        return loss.mean()
    return loss.sum() if code == 2 else loss


def _warn_if_shapes_differ(name: str, input, target) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"{name}: input and target broadcast against each other, which is rarely meant; "
            f"got shapes {tuple(input.shape)} and {tuple(target.shape)}",
            stacklevel=3,
        )


def _weighted(name: str, loss_none, weight, reduction: str, input):
    """``weight`` (of the input's shape) times an unreduced loss, reduced; the mean is over the elements."""
    if weight.shape != input.shape:
        raise ValueError(
            f"{name}: weight must have the input's shape {tuple(input.shape)}, got {tuple(weight.shape)}"
        )
    return loss_none * weight


# -- regression
# ------------------------------------------------------------------------------------------------------


def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Squared difference; with ``weight`` (same shape) 'mean' divides by the sum of the weights.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    _warn_if_shapes_differ("mse_loss", input, target)
    input, target = facula.broadcast_tensors(input, target)
    if weight is None:
        return _nn.mse_loss(input, target, _reduction.get_enum(reduction))
    loss = _weighted("mse_loss", _nn.mse_loss(input, target, 0), weight, reduction, input)
    return loss.sum() / weight.sum() if _reduction.get_enum(reduction) == 1 else _reduce(loss, reduction)


def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Absolute difference; with ``weight`` (same shape) 'mean' divides by the sum of the weights.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    _warn_if_shapes_differ("l1_loss", input, target)
    input, target = facula.broadcast_tensors(input, target)
    if weight is None:
        return _nn.l1_loss(input, target, _reduction.get_enum(reduction))
    loss = _weighted("l1_loss", _nn.l1_loss(input, target, 0), weight, reduction, input)
    return loss.sum() / weight.sum() if _reduction.get_enum(reduction) == 1 else _reduce(loss, reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:  # fmt: skip
    """``0.5 * d**2 / beta`` where ``d = |input - target| < beta``, else ``d - 0.5 * beta``.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    _warn_if_shapes_differ("smooth_l1_loss", input, target)
    input, target = facula.broadcast_tensors(input, target)
    if beta == 0.0:
        return _nn.l1_loss(input, target, _reduction.get_enum(reduction))
    return _nn.smooth_l1_loss(input, target, _reduction.get_enum(reduction), beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """``0.5 * d**2`` where ``d = |input - target| < delta``, else ``delta * (d - 0.5 * delta)``.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
        weight: a factor for each element.
    """
    _warn_if_shapes_differ("huber_loss", input, target)
    input, target = facula.broadcast_tensors(input, target)
    if weight is None:
        return _nn.huber_loss(input, target, _reduction.get_enum(reduction), delta)
    loss = _weighted("huber_loss", _nn.huber_loss(input, target, 0, delta), weight, reduction, input)
    return _reduce(loss, reduction)


@in_float32
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log likelihood of Poisson counts, without the constant unless ``full`` (Stirling's formula).

    Args:
        log_input: ``input`` is the logarithm of the rate; otherwise the rate, and ``eps`` is added in the
            logarithm.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduce(loss, reduction)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log likelihood of a Gaussian with mean ``input`` and variance ``var``.

    Args:
        var: a number, or a tensor of the input's shape, with one dimension of size 1, or without the last
            dimension.
        full: add ``0.5 * log(2 pi)``.
        eps: smallest variance (without a gradient below it).
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var must not be negative, got {var}")
        var = var * facula.ones_like(input)
    elif not _C._recording() and (var < 0).any():  # a program does not look at values
        raise ValueError("gaussian_nll_loss: var must not be negative, got a tensor with negative entries")
    if var.shape != input.shape:
        differing = [b for a, b in zip(input.shape, var.shape) if a != b]
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.dim() == var.dim() and sum(differing) == 1):
            raise ValueError(
                f"gaussian_nll_loss: var does not fit the input shape {tuple(input.shape)}, got "
                f"{tuple(var.shape)}"
            )
    code = _reduction.get_enum(reduction)
    var = var.clone()
    with facula.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if code == 1 else loss.sum() if code == 2 else loss


def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
           log_target: bool = False) -> Tensor:  # fmt: skip
    """``target * (log(target) - input)`` for log-probabilities ``input``.

    Args:
        reduction: also 'batchmean', the mathematical definition: the sum divided by the batch size.
        log_target: ``target`` holds log-probabilities too.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "kl_div: 'mean' divides by the number of elements; the KL divergence is reduction='batchmean', "
            "got 'mean'",
            stacklevel=2,
        )
    if reduction == "batchmean":
        total = facula.kl_div(input, target, 2, log_target=log_target)
        return total / input.size(0) if input.dim() != 0 else total
    return facula.kl_div(input, target, _reduction.get_enum(reduction), log_target=log_target)


# -- classification
# --------------------------------------------------------------------------------------------------


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
             ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Minus the entry of ``input`` (N, C, ...) at the class ``target`` (N, ...).

    Args:
        weight: (C,), a factor per class; 'mean' divides by the sum of the factors used.
        ignore_index: a target value that contributes nothing.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    return _nn.nll_loss_nd(input, target, weight, _reduction.get_enum(reduction), ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Negative log likelihood of classes under softmax of ``input`` (N, C, ...).

    Args:
        target: class numbers (N, ...), or probabilities of the input's shape.
        weight: (C,), a factor per class.
        ignore_index: a class number that contributes nothing.
        label_smoothing: share of the target that is spread over all classes.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    return _nn.cross_entropy_loss(
        input, target, weight, _reduction.get_enum(reduction), ignore_index, label_smoothing
    )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of ``linear(input, linear_weight, linear_bias)``.

    Args:
        input: (in_features,) or (N, in_features).
        linear_weight: (num_classes, ..., in_features); the middle dimensions are those of a K-dimensional
            loss.
        linear_bias: as the weight, without the last dimension.
        options: how to split the work; it does not change the result, and is ignored here.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
        ignore_index: a target that does not count.
        label_smoothing: the share of the target that is spread over all classes, in [0, 1].
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"linear_cross_entropy: input must have 1 or 2 dimensions, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"linear_cross_entropy: linear_weight needs 2 or more dimensions, got {linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            f"linear_cross_entropy: linear_weight {tuple(linear_weight.shape)} needs as many input features, "
            f"got input shape {tuple(input.shape)}"
        )
    classes = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != classes:
        raise RuntimeError(
            f"linear_cross_entropy: linear_bias must have shape {classes}, got {tuple(linear_bias.shape)}"
        )
    if len(classes) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"linear_cross_entropy: a K-dimensional loss needs a batch, got {tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], *classes)
    if ignore_index is not None and tuple(target.shape) == shape:
        raise RuntimeError(f"linear_cross_entropy: probabilities take no ignore_index, got {ignore_index}")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, input.shape[-1]), bias).reshape(shape)
    return cross_entropy(
        logits,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """``-(t * log(x) + (1 - t) * log(1 - x))`` for probabilities x; logarithms are at least -100.

    Args:
        weight: a factor for each class or element; None for 1.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"binary_cross_entropy: target must have the input's shape {tuple(input.shape)}, got "
            f"{tuple(target.shape)}"
        )
    if weight is not None:
        weight = weight.expand(facula.broadcast_shapes(target.shape, weight.shape))
    return _nn.binary_cross_entropy(input, target, weight, _reduction.get_enum(reduction))


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                                     pos_weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """`binary_cross_entropy` of ``sigmoid(input)``, computed stably.

    Args:
        weight: factors that broadcast to the input.
        pos_weight: factors of the positive part, broadcast to the input (one per class, usually).
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"binary_cross_entropy_with_logits: target must have the input's shape {tuple(input.shape)}, "
            f"got {tuple(target.shape)}"
        )
    return facula.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, _reduction.get_enum(reduction)
    )


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int], target_lengths: Tensor | Sequence[int],
             blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> Tensor:  # fmt: skip
    """Connectionist temporal classification: minus the log-probability of all alignments of the targets.

    Args:
        log_probs: (T, N, C) or (T, C), log-probabilities.
        targets: (N, S) or the concatenation of all targets.
        input_lengths, target_lengths: (N,) or (), tensors or tuples.
        blank: the class that stands for no label.
        reduction: 'mean' divides each loss by its target length first.
        zero_infinity: give zero loss and gradient where the target does not fit the input length.
    """
    return facula.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _reduction.get_enum(reduction),
        zero_infinity,
    )


@in_float32
def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """``log(1 + exp(-target * input))`` for targets of -1 and 1.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    return _reduce(-_nn.logsigmoid(target * input), reduction)


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                                reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Mean over the classes (last dimension) of binary cross entropies with logits.

    Args:
        weight: a factor for each class or element; None for 1.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    loss = -(target * _nn.logsigmoid(input) + (1 - target) * _nn.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduce(loss.sum(input.dim() - 1) / input.size(input.dim() - 1), reduction)


def _check_margin_shapes(name: str, input, target, per_class_target: bool) -> None:
    ok = input.dim() <= 2 and (input.dim() == 0 or input.size(-1) > 0)
    if ok and per_class_target:
        ok = target.shape == input.shape or (
            target.dim() <= 1 and input.dim() <= 1 and target.numel() == input.numel()
        )
    elif ok:
        ok = target.dim() <= 1 and target.numel() == (input.size(0) if input.dim() == 2 else 1)
    if not ok:
        wanted = (
            "(N, C) or (C) with a target of the same shape"
            if per_class_target
            else "(N, C) with (N), or (C) with ()"
        )
        raise RuntimeError(
            f"{name}: takes {wanted}, got input {tuple(input.shape)} and target {tuple(target.shape)}"
        )


@in_float32
def multi_margin_loss(input: Tensor, target: Tensor, p: float = 1, margin: float = 1.0, weight: Tensor | None = None,
                      size_average: bool | None = None, reduce: bool | None = None,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Mean over the other classes of ``max(0, margin - x[target] + x[i]) ** p``.

    Args:
        input: (N, C) or (C,). target: class numbers, (N,) or ().
        p: 1 or 2.
        weight: (C,), a factor by target class.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    _check_margin_shapes("multi_margin_loss", input, target, per_class_target=False)
    scores = input if input.dim() == 2 else input.reshape(1, -1)
    if weight is not None and (weight.dim() != 1 or weight.numel() != scores.size(1)):
        raise ValueError(
            f"multi_margin_loss: weight must have {scores.size(1)} entries, got shape {tuple(weight.shape)}"
        )
    index = target.reshape(-1, 1)
    terms = (margin - scores.gather(1, index) + scores).clamp_min(0)
    terms = terms if p == 1 else terms * terms
    if weight is not None:
        terms = terms * weight[index]
    # The target class itself does not count.
    terms = terms.scatter(1, index, 0.0)
    loss = terms.sum(1) / scores.size(1)
    return _reduce(loss.reshape(()) if input.dim() < 2 and target.dim() == 0 else loss, reduction)


@in_float32
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Tensor:  # fmt: skip
    """Sum over targets j and other classes i of ``max(0, 1 - (x[j] - x[i])) / C``.

    Args:
        input: (N, C) or (C,). target: class numbers of the same shape; those after the first -1 are ignored.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    _check_margin_shapes("multilabel_margin_loss", input, target, per_class_target=True)
    scores = input if input.dim() == 2 else input.reshape(1, -1)
    labels = target.reshape(scores.shape)
    valid = (labels != -1).to(facula.int64).cumprod(1).bool()  # other labels below 0 are refused where they index
    index = labels.where(valid, facula.zeros_like(labels))
    # is_target[n, c]: class c is one of the valid labels of sample n.
    is_target = (
        facula.zeros_like(scores, dtype=facula.int64).scatter_add_(1, index, valid.to(facula.int64)) > 0
    )
    differences = 1 - scores.gather(1, index).unsqueeze(2) + scores.unsqueeze(1)
    counted = valid.unsqueeze(2) & ~is_target.unsqueeze(1)
    terms = differences.clamp_min(0).masked_fill(~counted, 0)
    loss = terms.sum((1, 2)) / scores.size(1)
    return _reduce(loss.reshape(()) if input.dim() < 2 else loss, reduction)


# -- embeddings and rankings
# -----------------------------------------------------------------------------------------


@in_float32
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
                          reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        input1, input2: (N, D) or (D,). target: (N,) or ().
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if target.dim() not in (0, 1) or not input1.dim() == input2.dim() == target.dim() + 1:
        raise RuntimeError(
            "cosine_embedding_loss: takes inputs (N, D) with a target (N) or inputs (D) with a 0-D target, "
            "got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    epsilon = 1e-12
    dot = (input1 * input2).sum(-1)
    squares1 = (input1 * input1).sum(-1) + epsilon
    squares2 = (input2 * input2).sum(-1) + epsilon
    cosine = dot / (squares1 * squares2).sqrt()
    zeros = facula.zeros_like(cosine)
    loss = facula.where(target == 1, 1 - cosine, zeros) + facula.where(
        target == -1, (cosine - margin).clamp_min(0), zeros
    )
    return _reduce(loss, reduction)


@in_float32
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """The input where the target is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    zeros = facula.zeros_like(input)
    far = facula.where(target != 1, (margin - input).clamp_min(0), zeros)
    near = facula.where(target != -1, input, zeros)
    return _reduce(far + near, reduction)


@in_float32
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """``max(0, -target * (input1 - input2) + margin)``.

    Args:
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss: all three must have the same number of dimensions, got shapes "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    return _reduce((-target * (input1 - input2) + margin).clamp_min(0), reduction)


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
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with the p-norm distance along the last
    dimension.

    Args:
        swap: use d(positive, negative) where it is smaller than d(anchor, negative).
        margin: greater than 0.
        eps: added to differences.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "triplet_margin_loss: all three must have the same number of dimensions, got "
            f"{anchor.dim()}, {positive.dim()} and {negative.dim()}"
        )

    def distance(a, b):
        return pairwise_distance(a, b, p, eps)

    return _triplet(distance, anchor, positive, negative, margin, swap, reduction)


def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None,
                                      margin: float = 1.0, swap: bool = False, reduction: str = "mean") -> Any:  # fmt: skip
    """As `triplet_margin_loss`, with a distance of your own (default: `pairwise_distance`).

    Args:
        anchor: (N, D).
        positive: like anchor: what shall be near.
        negative: like anchor: what shall be far.
        distance_function: (tensor, tensor) -> distances; by default the Euclidean one.
        margin: the distance beyond which there is no loss.
        swap: whether the positive may take the place of the anchor where it lies nearer to the negative.
        reduction: 'mean' over the elements (or weights), 'sum', or 'none' for the loss of each.
    """
    _reduction.get_enum(reduction)
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "triplet_margin_with_distance_loss: all three must have the same number of dimensions, got "
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
    return _reduce((margin + near - far).clamp_min(0), reduction)
