"""Define convolutions whose results are added to another quantized tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
import facula.ao.nn.quantized as nnq
from facula.ao.nn import intrinsic as nni
from facula.ao.nn.intrinsic.quantized._base import Fused
from facula.nn import functional as F

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]


class _ConvAdd(Fused, nnq.Conv2d):
    """Convolve and add; only the sum is rounded."""

    def forward(self, input: Tensor, extra_input: Tensor) -> Tensor:
        """Return the quantized sum of the convolution of a quantized input and another quantized tensor."""
        x, padding = input.dequantize(), self.padding
        if self.padding_mode != "zeros":
            x, padding = F.pad(x, [side for p in reversed(padding) for side in (p, p)], mode=self.padding_mode), 0
        sums = F.conv2d(x, self.weight().dequantize(), self.bias(), self.stride, padding, self.dilation, self.groups)
        sums += extra_input.dequantize()
        return facula.quantize_per_tensor(sums.relu_() if self._RELU else sums, self.scale, self.zero_point, input.dtype)


class ConvAdd2d(_ConvAdd):
    """Convolve quantized inputs and add another tensor; only the sum is rounded.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            `nn.quantized.Conv2d`.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.intrinsic.quantized.ConvAdd2d(1, 1, 1)(x, x).dequantize().flatten()
    tensor([0., 0., 0., 0.])
    """

    _FLOAT_MODULE = nni.ConvAdd2d

    def _get_name(self):
        return "QuantizedConvAdd2d"


class ConvAddReLU2d(_ConvAdd):
    """Convolve quantized inputs, add another tensor and apply a ReLU; only the sum is rounded.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            `nn.quantized.Conv2d`.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.intrinsic.quantized.ConvAddReLU2d(1, 1, 1)(x, x).dequantize().flatten()
    tensor([0., 0., 0., 0.])
    """

    _FLOAT_MODULE = nni.ConvAddReLU2d
    _RELU = True

    def _get_name(self):
        return "QuantizedConvAddReLU2d"
