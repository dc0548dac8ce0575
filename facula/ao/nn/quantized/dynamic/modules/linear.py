"""Define a linear layer with a weight of qint8 on float inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula._C import _dynamic_int8_linear, float32
from facula._tensor.quantized.tensor import QuantizedTensor
from facula.ao.nn.quantized._products import weight_rows
from facula.ao.nn.quantized.modules import linear as quantized
from facula.ao.nn.quantized.modules.utils import observed_weight, quantize_weight
from facula.nn import functional as F

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["Linear"]


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x (..., k) times the transpose of a weight (n, k), of qint8 or float16, plus a bias of float32; x is float32.

    Inputs are put on 128 levels, so that sums of pairs of products fit into 16 bits on every processor, as PyTorch's are.
    """
    if type(weight) is QuantizedTensor and x.dtype is float32:
        levels, scales, zeros = weight._rows or weight_rows(weight)
        if zeros is None:
            return _dynamic_int8_linear(x, levels, scales, bias, True)
    return _wide_product(x, weight, bias)


@facula.no_grad()
def _wide_product(x, weight, bias):
    """Compute the product with weights of float16, or levels of the weight that are no longer of eight bits."""
    if not weight.is_quantized:
        return F.linear(x, weight.float(), bias)
    if x.dtype is not float32:
        raise RuntimeError(f"quantized.linear_dynamic: expected an input of float32, got {x.dtype}")
    levels = facula.quantize_per_tensor_dynamic(x, facula.quint8, True)
    return F.linear(levels.dequantize(), weight.dequantize(), bias)


class Linear(quantized.Linear):
    """Apply a linear layer with a weight of qint8 to float inputs: y = x W^T + b, where x is quantized at every call.

    Args:
        in_features, out_features: sizes of the last dimension of inputs and outputs.
        bias_: if True, add a bias, of float32.
        dtype: of the weight, qint8 or float16.

    Shapes: (*, in_features) to (*, out_features), float32. It is not differentiable. Attributes: `weight()` and `bias()`.

    Example::

        >>> torch.ao.nn.quantized.dynamic.Linear(20, 30)(torch.ones(2, 20)).shape
        torch.Size([2, 30])
    """

    _version = 4

    def forward(self, x: Tensor) -> Tensor:
        """Return the float outputs of float inputs."""
        params = self._packed_params
        return product(x, params._weight, params._bias)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        """Return what printing shows."""
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        return f"{text}, qscheme={self.weight().qscheme()}" if self._packed_params.dtype is facula.qint8 else text

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the layer with its weight quantized as the module's qconfig says.

        Errors: RuntimeError for weights that are neither to be qint8 nor float16.
        """
        from facula.ao.quantization.qconfig import default_dynamic_qconfig

        observer = observed_weight(mod, default_dynamic_qconfig.weight, use_precomputed_fake_quant)
        dtype = observer.dtype
        if dtype not in (facula.qint8, facula.float16):
            raise RuntimeError(f"{cls.__name__}.from_float: only qint8 and float16 are supported for the weight, got {dtype}")
        made = cls(mod.in_features, mod.out_features, dtype=dtype)
        weight = mod.weight.detach().float()
        made.set_weight_bias(quantize_weight(weight, observer) if dtype is facula.qint8 else weight, mod.bias)
        return made
