"""Normalisation functions of nn.functional."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

_nn = _C.nn_functional


def _check_values_per_channel(name: str, size) -> None:
    """Training statistics need more than one value per channel of (N, C, ...)."""
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"{name}: training needs more than one value per channel, got input shape {tuple(size)}"
        )


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1,
               eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalise each channel of (N, C, ...) over the batch and the positions.

    Args:
        running_mean, running_var: (C,); updated in place when ``training``, used otherwise. May be None in
            training.
        weight, bias: (C,), applied after the normalisation.
        momentum: share of the new statistics in the running ones.
        eps: added to the variance.
    """
    if training:
        _check_values_per_channel("batch_norm", input.size())
    return facula.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Normalise each channel of each sample of (N, C, ...) over its positions.

    Args:
        running_mean: (C,): used, or in training updated in place; or None.
        running_var: (C,): as running_mean.
        weight: (C,): factors, or None.
        bias: added after the factors, or None.
        use_input_stats: whether mean and variance are those of the input; else the running ones.
        momentum: the share of a new batch in the running statistics; None for the mean over all batches.
        eps: added to the variance.
    """
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            "instance_norm: training needs more than one position per channel, got input shape "
            f"{tuple(input.shape)}"
        )
    return facula.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalise over the last dimensions, whose shape is ``normalized_shape``; then scale and shift.

    Args:
        weight: of the shape that is normalised: factors, or None.
        bias: added after the factors, or None.
        eps: added to the variance.
    """
    return facula.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Divide by the root mean square over the last dimensions; ``eps`` None is the dtype's machine
    epsilon.

    Args:
        normalized_shape: the sizes of the last dimensions.
        weight: of the shape that is normalised: factors, or None.
    """
    return facula.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalise each of ``num_groups`` groups of channels of each sample of (N, C, ...).

    Args:
        weight: (C,): factors, or None.
        bias: added after the factors, or None.
        eps: added to the variance.
    """
    if input.dim() < 2:
        raise RuntimeError(f"group_norm: the input needs at least 2 dimensions, got {input.dim()}")
    size = input.shape
    if num_groups > 0 and size[0] * size[1] // num_groups * math.prod(size[2:]) == 1:
        raise ValueError(f"group_norm: needs more than one value per channel, got input shape {tuple(size)}")
    return facula.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input: Tensor, size: Any, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide (N, C, ...) by ``(k + alpha * mean of squares over size neighbouring channels) ** beta``."""
    if input.dim() < 3:
        raise ValueError(f"local_response_norm: the input must have 3 dimensions or more, got {input.dim()}")
    if input.numel() == 0:
        return input
    shape = input.size()
    squares = input.mul(input).reshape(shape[0], 1, shape[1], -1)
    # A window of `size` channels around each one, with zeros beyond the ends.
    squares = _nn.pad(squares, [0, 0, size // 2, (size - 1) // 2])
    means = _nn.avg_pool2d(squares, (size, 1), stride=1).reshape(shape)
    return input / means.mul(alpha).add(k).pow(beta)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divide by the p-norm along ``dim`` (at least ``eps``).

    Args:
        out: where the result is written.
    """
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps)
    if out is None:
        return input / norm
    return facula.div(input, norm, out=out)
