"""Initialisers: each fills a tensor in place, without recording gradients, and returns it.

``generator`` is the random generator to draw from (default: the global one). The order and amount of random
numbers are PyTorch's, so that the same seed gives the same weights.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Callable

    from facula import Generator, Tensor

__all__ = [
    "calculate_gain",
    "uniform_",
    "normal_",
    "trunc_normal_",
    "constant_",
    "ones_",
    "zeros_",
    "eye_",
    "dirac_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
    "uniform",
    "normal",
    "constant",
    "eye",
    "dirac",
    "xavier_uniform",
    "xavier_normal",
    "kaiming_uniform",
    "kaiming_normal",
    "orthogonal",
    "sparse",
]

_LINEAR_KINDS = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights are scaled before a nonlinearity.

    Args:
        nonlinearity: 'linear', 'convNd', 'conv_transposeNd', 'sigmoid', 'tanh', 'relu', 'leaky_relu' or
            'selu'.
        param: the negative slope of 'leaky_relu'. Default: 0.01.
    """
    if nonlinearity in _LINEAR_KINDS:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif not isinstance(param, bool) and isinstance(param, (int, float)):
            slope = param
        else:
            raise ValueError(f"calculate_gain: the slope of leaky_relu must be a number, got {param!r}")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"calculate_gain: unknown nonlinearity, got {nonlinearity!r}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill from U(a, b)."""
    with facula.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_uniform_(tensor, a, b, generator=None):
    return uniform_(tensor, a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill from N(mean, std**2)."""
    with facula.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Generator | None = None
) -> Tensor:
    """Fill from N(mean, std**2) limited to [a, b], by rejection.

    Draws come from the normal distribution when [a, b] holds more than 0.3 of it, and otherwise from U(a, b),
    accepted with the ratio of the density to its peak in [a, b].
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: [a, b] is more than 2 std from the mean, which may give wrong distributions; "
            f"got mean {mean}, "
            f"std {std}, a {a}, b {b}",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor

    def cdf(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with facula.no_grad():
        if cdf(b) - cdf(a) > 0.3:
            _truncate_by_redrawing(tensor, mean, std, a, b, generator)
        else:
            _truncate_by_acceptance(tensor, mean, std, a, b, generator)
    return tensor


def _truncate_by_redrawing(tensor, mean, std, a, b, generator) -> None:
    # The bounds as this dtype holds them, so that a rounded bound itself is accepted.
    low, high = tensor.new_tensor(a, device="cpu").item(), tensor.new_tensor(b, device="cpu").item()
    tensor.normal_(mean, std, generator=generator)
    while (outside := (tensor < low) | (tensor > high)).any():
        fresh = facula.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(facula.where(outside, fresh, tensor))


def _truncate_by_acceptance(tensor, mean, std, a, b, generator) -> None:
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def rejected(candidates):
        log_ratio = ((candidates - mean) / std).pow_(2).mul_(-0.5).sub_(peak)
        return facula.empty_like(candidates).uniform_(generator=generator).log_() > log_ratio

    tensor.uniform_(a, b, generator=generator)
    pending = rejected(tensor)
    while pending.any():
        fresh = facula.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(facula.where(pending, fresh, tensor))
        pending &= rejected(fresh)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``."""
    with facula.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    with facula.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity: ones on the diagonal, zeros elsewhere."""
    if tensor.dim() != 2:
        raise ValueError(f"eye_: the tensor must have 2 dimensions, got {tensor.dim()}")
    with facula.no_grad():
        facula.eye(*tensor.shape, out=tensor)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution weight of 3 to 5 dimensions so that it keeps as many channels (of each group) as it
    can.
    """
    dims = tensor.dim()
    if dims not in (3, 4, 5):
        raise ValueError(f"dirac_: the tensor must have 3, 4 or 5 dimensions, got {dims}")
    if tensor.size(0) % groups != 0:
        raise ValueError(f"dirac_: dimension 0 must be divisible by groups {groups}, got {tensor.size(0)}")
    per_group = tensor.size(0) // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with facula.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor) -> tuple[int, int]:
    """(inputs of one output, outputs of one input) of a weight (out, in, kernel...)."""
    if tensor.dim() < 2:
        raise ValueError(f"fan in and fan out: the tensor needs at least 2 dimensions, got {tensor.dim()}")
    area = math.prod(tensor.shape[2:])
    return tensor.size(1) * area, tensor.size(0) * area


def _calculate_correct_fan(tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"kaiming: mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill from U(-a, a) with ``a = gain * sqrt(6 / (fan_in + fan_out))``."""
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill from N(0, std**2) with ``std = gain * sqrt(2 / (fan_in + fan_out))``."""
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator | None = None
) -> Tensor:
    """Fill from U(-b, b) with ``b = gain * sqrt(3 / fan)``.

    Args:
        a: negative slope of leaky_relu.
        mode: 'fan_in' keeps the variance forwards, 'fan_out' backwards.
        nonlinearity: the function that follows, see `calculate_gain`.
    """
    if 0 in tensor.shape:
        warnings.warn(
            f"kaiming_uniform_: there is nothing to fill, got shape {tuple(tensor.shape)}", stacklevel=2
        )
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator | None = None
) -> Tensor:
    """Fill from N(0, std**2) with ``std = gain / sqrt(fan)``; arguments as in `kaiming_uniform_`."""
    if 0 in tensor.shape:
        warnings.warn(
            f"kaiming_normal_: there is nothing to fill, got shape {tuple(tensor.shape)}", stacklevel=2
        )
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with ``gain`` times a random matrix of orthonormal rows or columns (all but dimension 0
    flattened).
    """
    if tensor.dim() < 2:
        raise ValueError(f"orthogonal_: the tensor needs at least 2 dimensions, got {tensor.dim()}")
    if tensor.numel() == 0:
        return tensor
    rows, cols = tensor.size(0), tensor.numel() // tensor.size(0)
    flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
    if rows < cols:
        flat.t_()
    q, r = facula.linalg.qr(flat)
    # The signs of r's diagonal make the result uniformly distributed.
    q *= facula.diag(r, 0).sign()
    if rows < cols:
        q.t_()
    with facula.no_grad():
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix from N(0, std**2), then set the share ``sparsity`` of every column to zero."""
    if tensor.dim() != 2:
        raise ValueError(f"sparse_: the tensor must have 2 dimensions, got {tensor.dim()}")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with facula.no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            chosen = facula.randperm(rows)[:zeros]
            tensor[chosen, col] = 0
    return tensor


def _deprecated(function):
    new_name = function.__name__
    old_name = new_name[:-1]

    def deprecated_init(*args, **kwargs):
        warnings.warn(f"{old_name}: deprecated, use {new_name}", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    deprecated_init.__name__ = old_name
    deprecated_init.__doc__ = f"Deprecated name of `{new_name}`."
    return deprecated_init


uniform: Callable[..., Tensor] = _deprecated(uniform_)
normal: Callable[..., Tensor] = _deprecated(normal_)
constant: Callable[..., Tensor] = _deprecated(constant_)
eye: Callable[..., Tensor] = _deprecated(eye_)
dirac: Callable[..., Tensor] = _deprecated(dirac_)
xavier_uniform: Callable[..., Tensor] = _deprecated(xavier_uniform_)
xavier_normal: Callable[..., Tensor] = _deprecated(xavier_normal_)
kaiming_uniform: Callable[..., Tensor] = _deprecated(kaiming_uniform_)
kaiming_normal: Callable[..., Tensor] = _deprecated(kaiming_normal_)
orthogonal: Callable[..., Tensor] = _deprecated(orthogonal_)
sparse: Callable[..., Tensor] = _deprecated(sparse_)
