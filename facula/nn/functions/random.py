"""Define the dropout functions of nn.functional."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


_dropout = _C.dropout
_dropout_ = _C.dropout_


def _check_probability(name: str, p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"{name}: the probability must be between 0 and 1, got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each element to zero in training with probability ``p`` and multiply the rest by ``1 / (1 - p)``.

    Args:
        input: the values, of any shape.
        p: the probability of dropping, in [0, 1].
        training: if False, return the input.
        inplace: if True, change the input itself and return it.

    Returns: a tensor of the shape of input, or input itself.

    Errors: ValueError for a p outside [0, 1].

    >>> dropped = F.dropout(torch.ones(1000), p=0.2)
    >>> dropped.unique()
    tensor([0.0000, 1.2500])
    >>> F.dropout(torch.ones(2), p=0.2, training=False)
    tensor([1., 1.])
    """
    _check_probability("dropout", p)
    return _dropout_(input, p, training) if inplace else _dropout(input, p, training)


# Of the SELU function; alpha dropout keeps the mean and variance of its outputs.
_SELU_SATURATION = 1.7580993408473766


def _noise_dropout(input, p: float, training: bool, inplace: bool, per_channel: bool, alpha: bool):
    """Apply dropout with one draw per element or per (sample, channel), to zero or to SELU's lower limit."""
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        zero = facula.zeros((), dtype=input.dtype, device=input.device)
        return input.mul_(zero) if inplace else input * zero
    if per_channel:
        if input.dim() < 2:
            raise RuntimeError(f"feature dropout: the input needs at least 2 dimensions, got {input.dim()}")
        noise = input.new_empty((input.size(0), input.size(1)) + (1,) * (input.dim() - 2))
    else:
        noise = facula.empty_like(input)
    noise.bernoulli_(1 - p)
    if not alpha:
        noise.div_(1 - p)
        return input.mul_(noise) if inplace else input * noise
    scale = 1.0 / math.sqrt((_SELU_SATURATION * _SELU_SATURATION * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(_SELU_SATURATION * scale).add_(_SELU_SATURATION * scale * p)
    noise.mul_(scale)
    return (input.mul_(noise) if inplace else input * noise).add_(shift)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Apply dropout for networks of SELU: dropped elements take SELU's lower limit, and then mean 0 and variance 1 are
    restored.

    Args:
        input: the values, of any shape.
        p: the probability of dropping, in [0, 1].
        training: if False, return the input.
        inplace: if True, change the input itself and return it.

    Returns: a tensor of the shape of input.

    Errors: ValueError for a p outside [0, 1].

    >>> x = torch.randn(10000)
    >>> round(F.alpha_dropout(x, p=0.2, training=True).std().item(), 1)
    1.0
    """
    _check_probability("alpha_dropout", p)
    return _noise_dropout(input, p, training, inplace, per_channel=False, alpha=True)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Apply `alpha_dropout` to whole channels.

    Args:
        input: the values, (N, C, ...).
        p: the probability of dropping, in [0, 1].
        training: if False, return the input.
        inplace: if True, change the input itself and return it.

    Returns: a tensor of the shape of input.

    Errors: ValueError for a p outside [0, 1]; RuntimeError for fewer than 2 dimensions.

    >>> F.feature_alpha_dropout(torch.ones(1, 3, 2), p=0.5, training=True).shape
    torch.Size([1, 3, 2])
    """
    _check_probability("feature_alpha_dropout", p)
    return _noise_dropout(input, p, training, inplace, per_channel=True, alpha=True)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero in training with probability ``p`` and multiply the rest by ``1 / (1 - p)``.

    Args:
        input: the values, (N, C, L) or (C, L).
        p: the probability of dropping, in [0, 1].
        training: if False, return the input.
        inplace: if True, change the input itself and return it.

    Returns: a tensor of the shape of input.

    Errors: ValueError for a p outside [0, 1]; RuntimeError for other numbers of dimensions.

    >>> kept = F.dropout1d(torch.ones(50, 4, 3)).amax(2)
    >>> kept.shape, kept.unique()
    (torch.Size([50, 4]), tensor([0., 2.]))
    """
    _check_probability("dropout1d", p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: expected a 2D or 3D input, got {input.dim()}D")
    return _channel_dropout(input, p, training, inplace, unbatched=input.dim() == 2)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero in training with probability ``p`` and multiply the rest by ``1 / (1 - p)``.

    Three dimensions are taken as (N, C, L), with a UserWarning; other numbers of dimensions than four warn, too.

    Args:
        input: the values, (N, C, H, W).
        p: the probability of dropping, in [0, 1].
        training: if False, return the input.
        inplace: if True, change the input itself and return it.

    Returns: a tensor of the shape of input.

    Errors: ValueError for a p outside [0, 1].

    >>> kept = F.dropout2d(torch.ones(50, 4, 3, 3)).amax((2, 3))
    >>> kept.shape, kept.unique()
    (torch.Size([50, 4]), tensor([0., 2.]))
    """
    _check_probability("dropout2d", p)
    if input.dim() != 4:
        advice = "it is read as (N, C, L): use dropout1d" if input.dim() == 3 else "use dropout"
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, expected 4 dimensions ({advice})", stacklevel=2
        )
    return _channel_dropout(input, p, training, inplace, unbatched=False)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero in training with probability ``p`` and multiply the rest by ``1 / (1 - p)``.

    Other numbers of dimensions than four and five warn.

    Args:
        input: the values, (N, C, D, H, W) or (C, D, H, W).
        p: the probability of dropping, in [0, 1].
        training: if False, return the input.
        inplace: if True, change the input itself and return it.

    Returns: a tensor of the shape of input.

    Errors: ValueError for a p outside [0, 1].

    >>> kept = F.dropout3d(torch.ones(50, 4, 2, 2, 2)).amax((2, 3, 4))
    >>> kept.shape, kept.unique()
    (torch.Size([50, 4]), tensor([0., 2.]))
    """
    _check_probability("dropout3d", p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, expected 4 or 5 dimensions (use dropout)",
            stacklevel=2,
        )
    return _channel_dropout(input, p, training, inplace, unbatched=input.dim() == 4)


def _channel_dropout(input, p: float, training: bool, inplace: bool, unbatched: bool):
    if not unbatched:
        return _noise_dropout(input, p, training, inplace, per_channel=True, alpha=False)
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _noise_dropout(batch, p, training, inplace, per_channel=True, alpha=False)
    return result.squeeze_(0) if inplace else result.squeeze(0)
