"""Define the losses of classification in nn.functional.

``reduction`` is 'mean', 'sum' or 'none'; ``size_average`` and ``reduce`` are the older flags it replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._C.nn_functional import linear
from facula._shared.autocast import in_float32

from .. import _reduction
from .._reduction import reduced

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "ctc_loss", "linear_cross_entropy",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "soft_margin_loss",
]  # fmt: skip

_nn = _C.nn_functional


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
             ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return the negative log likelihood: ``-weight[target] * input[n, target]``, reduced.

    Args:
        input: the log-probabilities, (C,), (N, C) or (N, C, d1, ...).
        target: the class numbers in [0, C), int64 or uint8: (), (N,) or (N, d1, ...).
        weight: (C,), a factor for each class; 'mean' divides by the sum of the factors that were used.
        ignore_index: a class number that adds nothing to loss, mean or gradient.
        reduction: 'mean', 'sum', or 'none' for the loss of each.

    Returns: a number; for 'none' a tensor of the shape of target.

    Errors: IndexError for a class that does not exist; ValueError for another reduction, or a batch that does not fit;
    RuntimeError for a target of another dtype or shape.

    >>> log_probs = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]).log()
    >>> F.nll_loss(log_probs, torch.tensor([0, 2]), reduction="none")
    tensor([0.6931, 0.2231])
    >>> F.nll_loss(log_probs, torch.tensor([0, -100]))
    tensor(0.6931)
    """
    plain = reduction == "mean" and size_average is None and reduce is None  # as mostly
    number = 1 if plain else _reduction.number(size_average, reduce, reduction)
    return _nn.nll_loss_nd(input, target, weight, number, ignore_index)


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
    """Return the cross entropy of scores: `nll_loss` of ``log_softmax(input, 1)``, in one pass.

    Args:
        input: the scores (logits), (C,), (N, C) or (N, C, d1, ...).
        target: the class numbers in [0, C), int64 or uint8: (), (N,) or (N, d1, ...); or probabilities of the input's shape.
        weight: (C,), a factor for each class; 'mean' divides by the sum of the factors of the classes that were hit.
        ignore_index: a class number that adds nothing to loss, mean or gradient; only where the target has class numbers.
        reduction: 'mean', 'sum', or 'none' for the loss of each.
        label_smoothing: the share of the target that is spread evenly over all classes, in [0, 1].

    Returns: a number; for 'none' a tensor of the shape of the class numbers, (), (N,) or (N, d1, ...).

    Errors: IndexError for a class that does not exist; RuntimeError for a label_smoothing outside [0, 1], a weight of another
    size, or a target of another dtype; ValueError for another reduction, or a batch that does not fit.

    >>> scores = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    >>> F.cross_entropy(scores, torch.tensor([0, 2]), reduction="none")
    tensor([0.2395, 0.0949])
    >>> F.cross_entropy(scores, torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.0, 1.0]]))
    tensor(0.2672)
    """
    plain = reduction == "mean" and size_average is None and reduce is None  # as mostly
    number = 1 if plain else _reduction.number(size_average, reduce, reduction)
    return _nn.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


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
    """Return `cross_entropy` of ``linear(input, linear_weight, linear_bias)``: the last layer of a language model and its loss.

    Args:
        input: the values, (in_features,) or (N, in_features).
        linear_weight: (C, ..., in_features); dimensions in the middle are those of a loss at several places, (N, C, ...).
        target: class numbers, () or (N, ...), or probabilities (C, ...) or (N, C, ...).
        linear_bias: (C, ...): the weight's shape without the last dimension.
        weight: (C,), a factor for each class.
        reduction: 'mean', 'sum', or 'none' for the loss of each.
        ignore_index: a class number that does not count. Default: -100. It does not go with probabilities.
        label_smoothing: the share of the target that is spread over all classes, in [0, 1].
        options: accepted without effect: how a fused kernel would split the work.

    Returns: a number; for 'none' a tensor of the shape of the class numbers.

    Errors: RuntimeError for shapes that do not fit, or an ignore_index beside probabilities.

    >>> hidden, weight = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> F.linear_cross_entropy(hidden, weight, torch.tensor([0]))
    tensor(0.1269)
    >>> F.cross_entropy(F.linear(hidden, weight), torch.tensor([0]))
    tensor(0.1269)
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
    """Return the cross entropy of probabilities x and targets t of two classes: ``-(t * log(x) + (1 - t) * log(1 - x))``,
    reduced.

    Args:
        input: the probabilities, in [0, 1]; logarithms are at least -100, so that the loss is finite.
        target: of the input's shape, in [0, 1].
        weight: a factor for each element, of a shape that broadcasts to the target's.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.

    Returns: a number; for 'none' a tensor of the shape of input.

    Errors: ValueError for a target of another shape; RuntimeError for an input outside [0, 1], or in a region of autocast,
    where `binary_cross_entropy_with_logits` is what one wants.

    >>> F.binary_cross_entropy(torch.tensor([0.5, 0.9]), torch.tensor([0.0, 1.0]), reduction="none")
    tensor([0.6931, 0.1054])
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
    """Return `binary_cross_entropy` of ``sigmoid(input)``, without overflow for large scores.

    Args:
        input: the scores (logits), of any shape.
        target: of the input's shape, in [0, 1].
        weight: a factor for each element, of a shape that broadcasts to the input's.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        pos_weight: a factor for the positive part ``t * log(sigmoid(x))``; broadcasts to the input, usually one for each class.

    Returns: a number; for 'none' a tensor of the shape of input.

    Errors: ValueError for a target of another shape, or another reduction.

    >>> input, target = torch.tensor([0.0, 100.0]), torch.tensor([1.0, 0.0])
    >>> F.binary_cross_entropy_with_logits(input, target, reduction="none")
    tensor([  0.6931, 100.0000])
    >>> F.binary_cross_entropy_with_logits(input, target, pos_weight=torch.tensor(3.0), reduction="none")
    tensor([  2.0794, 100.0000])
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"binary_cross_entropy_with_logits: target must have the input's shape {tuple(input.shape)}, "
            f"got {tuple(target.shape)}"
        )
    return _C.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, _reduction.get_enum(reduction)
    )


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int], target_lengths: Tensor | Sequence[int],
             blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> Tensor:  # fmt: skip
    """Return the loss of connectionist temporal classification: minus the log-probability that an alignment of T steps reads as
    the target.

    Args:
        log_probs: (T, N, C) or (T, C), log-probabilities of C classes, as of `log_softmax`.
        targets: class numbers without blank: (N, S), or all targets one after the other in one dimension.
        input_lengths: the number of steps of each sequence that count: (N,) or (), a tensor or a tuple.
        target_lengths: the length of each target: (N,) or (), a tensor or a tuple.
        blank: the class that stands for no label.
        reduction: 'mean' over the batch of losses divided by their target's length, 'sum', or 'none'.
        zero_infinity: if True, replace an infinite loss (of a target longer than its input) and its gradient by 0.

    Returns: a number; for 'none' (N,) or ().

    Errors: RuntimeError for lengths that do not fit, or a blank that is no class.

    >>> log_probs = torch.full((3, 1, 4), 0.25).log()
    >>> F.ctc_loss(log_probs, torch.tensor([[1, 2]]), (3,), (2,), reduction="none")
    tensor([2.5494])
    >>> F.ctc_loss(log_probs, torch.tensor([[1, 1, 2]]), (3,), (3,), reduction="none", zero_infinity=True)
    tensor([0.])
    """
    return _C.ctc_loss(
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
    """Return ``log(1 + exp(-target * input))``, reduced.

    Args:
        input: the scores, of any shape.
        target: -1 or 1 for each.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.

    Returns: a number; for 'none' a tensor of the shape of input.

    Errors: ValueError for another reduction; RuntimeError for a target that does not broadcast to the input's shape.

    >>> F.soft_margin_loss(torch.tensor([0.0, 2.0]), torch.tensor([1.0, -1.0]), reduction="none")
    tensor([0.6931, 2.1269])
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    product = target * input
    if product.shape != input.shape:
        raise RuntimeError(
            f"soft_margin_loss: target must broadcast to the input's shape {tuple(input.shape)}, got {tuple(target.shape)}"
        )
    return reduced(-_nn.logsigmoid(product), reduction)


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                                reduce: bool | None = None, reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return the mean over the classes (the last dimension) of `binary_cross_entropy_with_logits`, reduced over the rest.

    Args:
        input: the scores, (N, C) or (C,).
        target: of the input's shape: 1 for classes that apply, otherwise 0.
        weight: (C,), a factor for each class.
        reduction: 'mean' over the batch, 'sum', or 'none' for the loss of each sample.

    Returns: a number; for 'none' (N,) or ().

    Errors: ValueError for another reduction; RuntimeError for shapes that do not broadcast.

    >>> input, target = torch.tensor([[0.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    >>> F.multilabel_soft_margin_loss(input, target, reduction="none")
    tensor([0.4100, 0.6931])
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    loss = -(target * _nn.logsigmoid(input) + (1 - target) * _nn.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(input.dim() - 1) / input.size(input.dim() - 1), reduction)


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
                      size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Return the hinge loss of several classes: the sum over i != target of ``max(0, margin - x[target] + x[i]) ** p / C``,
    reduced.

    Args:
        input: the scores, (N, C) or (C,).
        target: the class numbers, int64, (N,) or ().
        p: 1 or 2.
        margin: the distance beyond which there is no loss.
        weight: (C,), a factor by the class of the target.
        reduction: 'mean' over the batch, 'sum', or 'none' for the loss of each sample.

    Returns: a number; for 'none' (N,) or ().

    Errors: ValueError for another p or reduction, or a weight of more dimensions; RuntimeError for shapes that do not fit.

    >>> F.multi_margin_loss(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([3]))
    tensor(0.3250)
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    _check_margin_shapes("multi_margin_loss", input, target, per_class_target=False)
    scores = input if input.dim() == 2 else input.reshape(1, -1)
    if weight is not None and (weight.dim() != 1 or weight.numel() != scores.size(1)):
        error = ValueError if weight.dim() != 1 else RuntimeError
        raise error(f"multi_margin_loss: weight must have {scores.size(1)} entries, got shape {tuple(weight.shape)}")
    index = target.reshape(-1, 1)
    terms = (margin - scores.gather(1, index) + scores).clamp_min(0)
    terms = terms if p == 1 else terms * terms
    if weight is not None:
        terms = terms * weight[index]
    # The target class itself does not count.
    terms = terms.scatter(1, index, 0.0)
    if reduction == "mean":
        return terms.mean()
    if reduction == "sum":
        return terms.sum() / scores.size(1)
    loss = terms.sum(1) / scores.size(1)
    return reduced(loss.reshape(()) if input.dim() < 2 and target.dim() == 0 else loss, reduction)


@in_float32
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return the sum over target classes j and other classes i of ``max(0, 1 - (x[j] - x[i]))``, divided by C; reduced.

    Args:
        input: the scores, (N, C) or (C,).
        target: the class numbers, int64, of the input's shape; those behind the first -1 do not count.
        reduction: 'mean' over the batch, 'sum', or 'none' for the loss of each sample.

    Returns: a number; for 'none' (N,) or ().

    Errors: RuntimeError for shapes that do not fit, or a class that does not exist; ValueError for another reduction.

    >>> F.multilabel_margin_loss(torch.tensor([0.1, 0.2, 0.4, 0.8]), torch.tensor([3, 0, -1, 1]))
    tensor(0.8500)
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
    return reduced(loss.reshape(()) if input.dim() < 2 else loss, reduction)
