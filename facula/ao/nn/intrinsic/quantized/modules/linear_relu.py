"""Define linear layers fused with the functions that follow them, on quantized tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
import facula.ao.nn.quantized as nnq
from facula.ao.nn import intrinsic as nni
from facula.ao.nn.intrinsic.quantized._base import Fused
from facula.nn import functional as F

if TYPE_CHECKING:
    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["LinearLeakyReLU", "LinearReLU", "LinearTanh"]


class LinearReLU(Fused, nnq.Linear):
    """Apply a linear layer and a ReLU to quantized inputs.

    Args:
        in_features, out_features, bias, dtype: as for `nn.quantized.Linear`.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.intrinsic.quantized.LinearReLU(2, 3)(x).shape
    torch.Size([1, 3])
    """

    _FLOAT_MODULE = nni.LinearReLU
    _RELU = True

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: facula.dtype = facula.qint8) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def _get_name(self):
        return "QuantizedLinearReLU"


class _LinearThen(Fused, nnq.Linear):
    """Apply a linear layer and a function; only the function's results are rounded."""

    def _then(self, x):
        raise NotImplementedError(f"{type(self).__name__}: a layer says which function follows, got shape {tuple(x.shape)}")

    def forward(self, x: Tensor) -> Tensor:
        """Return the quantized outputs of quantized inputs."""
        floats = self._then(F.linear(x.dequantize(), self.weight().dequantize(), self.bias()))
        return facula.quantize_per_tensor(floats, self.scale, self.zero_point, x.dtype)


class LinearLeakyReLU(_LinearThen):
    """Apply a linear layer and a leaky ReLU to quantized inputs; only the results of the function are rounded.

    Args:
        in_features, out_features, bias, dtype: as for `nn.quantized.Linear`.
        negative_slope: as for nn.LeakyReLU.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.intrinsic.quantized.LinearLeakyReLU(2, 3)(x).shape
    torch.Size([1, 3])
    """

    _FLOAT_MODULE = nni.LinearLeakyReLU

    def __init__(self, in_features: int, out_features: int, negative_slope: float = 0.01, bias: bool = True,
                 dtype: facula.dtype = facula.qint8) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def _then(self, x):
        return F.leaky_relu(x, self.negative_slope)

    def _get_name(self):
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> LinearLeakyReLU:
        """Return the quantized form of a container that has been observed.

        Args:
            mod: the container.
            use_precomputed_fake_quant: as for the layer alone.
        """
        made = super().from_float(mod, use_precomputed_fake_quant)
        made.negative_slope = mod[1].negative_slope
        return made


class LinearTanh(_LinearThen):
    """Apply a linear layer and a hyperbolic tangent to quantized inputs; only the results of the function are rounded.

    Args:
        in_features, out_features, bias, dtype: as for `nn.quantized.Linear`.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.intrinsic.quantized.LinearTanh(2, 3)(x).shape
    torch.Size([1, 3])
    """

    _FLOAT_MODULE = nni.LinearTanh

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: facula.dtype = facula.qint8) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def _then(self, x):
        return F.tanh(x)

    def _get_name(self):
        return "QuantizedLinearTanh"
