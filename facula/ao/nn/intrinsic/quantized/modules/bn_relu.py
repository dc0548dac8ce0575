"""Batch normalisations with a ReLU on quantised tensors."""

from __future__ import annotations

import facula.ao.nn.quantized as nnq
from facula.ao.nn import intrinsic as nni

__all__ = ["BNReLU2d", "BNReLU3d"]


class BNReLU2d(nnq.BatchNorm2d):
    """A batch normalisation and a ReLU on quantised inputs.

    Args:
        num_features, eps, momentum, device, dtype: as for nn.BatchNorm2d.
    """

    _FLOAT_MODULE = nni.BNReLU2d
    _RELU = True

    def _get_name(self):
        return "QuantizedBNReLU2d"


class BNReLU3d(nnq.BatchNorm3d):
    """A batch normalisation and a ReLU on quantised inputs.

    Args:
        num_features, eps, momentum, device, dtype: as for nn.BatchNorm3d.
    """

    _FLOAT_MODULE = nni.BNReLU3d
    _RELU = True

    def _get_name(self):
        return "QuantizedBNReLU3d"
