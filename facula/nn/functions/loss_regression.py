"""Define the losses of regression and of distributions in nn.functional.

``reduction`` is 'mean', 'sum' or 'none'; ``size_average`` and ``reduce`` are the older flags it replaced.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._shared.autocast import in_float32

from .. import _reduction
from .._reduction import reduced

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss"]

_nn = _C.nn_functional


def _warn_if_shapes_differ(name: str, input, target) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"{name}: input and target broadcast against each other, which is rarely meant; "
            f"got shapes {tuple(input.shape)} and {tuple(target.shape)}",
            stacklevel=3,
        )


def _broadcast(name: str, input: Tensor, target: Tensor):
    """Return both in their common shape."""
    try:
        return facula.broadcast_tensors(input, target)
    except RuntimeError:
        shapes = f"{tuple(input.shape)} and {tuple(target.shape)}"
        raise RuntimeError(f"{name}: input and target must have one shape, or shapes that broadcast, got {shapes}") from None


def _weighted(name: str, loss_none, weight, input):
    """Return ``weight`` (of the input's shape) times an unreduced loss."""
    if weight.shape != input.shape:
        raise ValueError(
            f"{name}: weight must have the input's shape {tuple(input.shape)}, got {tuple(weight.shape)}"
        )
    return loss_none * weight


def _distance(name: str, input: Tensor, target: Tensor, reduction: str, weight: Tensor | None) -> Tensor:
    """Return the loss of the core called so, of each element or reduced."""
    given = input
    input, target = _broadcast(name, input, target)
    if weight is None:
        return getattr(_nn, name)(input, target, _reduction.get_enum(reduction))
    distance = input - target  # of any dtype, complex ones included
    loss = _weighted(name, distance.square() if name == "mse_loss" else distance.abs(), weight, given)
    return loss.sum() / weight.sum() if _reduction.get_enum(reduction) == 1 else reduced(loss, reduction)


def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the squared difference ``(input - target) ** 2``, reduced.

    Args:
        input: the values, of any shape.
        target: of the input's shape; another one that broadcasts is accepted with a UserWarning.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        weight: of the input's shape, a factor for each element; then 'mean' divides by the sum of the weights.

    Returns: a number; for 'none' a tensor of the shape of input (or of the broadcast shape).

    Errors: ValueError for another reduction, or a weight of another shape; RuntimeError for shapes that do not broadcast.

    >>> input, target = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 0.0])
    >>> F.mse_loss(input, target, reduction="none")
    tensor([0., 4., 9.])
    >>> F.mse_loss(input, target, weight=torch.tensor([1.0, 1.0, 0.0]))
    tensor(2.)
    """
    _warn_if_shapes_differ("mse_loss", input, target)
    return _distance("mse_loss", input, target, _reduction.resolve(size_average, reduce, reduction), weight)


def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the absolute difference ``abs(input - target)``, reduced.

    Args:
        input: the values, of any shape.
        target: of the input's shape; another one that broadcasts is accepted with a UserWarning.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        weight: of the input's shape, a factor for each element; then 'mean' divides by the sum of the weights.

    Returns: a number; for 'none' a tensor of the shape of input (or of the broadcast shape).

    Errors: ValueError for another reduction, or a weight of another shape; RuntimeError for shapes that do not broadcast.

    >>> F.l1_loss(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]), reduction="sum")
    tensor(5.)
    """
    _warn_if_shapes_differ("l1_loss", input, target)
    return _distance("l1_loss", input, target, _reduction.resolve(size_average, reduce, reduction), weight)


def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:  # fmt: skip
    """Return ``0.5 * d**2 / beta`` where ``d = |input - target| < beta``, else ``d - 0.5 * beta``; reduced.

    Args:
        input: the values, of any shape.
        target: of the input's shape; another one that broadcasts is accepted with a UserWarning.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        beta: the distance at which the square meets the line; 0 gives `l1_loss`.

    Returns: a number; for 'none' a tensor of the shape of input (or of the broadcast shape).

    Errors: ValueError for another reduction; RuntimeError for a negative beta, or shapes that do not broadcast.

    >>> F.smooth_l1_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    _warn_if_shapes_differ("smooth_l1_loss", input, target)
    input, target = _broadcast("smooth_l1_loss", input, target)
    if beta == 0.0:
        return _nn.l1_loss(input, target, _reduction.get_enum(reduction))
    return _nn.smooth_l1_loss(input, target, _reduction.get_enum(reduction), beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return ``0.5 * d**2`` where ``d = |input - target| < delta``, else ``delta * (d - 0.5 * delta)``; reduced.

    Args:
        input: the values, of any shape.
        target: of the input's shape; another one that broadcasts is accepted with a UserWarning.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.
        delta: the distance at which the square meets the line, greater than 0.
        weight: of the input's shape, a factor for each element; 'mean' still divides by the number of elements.

    Returns: a number; for 'none' a tensor of the shape of input (or of the broadcast shape).

    Errors: ValueError for another reduction, or a weight of another shape; RuntimeError for a delta that is not positive, or
    shapes that do not broadcast.

    >>> F.huber_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), reduction="none", delta=2.0)
    tensor([0.1250, 4.0000])
    """
    _warn_if_shapes_differ("huber_loss", input, target)
    input, target = _broadcast("huber_loss", input, target)
    if weight is None:
        return _nn.huber_loss(input, target, _reduction.get_enum(reduction), delta)
    loss = _weighted("huber_loss", _nn.huber_loss(input, target, 0, delta), weight, input)
    return reduced(loss, reduction)


