"""Define layer, group, root-mean-square and local response normalization."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import _C

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.types import Device

__all__ = ["LocalResponseNorm", "CrossMapLRN2d", "LayerNorm", "GroupNorm", "RMSNorm"]


_layer_norm = _C.layer_norm


class _OverChannels(Module):
    """Hold the window of channels of LocalResponseNorm and CrossMapLRN2d."""

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

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(_OverChannels):
    """Divide each element by a power of the mean of the squares at its position over size neighboring channels (Krizhevsky et
    al. 2012).

    Formula: y[c] = x[c] / (k + alpha * sum(x[i] ** 2 for i in window) / size) ** beta

    Args:
        size: the size of the window of channels; beyond the first and the last there are zeros.
        alpha: the factor of the mean.
        beta: the exponent.
        k: a number added to the mean.

    Shapes: input (N, C, ...) of three dimensions or more; output the same.

    Errors: ValueError, when called, for fewer dimensions.

    >>> nn.LocalResponseNorm(size=2, alpha=1.0, beta=1.0)(torch.ones(1, 3, 1)).flatten()
    tensor([0.6667, 0.5000, 0.5000])
    """

    __constants__: ClassVar[list[str]] = ["size", "alpha", "beta", "k"]
    size: int
    alpha: float
    beta: float
    k: float

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(_OverChannels):
    """Apply an older form of `LocalResponseNorm` to images, whose window never leaves the first channel behind.

    Args:
        size: the size of the window of channels.
        alpha: the factor of the mean of squares.
        beta: the exponent.
        k: a number added to the mean.

    Shapes: input (N, C, H, W); output the same.

    Errors: ValueError, when called, for another number of dimensions.

    >>> nn.CrossMapLRN2d(size=3, alpha=3.0, beta=1.0)(torch.ones(1, 3, 1, 1)).flatten()
    tensor([0.3333, 0.2500, 0.2500])
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
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


class LayerNorm(Module):
    """Normalize the last dimensions of each sample with their mean and biased variance (Ba et al. 2016).

    Formula: y = (x - mean) / sqrt(var + eps) * weight + bias

    Args:
        normalized_shape: the sizes of those dimensions; a number for the last one.
        eps: a number added to the variance.
        elementwise_affine: if True, learn a weight for each element, ones at first; otherwise there is no bias either.
        bias: if True, learn a bias for each element, too, zeros at first.
        device, dtype: the device and the dtype of the parameters.

    Shapes: input (..., *normalized_shape); output the same. ``weight`` and ``bias`` have the shape normalized_shape.

    Errors: RuntimeError, when called, for other last dimensions.

    >>> nn.LayerNorm(2)(torch.tensor([[1.0, 3.0]])).tolist()
    [[-0.9999949932098389, 0.9999949932098389]]
    >>> nn.LayerNorm([3, 4])(torch.randn(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    __constants__: ClassVar[list[str]] = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
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
        """Set the weight to ones and the bias to zeros.

        >>> layer = nn.LayerNorm(2)
        >>> layer.reset_parameters()
        >>> layer.weight.tolist(), layer.bias.tolist()
        ([1.0, 1.0], [0.0, 0.0])
        """
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return _layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalize groups of channels of each sample (Wu, He 2018).

    Formula: y = (x - mean) / sqrt(var + eps) * weight + bias

    Each group gets mean 0 and variance 1 over its channels and positions; then each channel is scaled and shifted.

    Args:
        num_groups: the number of groups; 1 normalizes each sample, num_channels each channel.
        num_channels: C, the number of channels.
        eps: a number added to the variance.
        affine: if True, learn a weight for each channel; otherwise there is no bias either.
        device, dtype: the device and the dtype of the parameters.
        bias: if False, learn the weight only.

    Shapes: input (N, C, ...); output the same. ``weight`` and ``bias`` are (C,).

    Errors: ValueError for a C that num_groups does not divide; RuntimeError, when called, for another C.

    >>> y = nn.GroupNorm(2, 6)(torch.randn(4, 6, 8))
    >>> y.shape, y[0, :3].mean().abs().item() < 1e-5
    (torch.Size([4, 6, 8]), True)
    """

    __constants__: ClassVar[list[str]] = ["num_groups", "num_channels", "eps", "affine"]
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
        device: Device = None,
        dtype: facula.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
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
        """Set the weight to ones and the bias to zeros.

        >>> layer = nn.GroupNorm(1, 2)
        >>> layer.reset_parameters()
        >>> layer.weight.tolist(), layer.bias.tolist()
        ([1.0, 1.0], [0.0, 0.0])
        """
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root mean square of the last dimensions of each sample (Zhang, Sennrich 2019).

    Formula: y = x / sqrt(mean(x ** 2) + eps) * weight

    Args:
        normalized_shape: the sizes of those dimensions; a number for the last one.
        eps: a number added to the mean. Default: the machine epsilon of the dtype, or that of float32 for a narrower one.
        elementwise_affine: if True, learn a weight for each element, ones at first.
        device, dtype: the device and the dtype of the parameter.

    Shapes: input (..., *normalized_shape); output the same. ``weight`` has the shape normalized_shape.

    Errors: RuntimeError, when called, for other last dimensions.

    >>> nn.RMSNorm(2, elementwise_affine=False)(torch.tensor([[3.0, 4.0]]))
    tensor([[0.8485, 1.1314]])
    """

    __constants__: ClassVar[list[str]] = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
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
        """Set the weight to ones.

        >>> layer = nn.RMSNorm(2)
        >>> layer.reset_parameters()
        >>> layer.weight.tolist()
        [1.0, 1.0]
        """
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
