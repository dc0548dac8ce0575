"""Limit gradients: their common norm, or each value."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _parameters(parameters, name: str) -> list:
    if isinstance(parameters, facula.Tensor):
        return [parameters]
    if not isinstance(parameters, Iterable):
        raise TypeError(f"{name}: takes a tensor or an iterable of tensors, got {type(parameters).__name__}")
    return list(parameters)


def _gradients(parameters) -> list:
    return [p.grad for p in parameters if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of all values of some tensors together, a tensor without dimensions.

    Args:
        tensors: a tensor or an iterable of them, such as gradients.
        norm_type: the power p; infinity takes the largest absolute value.
        error_if_nonfinite: if True, raise RuntimeError for an infinite norm, or one that is not a number.
        foreach: accepted without effect.

    Returns: a tensor ().

    Errors: RuntimeError, with error_if_nonfinite, for an infinite norm, or one that is not a number; TypeError for something
    that is not a tensor and cannot be iterated over.

    >>> nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([[0.0, 4.0]])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, facula.Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return facula.tensor(0.0)
    total = _distributed_norm(tensors, norm_type)
    if total is None:
        total = _norm_of_norms(tensors, norm_type)
    if error_if_nonfinite and not bool(facula.isfinite(total)):
        raise RuntimeError(
            f"clip_grad_norm_: the norm of order {norm_type} must be finite (or pass error_if_nonfinite=False), "
            f"got {total.item()}"
        )
    return total


def _norm_of_norms(tensors, norm_type: float):
    device = tensors[0].device
    norms = [facula.linalg.vector_norm(t, norm_type).to(device) for t in tensors]
    return facula.linalg.vector_norm(facula.stack(norms), norm_type)


def _distributed_norm(tensors, norm_type: float):
    """Return the norm where parts of tensors are in several processes; None if none are."""
    if norm_type <= 0 or not any(hasattr(t, "device_mesh") for t in tensors):
        return None
    from facula.distributed.tensor._norm import total_norm

    return total_norm(tensors, norm_type)


def clip_grads_with_norm_(parameters: Iterable[Tensor], max_norm: float, total_norm: Tensor,
                          foreach: bool | None = None) -> None:  # fmt: skip
    """Scale gradients in place by ``max_norm / (total_norm + 1e-6)`` where that is below 1.

    Args:
        parameters: a tensor or an iterable of them, whose gradients are scaled.
        max_norm: the largest norm that is allowed.
        total_norm: the norm of all gradients, which `get_total_norm` returns.
        foreach: accepted without effect.

    Errors: TypeError for something that is not a tensor and cannot be iterated over.

    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> nn.utils.clip_grads_with_norm_(weight, 1.0, nn.utils.get_total_norm(weight.grad))
    >>> weight.grad
    tensor([0.6000, 0.8000])
    """
    grads = _gradients(_parameters(parameters, "clip_grads_with_norm_"))
    with facula.no_grad():
        if hasattr(total_norm, "device_mesh"):
            total_norm = total_norm.full_tensor()
        # Multiplying by a clamped 1 costs less than waiting for the norm's value.
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(scale.to(grad.device))


def clip_grad_norm_(
    parameters: Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that the norm of all of them together is at most ``max_norm``; return the norm before.

    Args:
        parameters: a tensor or an iterable of them; those without gradient are left out.
        max_norm: the largest norm that is allowed.
        norm_type: the power p; infinity takes the largest absolute value.
        error_if_nonfinite: if True, raise RuntimeError for an infinite norm, or one that is not a number, before anything is
            changed.
        foreach: accepted without effect.

    An empty generator warns: it may have been used before.

    Returns: the norm before, a tensor ().

    Errors: RuntimeError, with error_if_nonfinite, for an infinite norm, or one that is not a number.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> layer(torch.tensor([3.0, 4.0])).backward()
    >>> nn.utils.clip_grad_norm_(layer.parameters(), max_norm=1.0)
    tensor(5.)
    >>> layer.weight.grad
    tensor([[0.6000, 0.8000]])
    """
    given = parameters
    parameters = _parameters(given, "clip_grad_norm_")
    if not parameters and isinstance(given, types.GeneratorType):
        warnings.warn("clip_grad_norm_: there is nothing to clip, got an empty generator", stacklevel=2)
    grads = _gradients(parameters)
    with facula.no_grad():
        total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
        if grads:
            clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:  # fmt: skip
    """Call `clip_grad_norm_`, of which this is a deprecated name; it warns.

    Args:
        parameters, max_norm, norm_type, error_if_nonfinite, foreach: the arguments of `clip_grad_norm_`.

    Returns: what `clip_grad_norm_` returns.

    Errors: those of `clip_grad_norm_`.

    >>> import warnings
    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     nn.utils.clip_grad_norm(weight, max_norm=1.0)
    tensor(5.)
    """
    warnings.warn("clip_grad_norm: deprecated, use clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limit every gradient value, in place, to [-clip_value, clip_value].

    Args:
        parameters: a tensor or an iterable of them; those without gradient are left out.
        clip_value: the bound.
        foreach: accepted without effect.

    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([3.0, -0.5])
    >>> nn.utils.clip_grad_value_(weight, 1.0)
    >>> weight.grad
    tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    if isinstance(parameters, facula.Tensor):
        parameters = [parameters]
    with facula.no_grad():
        for p in parameters:
            if p.grad is not None:
                p.grad.clamp_(min=-clip_value, max=clip_value)
