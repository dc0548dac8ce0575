"""Define activations on quantized tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import nn
from facula.nn import functional as F

from ._levels import _Levels, requantized
from .utils import output_levels

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["ELU", "Hardswish", "LeakyReLU", "PReLU", "ReLU6", "Sigmoid", "Softmax"]


class ReLU6(nn.ReLU):
    """Compute ``min(max(x, 0), 6)`` with the scale and zero point of the input.

    Args:
        inplace: if True, write to the input.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 3.0, 9.0]), 1.0, 1, torch.quint8)
    >>> torch.ao.nn.quantized.ReLU6()(x).dequantize()
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the limited input."""
        return F.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """Return the quantized form of nn.ReLU6; `convert` calls it.

        Args:
            mod: the module; it needs no observer.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        >>> torch.ao.nn.quantized.ReLU6.from_float(nn.ReLU6())
        QuantizedReLU6()
        """
        return ReLU6(mod.inplace)


class Hardswish(_Levels, nn.Hardswish):
    """Compute ``x * relu6(x + 3) / 6`` with a scale and zero point of the outputs' own.

    Args:
        scale, zero_point: of the outputs.
        device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 2.0]), 1.0, 1, torch.quint8)
    >>> torch.ao.nn.quantized.Hardswish(0.5, 0)(x).dequantize()
    tensor([0.0000, 0.0000, 1.5000])
    """

    def __init__(self, scale: float, zero_point: int, device: Device = None, dtype: facula.dtype | None = None) -> None:
        super().__init__()
        self._set_levels(scale, zero_point)

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Hardswish:
        """Return the quantized form of an observed nn.Hardswish; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.Hardswish()
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.tensor([-1.0, 2.0])))
        >>> torch.ao.nn.quantized.Hardswish.from_float(layer)
        QuantizedHardswish()
        """
        return Hardswish(*output_levels(mod, "Hardswish"))


class ELU(_Levels, nn.ELU):
    """Compute ``x`` where it is positive, else ``alpha * (exp(x) - 1)``, with a scale and zero point of the outputs'
    own.

    Args:
        scale, zero_point: of the outputs.
        alpha: of the formula.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 2.0]), 1.0, 1, torch.quint8)
    >>> torch.ao.nn.quantized.ELU(0.5, 2)(x).dequantize()
    tensor([-0.5000,  0.0000,  2.0000])
    """

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self._set_levels(scale, zero_point)

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> ELU:
        """Return the quantized form of an observed nn.ELU; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.ELU()
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.tensor([-1.0, 2.0])))
        >>> torch.ao.nn.quantized.ELU.from_float(layer)
        QuantizedELU(alpha=1.0)
        """
        return ELU(*output_levels(mod, "ELU"), mod.alpha)


class LeakyReLU(_Levels, nn.LeakyReLU):
    """Compute ``x`` where it is positive, else ``negative_slope * x``, with a scale and zero point of the outputs' own.

    Args:
        scale, zero_point: of the outputs.
        negative_slope: of the formula.
        inplace, device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 2.0]), 1.0, 1, torch.quint8)
    >>> torch.ao.nn.quantized.LeakyReLU(0.5, 1, negative_slope=0.5)(x).dequantize()
    tensor([-0.5000,  0.0000,  2.0000])
    """

    def __init__(self, scale: float, zero_point: int, negative_slope: float = 0.01, inplace: bool = False,
                 device: Device = None, dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(negative_slope, inplace)
        self._set_levels(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of an observed nn.LeakyReLU; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.LeakyReLU()
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.tensor([-1.0, 2.0])))
        >>> torch.ao.nn.quantized.LeakyReLU.from_float(layer)
        QuantizedLeakyReLU(negative_slope=0.01)
        """
        return cls(*output_levels(mod, "LeakyReLU"), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """Compute ``1 / (1 + exp(-x))`` with a scale and zero point of the outputs' own.

    Args:
        output_scale, output_zero_point: of the outputs.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 2.0]), 1.0, 1, torch.quint8)
    >>> torch.ao.nn.quantized.Sigmoid(0.25, 0)(x).dequantize()
    tensor([0.2500, 0.5000, 1.0000])
    """

    output_scale: float
    output_zero_point: int

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input: Tensor) -> Tensor:
        """Return the outputs of a quantized input."""
        return requantized(facula.sigmoid, input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of an observed nn.Sigmoid; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.Sigmoid()
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.tensor([-1.0, 2.0])))
        >>> torch.ao.nn.quantized.Sigmoid.from_float(layer)
        Sigmoid()
        """
        return cls(*output_levels(mod, "Sigmoid"))


class Softmax(_Levels, nn.Softmax):
    """Compute ``exp(x) / sum(exp(x))`` along a dimension, with a scale and zero point of the outputs' own.

    Args:
        dim: the dimension; default: the last.
        scale, zero_point: of the outputs.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 2.0]), 1.0, 1, torch.quint8)
    >>> torch.ao.nn.quantized.Softmax(0, 1 / 256)(x).dequantize()
    tensor([0.0430, 0.1133, 0.8438])
    """

    scale: float
    zero_point: int

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__(-1 if dim is None else dim)
        self.scale, self.zero_point = scale, zero_point

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Softmax:
        """Return the quantized form of an observed nn.Softmax; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.Softmax(0)
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.tensor([-1.0, 2.0])))
        >>> torch.ao.nn.quantized.Softmax.from_float(layer)
        QuantizedSoftmax(dim=0)
        """
        return Softmax(mod.dim, *output_levels(mod, "Softmax"))


class PReLU(nn.Module):
    """Compute ``x`` where it is positive, else ``weight * x``, with a quantized weight and a scale and zero point of
    the outputs' own.

    Args:
        output_scale, output_zero_point: of the outputs.
        num_parameters: number of slopes, 1 or that of channels.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[-4.0, 2.0]]), 1.0, 4, torch.quint8)
    >>> layer = torch.ao.nn.quantized.PReLU(0.5, 4)
    >>> layer(x).dequantize()
    tensor([[-1.,  2.]])
    >>> layer.set_weight(torch.quantize_per_tensor(torch.tensor([0.5]), 0.5, 0, torch.quint8))
    >>> layer(x).dequantize()
    tensor([[-2.,  2.]])
    """

    scale: float
    zero_point: int

    def __init__(self, output_scale: float, output_zero_point: int, num_parameters: int = 1) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.scale, self.zero_point = output_scale, output_zero_point
        self.set_weight(facula.quantize_per_tensor(facula.full((num_parameters,), 0.25), 0.01, 0, facula.quint8))

    def set_weight(self, w: Any) -> None:
        """Put quantized slopes.

        Args:
            w: a quantized tensor of num_parameters elements.
        """
        self.weight = w

    def forward(self, input: Tensor) -> Any:
        """Return the outputs of a quantized input."""
        return requantized(lambda x: F.prelu(x, self.weight.dequantize()), input, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of an observed nn.PReLU with a qconfig; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs; its qconfig observes the weight.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.PReLU()
        >>> layer.qconfig = torch.ao.quantization.default_qconfig
        >>> layer.activation_post_process = layer.qconfig.activation()
        >>> _ = layer.activation_post_process(layer(torch.tensor([-1.0, 2.0])))
        >>> torch.ao.nn.quantized.PReLU.from_float(layer)
        QuantizedPReLU()
        """
        made = cls(*output_levels(mod, "PReLU"), mod.num_parameters)
        weight = mod.weight.detach().float()
        observer = mod.qconfig.weight()
        observer(weight)
        scale, zero_point = observer.calculate_qparams()
        made.set_weight(facula.quantize_per_tensor(weight, float(scale), int(zero_point), facula.quint8))
        return made
