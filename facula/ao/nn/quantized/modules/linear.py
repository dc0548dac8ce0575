"""Define linear layers with a weight of qint8."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import nn
from facula.ao.nn.quantized import _products
from facula.nn.utils.fusion import fuse_linear_bn_weights

from .utils import OutputLevels, WeightedQuantizedModule, observed_weight, output_levels, quantize_weight

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["Linear", "LinearPackedParams"]


class LinearPackedParams(nn.Module):
    """Hold the weight and the bias of a quantized linear layer.

    Args:
        dtype: qint8, or float16 for weights that are only stored narrowly.

    >>> torch.ao.nn.quantized.Linear(2, 1)._packed_params.dtype
    torch.qint8
    """

    _version = 3

    def __init__(self, dtype: facula.dtype = facula.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        self.set_weight_bias(_blank(1, 1, dtype), None)

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        """Put a weight and a bias; they are not copied.

        Args:
            weight: of qint8, or for float16 one that is not quantized.
            bias: of float32, or None.

        Errors: RuntimeError for another dtype.

        >>> from torch.ao.nn.quantized.modules.linear import LinearPackedParams
        >>> params = LinearPackedParams(torch.float16)
        >>> params.set_weight_bias(torch.ones(1, 2), None)
        >>> params
        (tensor([[1., 1.]], dtype=torch.float16), None)
        """
        if self.dtype is facula.qint8:
            if not weight.is_quantized or weight.dtype is not facula.qint8:
                raise RuntimeError(f"set_weight_bias: expected a weight of qint8, got {weight.dtype}")
        elif self.dtype is not facula.float16:
            raise RuntimeError(f"set_weight_bias: not implemented for this dtype, got {self.dtype}")
        elif weight.is_quantized:
            raise RuntimeError(f"set_weight_bias: expected a weight that is not quantized, got {weight.dtype}")
        else:
            weight = weight.to(facula.float16)
        object.__setattr__(self, "_weight", weight.detach())
        object.__setattr__(self, "_bias", None if bias is None else bias.detach())

    def _weight_bias(self):
        return self._weight, self._bias

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` itself."""
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        weight, bias = self._weight_bias()
        weight = weight.float() if self.dtype is facula.float16 else weight
        destination[prefix + "_packed_params"] = (weight, bias)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for key in ("dtype", "_packed_params"):
            if prefix + key not in state_dict:
                missing_keys.append(prefix + key)
                return
        dtype = state_dict.pop(prefix + "dtype")
        params = state_dict.pop(prefix + "_packed_params")
        if not isinstance(params, tuple) or len(params) != 2:
            error_msgs.append(f"{prefix}_packed_params: expected a weight and a bias, got {type(params).__name__}")
            return
        self.dtype: facula.dtype = dtype
        self.set_weight_bias(*params)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __repr__(self) -> str:
        return repr(self._weight_bias())


def _blank(rows, columns, dtype):
    if dtype is facula.float16:
        return facula.zeros(rows, columns, dtype=facula.float16)
    if dtype is not facula.qint8:
        raise RuntimeError(f"Linear: not implemented for this dtype, got {dtype}")
    return facula._empty_affine_quantized([rows, columns], scale=1, zero_point=0, dtype=facula.qint8)


class Linear(OutputLevels, WeightedQuantizedModule):
    """Apply a linear layer to quantized inputs: y = x W^T + b, computed with integers of eight bits and quantized
    again.

    Args:
        in_features, out_features: sizes of the last dimension of inputs and outputs.
        bias_: if True, add a bias, of float32.
        dtype: of the weight, qint8.

    Shapes: (*, in_features) to (*, out_features). Attributes: `scale` and `zero_point` of the outputs; `weight()` and `bias()`.

    Example::

        >>> layer = torch.ao.nn.quantized.Linear(20, 30)
        >>> layer(torch.quantize_per_tensor(torch.ones(2, 20), 1.0, 0, torch.quint8)).shape
        torch.Size([2, 30])
    """

    _version = 3
    _FLOAT_MODULE = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
    _RELU = False
    in_features: int
    out_features: int
    scale: float
    zero_point: int

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: facula.dtype = facula.qint8) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._packed_params = LinearPackedParams(dtype)
        bias = facula.zeros(out_features) if bias_ else None
        self._packed_params.set_weight_bias(_blank(out_features, in_features, dtype), bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self):
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        """Return what printing shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def forward(self, x: Tensor) -> Tensor:
        """Return the quantized outputs of quantized inputs."""
        return _products.linear(x, self.weight(), self.bias(), self.scale, self.zero_point, relu=self._RELU)

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def weight(self) -> Tensor:
        """Return the weight, (out_features, in_features), quantized.

        >>> torch.ao.nn.quantized.Linear(2, 1).weight().shape
        torch.Size([1, 2])
        """
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """Return the bias, float32, or None.

        >>> torch.ao.nn.quantized.Linear(2, 1).bias()
        tensor([0.])
        """
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Put a weight and a bias, which are not copied.

        Args:
            w: of qint8.
            b: of float32, or None.

        Errors: RuntimeError for a weight of another dtype.

        >>> layer = torch.ao.nn.quantized.Linear(2, 1)
        >>> layer.set_weight_bias(torch.quantize_per_tensor(torch.ones(1, 2), 1.0, 0, torch.qint8), None)
        >>> layer(torch.quantize_per_tensor(torch.ones(1, 2), 1.0, 0, torch.quint8)).dequantize()
        tensor([[2.]])
        """
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of a float layer that has been observed (`prepare`), or trained so (`prepare_qat`);
        `convert` calls it.

        Args:
            mod: the layer.
            use_precomputed_fake_quant: whether a `weight_fake_quant` (of `prepare_qat`) has seen enough, and is not shown the
                weight again.

        Errors: AssertionError for a module without an observer, or weights of another dtype than qint8.

        >>> layer = nn.Linear(2, 1)
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.ones(3, 2)))
        >>> type(torch.ao.nn.quantized.Linear.from_float(layer)).__name__
        'Linear'
        """
        from facula.ao.quantization.qconfig import default_weight_observer

        if hasattr(mod, "bn") and hasattr(mod, "weight_fake_quant"):  # a layer that was trained with its batch norm
            bn = mod.bn
            mod.weight, mod.bias = fuse_linear_bn_weights(
                mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
            )
        observer = observed_weight(mod, default_weight_observer, use_precomputed_fake_quant)
        if observer.dtype is not facula.qint8:
            name = f"{cls.__name__}.from_float"
            raise AssertionError(f"{name}: expected a weight observed as qint8, got {observer.dtype}")
        scale, zero_point = output_levels(mod, cls.__name__)
        made = cls(mod.in_features, mod.out_features, dtype=observer.dtype)
        made.set_weight_bias(quantize_weight(mod.weight.detach(), observer), mod.bias)
        made.scale, made.zero_point = scale, zero_point
        return made
