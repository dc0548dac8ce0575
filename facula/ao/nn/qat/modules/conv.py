"""Define convolutions that round their weights in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn
from facula.ao.nn.intrinsic import _FusedModule
from facula.ao.nn.qat._base import as_parameter, conv_arguments, qconfig_of, weight_rounding

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    import facula
    from facula import Tensor
    from facula.ao.nn.intrinsic.modules.fused import ConvReLU2d
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


class _ConvNd(nn.modules.conv._ConvNd):
    """Convolve with a rounded weight; a subclass names its floating-point convolution after this class among its bases."""

    _FLOAT_MODULE: type
    _FLOAT_CONV_MODULE: type

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", qconfig: Any = None, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        rounding = weight_rounding(type(self).__name__, qconfig, device)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.qconfig = qconfig
        self.weight_fake_quant: Any = rounding

    def forward(self, input: Tensor) -> Any:
        """Return the convolution with the rounded weight."""
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the layer made of one of floating point with a qconfig, whose parameters it takes over.

        Args:
            mod: the layer, or the container of it and a ReLU.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for another class, or without a qconfig.

        >>> layer = nn.Conv1d(1, 1, 2)
        >>> layer.qconfig = torch.ao.quantization.default_qat_qconfig
        >>> rounded = torch.ao.nn.qat.Conv1d.from_float(layer)
        >>> rounded.weight is layer.weight
        True
        """
        conv = mod[0] if isinstance(mod, _FusedModule) else mod
        made = cls(**conv_arguments(conv), qconfig=qconfig_of(cls, mod, conv))
        made.weight, made.bias = conv.weight, conv.bias
        return made

    def to_float(self) -> ConvReLU2d:
        """Return the layer without rounding, with its ReLU where it has one.

        >>> layer = torch.ao.nn.qat.Conv1d(1, 1, 2, qconfig=torch.ao.quantization.default_qat_qconfig)
        >>> layer.to_float()
        Conv1d(1, 1, kernel_size=(2,), stride=(1,))
        """
        conv = self._FLOAT_CONV_MODULE(**conv_arguments(self))
        conv.weight, conv.bias = as_parameter(self.weight), as_parameter(self.bias)
        made = self._FLOAT_MODULE(conv, nn.ReLU()) if isinstance(self, _FusedModule) else conv
        return made.train(self.training)


class Conv1d(_ConvNd, nn.Conv1d):
    """Convolve as nn.Conv1d with a weight rounded as `convert` will round it.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            nn.Conv1d.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv1d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.qat.Conv1d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(1, 1, 3)).flatten().shape
    torch.Size([2])
    """

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv1d


class Conv2d(_ConvNd, nn.Conv2d):
    """Convolve as nn.Conv2d with a weight rounded as `convert` will round it.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            nn.Conv2d.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv2d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.qat.Conv2d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(1, 1, 3, 3)).flatten().shape
    torch.Size([2])
    """

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv2d


class Conv3d(_ConvNd, nn.Conv3d):
    """Convolve as nn.Conv3d with a weight rounded as `convert` will round it.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            nn.Conv3d.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv3d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.qat.Conv3d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(1, 1, 3, 3, 3)).flatten().shape
    torch.Size([2])
    """

    _FLOAT_MODULE = _FLOAT_CONV_MODULE = nn.Conv3d
