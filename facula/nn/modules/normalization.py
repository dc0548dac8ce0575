"""Layer, group, root-mean-square and local response normalisation."""

from __future__ import annotations

import numbers

import facula
from facula import _C

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["LocalResponseNorm", "CrossMapLRN2d", "LayerNorm", "GroupNorm", "RMSNorm"]


_layer_norm = _C.layer_norm


class LocalResponseNorm(Module):
    """Divides (N, C, ...) by ``(k + alpha * mean of squares over size neighbouring channels) ** beta``."""

    __constants__ = ["size", "alpha", "beta", "k"]
    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Older form of `LocalResponseNorm` for images (N, C, H, W); the window is the odd size below.

    Args:
        alpha: the factor of the mean of squares.
        beta: the exponent.
        k: added to it.
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: the input must have 4 dimensions, got {input.dim()}")
        reach = (self.size - 1) // 2
        squares = input.pow(2)
        window = 2 * reach + 1
        padded = F.pad(squares.unsqueeze(1), [0, 0, 0, 0, reach, reach])
        sums = F.avg_pool3d(padded, (window, 1, 1), stride=1).squeeze(1) * window
        # PyTorch's running sum never lets go of channel 0; trained weights expect that.
        late = facula.arange(input.size(1), device=input.device) > reach
        sums = sums + squares[:, :1] * late.to(input.dtype).reshape(1, -1, 1, 1)
        return input * (self.k + self.alpha / self.size * sums).pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LayerNorm(Module):
    """Normalises over the last dimensions, then scales and shifts element-wise.

    Args:
        normalized_shape: the shape of those dimensions; one number for the last one.
        eps: added to the variance.
        elementwise_affine: learn a weight (and, with ``bias``, a bias) of that shape.
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            value = (
                Parameter(facula.empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            )
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias to zero."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return _layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalises each of ``num_groups`` groups of channels of each sample of (N, C, ...).

    Args:
        num_groups: a divisor of ``num_channels``.
        eps: added to the variance.
        affine: learn a weight (and, with ``bias``, a bias) per channel.
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]
    num_groups: int
    num_channels: int
    eps: float
    affine: bool

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"GroupNorm: num_channels must be divisible by num_groups {num_groups}, got {num_channels}"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(facula.empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias to zero."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root mean square over the last dimensions, then scales element-wise.

    Args:
        normalized_shape: the shape of those dimensions; one number for the last one.
        eps: added to the mean square. Default: the machine epsilon of the dtype.
        elementwise_affine: learn a weight of that shape.
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        value = None
        if elementwise_affine:
            value = Parameter(facula.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
