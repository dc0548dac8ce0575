"""Activations and normalisations on quantised tensors that give outputs on levels of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import nn
from facula.nn import functional as F

from .utils import output_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.ao.nn.intrinsic.quantized.modules.bn_relu import BNReLU2d, BNReLU3d
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = [
    "BatchNorm2d", "BatchNorm3d", "Dropout", "ELU", "GroupNorm", "Hardswish", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LeakyReLU", "PReLU", "ReLU6", "Sigmoid", "Softmax",
]  # fmt: skip


def requantized(function: Callable[..., Any], input: Tensor, scale: Tensor | float, zero_point: Tensor | int) -> Tensor:
    """`function` of the values of a quantised tensor, on other levels of its dtype."""
    if not isinstance(input, facula.Tensor) or not input.is_quantized:
        kind = input.dtype if isinstance(input, facula.Tensor) else type(input).__name__
        raise RuntimeError(f"quantized.{getattr(function, '__name__', 'module')}: expected a quantised input, got {kind}")
    with facula.no_grad():
        return facula.quantize_per_tensor(function(input.dequantize()), float(scale), int(zero_point), input.dtype)


class _Levels:
    """A module with a scale and a zero point for its outputs."""

    def _set_levels(self, scale, zero_point):
        self.register_buffer("scale", facula.tensor(float(scale)))
        self.register_buffer("zero_point", facula.tensor(int(zero_point)))

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    def _apply_float(self, input):
        return super().forward(input)

    def forward(self, input: Tensor) -> Tensor:
        """The outputs of a quantised input, on the levels of `scale` and `zero_point`."""
        return requantized(self._apply_float, input, self.scale, self.zero_point)

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Any:
        """Reference modules belong to quantisation of graphs, which is not here."""
        raise NotImplementedError(
            f"{cls.__name__}.from_reference: quantisation of graphs is not supported, got {type(mod).__name__}"
        )


class ReLU6(nn.ReLU):
    """min(max(x, 0), 6) on the levels of the input.

    Args:
        inplace: whether the input is written to.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)

    def forward(self, input: Tensor) -> Tensor:
        """The limited input."""
        return F.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """The quantised form of nn.ReLU6."""
        return ReLU6(mod.inplace)


class Hardswish(_Levels, nn.Hardswish):
    """x * relu6(x + 3) / 6 with outputs on levels of their own.

    Args:
        scale, zero_point: of the outputs.
    """

    def __init__(self, scale: float, zero_point: int, device: Device = None, dtype: facula.dtype | None = None) -> None:
        super().__init__()
        self._set_levels(scale, zero_point)

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Hardswish:
        """The quantised form of an observed nn.Hardswish."""
        return Hardswish(*output_levels(mod, "Hardswish"))


class ELU(_Levels, nn.ELU):
    """ELU with outputs on levels of their own.

    Args:
        scale, zero_point: of the outputs.
        alpha: as for nn.ELU.
    """

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self._set_levels(scale, zero_point)

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> ELU:
        """The quantised form of an observed nn.ELU."""
        return ELU(*output_levels(mod, "ELU"), mod.alpha)


