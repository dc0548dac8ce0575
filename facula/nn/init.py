"""Initialize tensors: each function fills a tensor in place, without recording gradients, and returns it.

``generator`` is the random generator to draw from (default: the global one). The order and amount of random
numbers are PyTorch's, so that the same seed gives the same weights.

Long because PyTorch has all initializers in one file of this name, and each stands there with its docstring and example.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from typing import TYPE_CHECKING

import facula
from facula import _C

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
    """Return the factor by which weights are scaled for the nonlinearity that follows them.

    Args:
        nonlinearity: 'linear', 'convNd', 'conv_transposeNd' or 'sigmoid' (1), 'tanh' (5 / 3), 'relu' (sqrt(2)), 'leaky_relu'
            (sqrt(2 / (1 + param ** 2))) or 'selu' (3 / 4).
        param: the negative slope of 'leaky_relu'. Default: 0.01.

    Returns: a number.

    Errors: ValueError for another nonlinearity, or a slope that is no number.

    >>> nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
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
    known = [*_LINEAR_KINDS, "tanh", "relu", "leaky_relu", "selu"]
    raise ValueError(f"calculate_gain: nonlinearity must be {_C._one_of(nonlinearity, known)}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor from the uniform distribution over [a, b), and return it.

    Args:
        tensor: the tensor, of any shape, which is filled in place.
        a, b: the bounds.
        generator: the generator to draw from. Default: that of the device.

    Returns: the tensor.

    >>> w = nn.init.uniform_(torch.empty(3, 5), -1.0, 1.0)
    >>> bool((w.abs() <= 1).all())
    True
    """
    with facula.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_uniform_(tensor, a, b, generator=None):
    return uniform_(tensor, a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor from the normal distribution, and return it.

    Args:
        tensor: the tensor, of any shape, which is filled in place.
        mean, std: the mean and the standard deviation.
        generator: the generator to draw from. Default: that of the device.

    Returns: the tensor.

    >>> w = nn.init.normal_(torch.empty(100, 100), mean=3.0, std=0.1)
    >>> round(w.mean().item(), 2), round(w.std().item(), 2)
    (3.0, 0.1)
    """
    with facula.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Generator | None = None
) -> Tensor:
    """Fill a tensor from the normal distribution limited to [a, b], and return it.

    Draws come from the normal distribution, again where they are outside, when [a, b] holds more than 0.3 of it, and otherwise
    from the uniform distribution, accepted with the ratio of the density to its peak in [a, b].

    Args:
        tensor: the tensor, of any shape, which is filled in place.
        mean, std: the mean and the standard deviation before the distribution is limited.
        a, b: the bounds, not multiples of std. Bounds that are more than 2 std from the mean warn.
        generator: the generator to draw from. Default: that of the device.

    Returns: the tensor.

    >>> w = nn.init.trunc_normal_(torch.empty(100, 100), std=0.5, a=-1.0, b=1.0)
    >>> bool((w.abs() <= 1).all())
    True
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
    # Every round draws for all elements, though few are replaced: so the random numbers are those of PyTorch.
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
    """Fill a tensor with a number, and return it.

    Args:
        tensor: the tensor, of any shape, which is filled in place.
        val: the number.

    Returns: the tensor.

    >>> nn.init.constant_(torch.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    with facula.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with 1, and return it.

    Args:
        tensor: the tensor, of any shape, which is filled in place.

    Returns: the tensor.

    >>> nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with 0, and return it.

    Args:
        tensor: the tensor, of any shape, which is filled in place.

    Returns: the tensor.

    >>> nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    with facula.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity, and return it: a linear layer with it returns its input.

    Args:
        tensor: a matrix, filled in place; it need not be square.

    Returns: the tensor.

    Errors: ValueError for other numbers of dimensions than 2.

    >>> nn.init.eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError(f"eye_: the tensor must have 2 dimensions, got {tensor.dim()}")
    with facula.no_grad():
        facula.eye(*tensor.shape, out=tensor)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it passes on as many channels as it can, and return it.

    Args:
        tensor: the weight, (out channels, in channels / groups, *kernel), which is filled in place.
        groups: the groups of the convolution; each passes on its own channels.

    Returns: the tensor.

    Errors: ValueError for other than 3, 4 or 5 dimensions, or out channels that groups does not divide.

    >>> w = nn.init.dirac_(torch.empty(2, 2, 3))
    >>> F.conv1d(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), w, padding=1)
    tensor([[[1., 2.],
             [3., 4.]]])
    """
    dims = tensor.dim()
    if dims not in (3, 4, 5):
        raise ValueError(f"dirac_: the tensor must have 3, 4 or 5 dimensions, got {dims}")
    if tensor.size(0) % groups != 0:
        raise ValueError(f"dirac_: dimension 0 must be divisible by groups {groups}, got {tensor.size(0)}")
    per_group = tensor.size(0) // groups
    center = tuple(size // 2 for size in tensor.shape[2:])
    with facula.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *center)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor) -> tuple[int, int]:
    """Return (inputs of one output, outputs of one input) of a weight (out, in, kernel...)."""
    if tensor.dim() < 2:
        raise ValueError(f"init: for fan in and fan out the tensor needs at least 2 dimensions, got {tensor.dim()}")
    area = math.prod(tensor.shape[2:])
    return tensor.size(1) * area, tensor.size(0) * area


def _calculate_correct_fan(tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"kaiming: mode must be {_C._one_of(mode, ('fan_in', 'fan_out'))}")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a weight from the uniform distribution over (-a, a) with ``a = gain * sqrt(6 / (fan_in + fan_out))``
    (Glorot, Bengio 2010), and return it.

    Args:
        tensor: the weight, (out, in, *kernel), which is filled in place; fan_in is in times the kernel's elements, fan_out out
            times them.
        gain: a factor, see `calculate_gain`.
        generator: the generator to draw from. Default: that of the device.

    Returns: the tensor.

    Errors: ValueError for fewer than 2 dimensions.

    >>> w = nn.init.xavier_uniform_(torch.empty(3, 3), gain=nn.init.calculate_gain("relu"))
    >>> bool((w.abs() <= 2**0.5).all())
    True
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a weight from the normal distribution with ``std = gain * sqrt(2 / (fan_in + fan_out))`` (Glorot, Bengio 2010), and
    return it.

    Args:
        tensor: the weight, (out, in, *kernel), which is filled in place; fan_in is in times the kernel's elements, fan_out out
            times them.
        gain: a factor, see `calculate_gain`.
        generator: the generator to draw from. Default: that of the device.

    Returns: the tensor.

    Errors: ValueError for fewer than 2 dimensions.

    >>> round(nn.init.xavier_normal_(torch.empty(100, 100)).std().item(), 2)
    0.1
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator | None = None
) -> Tensor:
    """Fill a weight from the uniform distribution over (-b, b) with ``b = gain * sqrt(3 / fan)`` (He et al. 2015), and return
    it.

    Args:
        tensor: the weight, (out, in, *kernel), which is filled in place; an empty one warns.
        a: the negative slope of 'leaky_relu'.
        mode: 'fan_in' keeps the variance of values forwards, 'fan_out' that of gradients backwards.
        nonlinearity: the function that follows, see `calculate_gain`.
        generator: the generator to draw from. Default: that of the device.

    Returns: the tensor.

    Errors: ValueError for fewer than 2 dimensions, another mode or nonlinearity.

    >>> w = nn.init.kaiming_uniform_(torch.empty(3, 6), nonlinearity="relu")
    >>> bool((w.abs() <= 1).all())
    True
    """
    if 0 in tensor.shape:
        warnings.warn(
            f"kaiming_uniform_: nothing to fill, got shape {tuple(tensor.shape)}", stacklevel=2
        )
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator | None = None
) -> Tensor:
    """Fill a weight from the normal distribution with ``std = gain / sqrt(fan)`` (He et al. 2015), and return it.

    Args:
        tensor: the weight, (out, in, *kernel), which is filled in place; an empty one warns.
        a: the negative slope of 'leaky_relu'.
        mode: 'fan_in' keeps the variance of values forwards, 'fan_out' that of gradients backwards.
        nonlinearity: the function that follows, see `calculate_gain`.
        generator: the generator to draw from. Default: that of the device.

    Returns: the tensor.

    Errors: ValueError for fewer than 2 dimensions, another mode or nonlinearity.

    >>> w = nn.init.kaiming_normal_(torch.empty(100, 50), mode="fan_out", nonlinearity="relu")
    >>> round(w.std().item(), 2)
    0.14
    """
    if 0 in tensor.shape:
        warnings.warn(
            f"kaiming_normal_: nothing to fill, got shape {tuple(tensor.shape)}", stacklevel=2
        )
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill a weight with ``gain`` times a random orthogonal matrix, and return it.

    Args:
        tensor: the weight, of 2 dimensions or more, which is filled in place; all but the first count as columns. The shorter
            of rows and columns are orthonormal.
        gain: a factor.
        generator: the generator to draw from. Default: that of the device.

    Returns: the tensor.

    Errors: ValueError for fewer than 2 dimensions.

    >>> w = nn.init.orthogonal_(torch.empty(3, 5))
    >>> bool(torch.allclose(w @ w.t(), torch.eye(3), atol=1e-6))
    True
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
    """Fill a matrix from the normal distribution, set a share of each column to zero, and return it.

    Args:
        tensor: a matrix, which is filled in place.
        sparsity: the share of each column that becomes zero, rounded up to whole elements.
        std: the standard deviation of the others.
        generator: to draw values from; default: that of the device. Which become zero is drawn from the global one.

    Returns: the tensor.

    Errors: ValueError for other numbers of dimensions than 2.

    >>> (nn.init.sparse_(torch.empty(4, 3), sparsity=0.5) == 0).sum(0)
    tensor([2, 2, 2])
    """
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

    @functools.wraps(function)
    def deprecated_init(*args, **kwargs):
        warnings.warn(f"{old_name}: deprecated, use {new_name}", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    deprecated_init.__name__ = deprecated_init.__qualname__ = old_name
    deprecated_init.__doc__ = f"Call `{new_name}`, of which this is a deprecated name; it warns.\n\n{inspect.getdoc(function)}"
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
