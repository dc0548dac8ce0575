"""Define the normalization functions of nn.functional."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]

_nn = _C.nn_functional


def _check_values_per_channel(name: str, size) -> None:
    """Check that there is more than one value per channel of (N, C, ...), which training statistics need."""
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"{name}: training needs more than one value per channel, got input shape {tuple(size)}"
        )


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1,
               eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalize each channel over the batch and the positions: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Args:
        input: the values, (N, C, ...).
        running_mean, running_var: (C,): updated in place in training, used for mean and var otherwise; in training may be None.
        weight: (C,): the factors, or None.
        bias: (C,): the numbers added after the factors, or None.
        training: if True, use the mean and the variance of the batch.
        momentum: the share of the batch in the running statistics.
        eps: a number added to the variance.

    Returns: a tensor of the shape of input.

    Errors: ValueError in training for one value per channel, or for one of running_mean and running_var alone; RuntimeError for
    statistics, a weight or a bias of another size.

    >>> mean, var = torch.zeros(1), torch.ones(1)
    >>> F.batch_norm(torch.tensor([[1.0], [3.0]]), mean, var, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    >>> mean, var
    (tensor([0.2000]), tensor([1.1000]))
    """
    if training:
        if (running_mean is None) != (running_var is None):
            raise ValueError("batch_norm: running_mean and running_var must both be given or both be None, got one of them")
        if input.size(0) == 1:
            _check_values_per_channel("batch_norm", input.size())
    return _C.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


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
    """Normalize each channel of each sample over its positions: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Args:
        input: the values, (N, C, ...).
        running_mean, running_var: (C,): updated in place with use_input_stats, used for mean and var without; or None.
        weight: (C,): the factors, or None.
        bias: (C,): the numbers added after the factors, or None.
        use_input_stats: if True, use the mean and the variance of the input, otherwise the running ones.
        momentum: the share of the input in the running statistics.
        eps: a number added to the variance.

    Returns: a tensor of the shape of input.

    Errors: ValueError with use_input_stats for one position per channel.

    >>> F.instance_norm(torch.tensor([[[1.0, 3.0], [5.0, 5.0]]]))
    tensor([[[-1.0000,  1.0000],
             [ 0.0000,  0.0000]]])
    """
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            "instance_norm: training needs more than one position per channel, got input shape "
            f"{tuple(input.shape)}"
        )
    return _C.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalize over the last dimensions: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Args:
        input: the values, (..., *normalized_shape).
        normalized_shape: the sizes of the last dimensions, a list.
        weight: normalized_shape: the factors, or None.
        bias: normalized_shape: the numbers added after the factors, or None.
        eps: a number added to the variance.

    Returns: a tensor of the shape of input.

    Errors: RuntimeError for an input whose last dimensions are others.

    >>> F.layer_norm(torch.tensor([[1.0, 3.0], [10.0, 30.0]]), [2])
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """
    return _C.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Divide by the root mean square over the last dimensions: ``x / sqrt(mean(x ** 2) + eps) * weight``.

    Args:
        input: the values, (..., *normalized_shape).
        normalized_shape: the sizes of the last dimensions, a list.
        weight: normalized_shape: the factors, or None.
        eps: a number added to the mean of squares. Default: the machine epsilon of the dtype, or that of float32 for a narrower
            one.

    Returns: a tensor of the shape of input.

    Errors: RuntimeError for an input whose last dimensions are others.

    >>> F.rms_norm(torch.tensor([[3.0, 4.0]]), [2])
    tensor([[0.8485, 1.1314]])
    """
    return _C.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalize each group of channels of each sample: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Args:
        input: the values, (N, C, ...).
        num_groups: the number of groups; it must divide C.
        weight: (C,): the factors, or None.
        bias: (C,): the numbers added after the factors, or None.
        eps: a number added to the variance.

    Returns: a tensor of the shape of input.

    Errors: RuntimeError for fewer than 2 dimensions, or a C that num_groups does not divide; ValueError for groups of one
    value.

    >>> F.group_norm(torch.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"group_norm: the input needs at least 2 dimensions, got {input.dim()}")
    if 0 < num_groups and input.numel() < 2 * num_groups:
        size = input.shape
        if size[0] * size[1] // num_groups * math.prod(size[2:]) == 1:
            raise ValueError(f"group_norm: needs more than one value per channel, got input shape {tuple(size)}")
    return _C.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide by ``(k + alpha * mean of the squares of size neighboring channels) ** beta``; beyond the ends channels are 0.

    Args:
        input: the values, (N, C, ...), of 3 dimensions or more.
        size: the number of channels that count as neighbors, with the channel itself.
        alpha, beta, k: the numbers of the formula.

    Returns: a tensor of the shape of input.

    Errors: ValueError for fewer than 3 dimensions.

    >>> F.local_response_norm(torch.ones(1, 3, 1), 3, alpha=3.0, beta=1.0).squeeze()
    tensor([0.3333, 0.2500, 0.3333])
    """
    if input.dim() < 3:
        raise ValueError(f"local_response_norm: the input must have 3 dimensions or more, got {input.dim()}")
    if input.numel() == 0:
        return input
    shape = input.size()
    squares = input.mul(input).reshape(shape[0], 1, shape[1], -1)
    # A window of `size` channels around each one, with zeros beyond the ends: of these as many as there are channels.
    before, after = min(size // 2, shape[1]), min((size - 1) // 2, shape[1])
    window = before + after + 1
    squares = _nn.pad(squares, [0, 0, before, after])
    means = _nn.avg_pool2d(squares, (window, 1), stride=1).reshape(shape)
    if window != size:
        means = means.mul(window / size)
    return input / means.mul(alpha).add(k).pow(beta)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divide by the p-norm along a dimension: ``x / max(norm(x, p), eps)``.

    Args:
        input: the values, of any shape.
        p: the power of the norm.
        dim: the dimension (or dimensions) that the norm is taken over.
        eps: the smallest divisor.
        out: the tensor into which the result is written, or None.

    Returns: a tensor of the shape of input.

    Errors: IndexError for a dim that the input does not have, such as the default for a vector.

    >>> F.normalize(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps)
    if out is None:
        return input / norm
    return _C.div(input, norm, out=out)