@in_float32
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return the negative log likelihood of counts under a Poisson distribution: ``exp(input) - target * input``, reduced.

    Args:
        input: the logarithm of the rate, or the rate itself without log_input.
        target: the counts, of a shape that broadcasts with the input's.
        log_input: if False, compute ``input - target * log(input + eps)``.
        full: if True, add the constant ``log(target!)``, by Stirling's formula, for targets greater than 1.
        eps: a number that keeps the logarithm of a rate finite.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.

    Returns: a number; for 'none' a tensor of the broadcast shape.

    Errors: ValueError for another reduction; TypeError for an input or target that is not a tensor; RuntimeError for shapes
    that do not broadcast.

    >>> F.poisson_nll_loss(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]), reduction="none")
    tensor([1.0000, 0.7183])
    """
    reduction = _reduction.resolve(size_average, reduce, reduction)
    _reduction.get_enum(reduction)  # says what is wrong with it before the shapes are looked at
    for name, value in (("input", input), ("target", target)):
        if not isinstance(value, _C.Tensor):
            raise TypeError(f"poisson_nll_loss: {name} must be a Tensor, got {type(value).__name__}")
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0).to(loss.dtype)
    return reduced(loss, reduction)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Return the negative log likelihood of a Gaussian: ``0.5 * (log(var) + (input - target) ** 2 / var)``, reduced.

    Args:
        input: the mean, of any shape.
        target: what was observed, of a shape that broadcasts with the input's.
        var: the variance: a float, or a tensor of the input's shape, with one dimension of size 1, or without the last
            dimension.
        full: if True, add the constant ``0.5 * log(2 * pi)``.
        eps: the smallest variance; a variance below is taken as eps, and gets the gradient nevertheless.
        reduction: 'mean' over the elements, 'sum', or 'none' for the loss of each.

    Returns: a number; for 'none' a tensor of the broadcast shape.

    Errors: ValueError for a negative variance, one of a shape that does not fit, or another reduction.

    >>> F.gaussian_nll_loss(torch.zeros(2), torch.tensor([0.0, 2.0]), torch.tensor([1.0, 4.0]), reduction="none")
    tensor([0.0000, 1.1931])
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
                f"gaussian_nll_loss: var is of incorrect size, expected the input shape {tuple(input.shape)}, got "
                f"{tuple(var.shape)}"
            )
    code = _reduction.get_enum(reduction)
    # The limit is not recorded, so that a variance below eps has a gradient that lifts it.
    var = var.clone()
    with facula.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if code == 1 else loss.sum() if code == 2 else loss


def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
           log_target: bool = False) -> Tensor:  # fmt: skip
    """Return the Kullback-Leibler divergence of log-probabilities from probabilities: ``target * (log(target) - input)``,
    reduced.

    Args:
        input: log-probabilities.
        target: probabilities, or log-probabilities with log_target; of a shape that broadcasts with the input's.
        reduction: 'batchmean' (the sum divided by the size of dimension 0: the divergence as it is defined), 'sum', 'none', or
            'mean' over the elements, the default, which warns that it is not the divergence.
        log_target: if True, the target holds logarithms, too.

    Returns: a number; for 'none' a tensor of the broadcast shape.

    Errors: ValueError for another reduction; RuntimeError for shapes that do not broadcast.

    >>> input = torch.tensor([[0.5, 0.5]]).log()
    >>> F.kl_div(input, torch.tensor([[0.25, 0.75]]), reduction="batchmean")
    tensor(0.1308)
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
    return _C.kl_div(input, target, _reduction.get_enum(reduction), log_target=log_target)
