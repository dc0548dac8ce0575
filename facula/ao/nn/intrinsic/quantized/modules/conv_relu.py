"""Define convolutions with a ReLU on quantized tensors."""

from __future__ import annotations

import facula.ao.nn.quantized as nnq
from facula.ao.nn import intrinsic as nni
from facula.ao.nn.intrinsic.quantized._base import Fused

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]


class ConvReLU1d(Fused, nnq.Conv1d):
    """Convolve quantized inputs, and set what is negative to zero.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            `nn.quantized.Conv1d`.

    Shapes: as for `nn.Conv1d`.

    >>> layer = torch.ao.nn.intrinsic.quantized.ConvReLU1d(2, 3, 3)
    >>> layer(torch.quantize_per_tensor(torch.ones(1, 2, 3), 1.0, 0, torch.quint8)).flatten().shape
    torch.Size([3])
    """

    _RELU = True
    _FLOAT_MODULE = nni.ConvReLU1d

    def _get_name(self) -> str:
        return "QuantizedConvReLU1d"


class ConvReLU2d(Fused, nnq.Conv2d):
    """Convolve quantized inputs, and set what is negative to zero.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            `nn.quantized.Conv2d`.

    Shapes: as for `nn.Conv2d`.

    >>> layer = torch.ao.nn.intrinsic.quantized.ConvReLU2d(2, 3, 3)
    >>> layer(torch.quantize_per_tensor(torch.ones(1, 2, 3, 3), 1.0, 0, torch.quint8)).flatten().shape
    torch.Size([3])
    """

    _RELU = True
    _FLOAT_MODULE = nni.ConvReLU2d

    def _get_name(self) -> str:
        return "QuantizedConvReLU2d"


class ConvReLU3d(Fused, nnq.Conv3d):
    """Convolve quantized inputs, and set what is negative to zero.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            `nn.quantized.Conv3d`.

    Shapes: as for `nn.Conv3d`.

    >>> layer = torch.ao.nn.intrinsic.quantized.ConvReLU3d(2, 3, 3)
    >>> layer(torch.quantize_per_tensor(torch.ones(1, 2, 3, 3, 3), 1.0, 0, torch.quint8)).flatten().shape
    torch.Size([3])
    """

    _RELU = True
    _FLOAT_MODULE = nni.ConvReLU3d

    def _get_name(self) -> str:
        return "QuantizedConvReLU3d"