class LeakyReLU(_Levels, nn.LeakyReLU):
    """LeakyReLU with outputs on levels of their own.

    Args:
        scale, zero_point: of the outputs.
        negative_slope, inplace: as for nn.LeakyReLU.
    """

    def __init__(self, scale: float, zero_point: int, negative_slope: float = 0.01, inplace: bool = False,
                 device: Device = None, dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(negative_slope, inplace)
        self._set_levels(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """The quantised form of an observed nn.LeakyReLU."""
        return cls(*output_levels(mod, "LeakyReLU"), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """The logistic function with outputs on levels of their own.

    Args:
        output_scale, output_zero_point: of the outputs.
    """

    output_scale: float
    output_zero_point: int

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input: Tensor) -> Tensor:
        """The outputs of a quantised input."""
        return requantized(facula.sigmoid, input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """The quantised form of an observed nn.Sigmoid."""
        return cls(*output_levels(mod, "Sigmoid"))


class Softmax(_Levels, nn.Softmax):
    """Softmax with outputs on levels of their own.

    Args:
        dim: as for nn.Softmax.
        scale, zero_point: of the outputs.
    """

    scale: float
    zero_point: int

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__(-1 if dim is None else dim)
        self.scale, self.zero_point = scale, zero_point

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Softmax:
        """The quantised form of an observed nn.Softmax."""
        return Softmax(mod.dim, *output_levels(mod, "Softmax"))


class PReLU(nn.Module):
    """PReLU with a quantised weight and outputs on levels of their own.

    Args:
        output_scale, output_zero_point: of the outputs.
        num_parameters: number of slopes.
    """

    scale: float
    zero_point: int

    def __init__(self, output_scale: float, output_zero_point: int, num_parameters: int = 1) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.scale, self.zero_point = output_scale, output_zero_point
        self.set_weight(facula.quantize_per_tensor(facula.full((num_parameters,), 0.25), 0.01, 0, facula.quint8))

    def set_weight(self, w: Any) -> None:
        """Puts quantised slopes."""
        self.weight = w

    def forward(self, input: Tensor) -> Any:
        """The outputs of a quantised input."""
        return requantized(lambda x: F.prelu(x, self.weight.dequantize()), input, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """The quantised form of an observed nn.PReLU."""
        made = cls(*output_levels(mod, "PReLU"), mod.num_parameters)
        weight = mod.weight.detach().float()
        observer = mod.qconfig.weight()
        observer(weight)
        scale, zero_point = observer.calculate_qparams()
        made.set_weight(facula.quantize_per_tensor(weight, float(scale), int(zero_point), facula.quint8))
        return made


class Dropout(nn.Dropout):
    """Nothing: a quantised network is not trained.

    Args:
        p, inplace: as for nn.Dropout.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input itself."""
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """The quantised form of nn.Dropout."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """As `from_float`."""
        return cls(mod.p, mod.inplace)


class _BatchNorm(_Levels):
    _RELU = False

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum)
        self._set_levels(1.0, 0)
        self.requires_grad_(False)

    def _apply_float(self, x):
        result = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return result.relu_() if self._RELU else result

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> BNReLU2d | BNReLU3d:
        """The quantised form of an observed batch normalisation, or of one with its ReLU."""
        scale, zero_point = output_levels(mod, cls.__name__)
        norm = mod[0] if isinstance(mod, nn.Sequential) else mod
        made = cls(norm.num_features, norm.eps)
        made.weight, made.bias = norm.weight, norm.bias
        made.running_mean, made.running_var = norm.running_mean, norm.running_var
        made._set_levels(scale, zero_point)
        return made.requires_grad_(False)


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """nn.BatchNorm2d in evaluation on quantised inputs, with outputs on levels of their own.

    Args:
        num_features, eps, momentum: as for nn.BatchNorm2d.
    """


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """nn.BatchNorm3d in evaluation on quantised inputs, with outputs on levels of their own.

    Args:
        num_features, eps, momentum: as for nn.BatchNorm3d.
    """


class LayerNorm(_Levels, nn.LayerNorm):
    """nn.LayerNorm on quantised inputs, with outputs on levels of their own.

    Args:
        normalized_shape, eps, elementwise_affine: as for nn.LayerNorm.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, normalized_shape: int | Sequence[int], weight: Tensor, bias: Tensor, scale: float, zero_point: int,
                 eps: float = 1e-5, elementwise_affine: bool = True, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)
        self.weight, self.bias = weight, bias
        self._set_levels(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """The quantised form of an observed nn.LayerNorm."""
        levels = output_levels(mod, "LayerNorm")
        return cls(mod.normalized_shape, mod.weight, mod.bias, *levels, mod.eps, mod.elementwise_affine)


class GroupNorm(_Levels, nn.GroupNorm):
    """nn.GroupNorm on quantised inputs, with outputs on levels of their own.

    Args:
        num_groups, num_channels, eps, affine: as for nn.GroupNorm.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, num_groups: int, num_channels: Any, weight: Tensor, bias: Tensor, scale: float, zero_point: int,
                 eps: float = 1e-5, affine: bool = True, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(num_groups, num_channels, eps, affine)
        self.weight, self.bias = weight, bias
        self._set_levels(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """The quantised form of an observed nn.GroupNorm."""
        levels = output_levels(mod, "GroupNorm")
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias, *levels, mod.eps, mod.affine)


class _InstanceNorm(_Levels):
    weight: Tensor
    bias: Tensor

    def __init__(self, num_features: int, weight: Tensor, bias: Tensor, scale: float, zero_point: int, eps: float = 1e-5,
                 momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.weight, self.bias = weight, bias
        self._set_levels(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """The quantised form of an observed instance normalisation."""
        levels = output_levels(mod, cls.__name__)
        return cls(mod.num_features, mod.weight, mod.bias, *levels, mod.eps, mod.affine)


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """nn.InstanceNorm1d on quantised inputs, with outputs on levels of their own.

    Args:
        num_features, eps, momentum, affine, track_running_stats: as for nn.InstanceNorm1d.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
    """


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """nn.InstanceNorm2d on quantised inputs, with outputs on levels of their own.

    Args:
        num_features, eps, momentum, affine, track_running_stats: as for nn.InstanceNorm2d.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
    """


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """nn.InstanceNorm3d on quantised inputs, with outputs on levels of their own.

    Args:
        num_features, eps, momentum, affine, track_running_stats: as for nn.InstanceNorm3d.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
    """
