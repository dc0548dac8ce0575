"""Define batch normalizations with a ReLU on quantized tensors."""

from __future__ import annotations

import facula.ao.nn.quantized as nnq
from facula.ao.nn import intrinsic as nni

__all__ = ["BNReLU2d", "BNReLU3d"]


class BNReLU2d(nnq.BatchNorm2d):
    """Apply a batch normalization and a ReLU to quantized inputs.

    Args:
        num_features, eps, momentum, device, dtype: as for nn.quantized.BatchNorm2d.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[[[1.0, 3.0]]]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.intrinsic.quantized.BNReLU2d(1)(x).dequantize().flatten()
    tensor([1., 3.])
    """

    _FLOAT_MODULE = nni.BNReLU2d
    _RELU = True

    def _get_name(self):
        return "QuantizedBNReLU2d"


class BNReLU3d(nnq.BatchNorm3d):
    """Apply a batch normalization and a ReLU to quantized inputs.

    Args:
        num_features, eps, momentum, device, dtype: as for nn.quantized.BatchNorm3d.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[[[[1.0, 3.0]]]]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.intrinsic.quantized.BNReLU3d(1)(x).dequantize().flatten()
    tensor([1., 3.])
    """

    _FLOAT_MODULE = nni.BNReLU3d
    _RELU = True

    def _get_name(self):
        return "QuantizedBNReLU3d"
