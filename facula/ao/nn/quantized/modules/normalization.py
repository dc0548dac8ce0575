"""Define normalizations of samples on quantized tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import Tensor, nn

from ._levels import _Levels
from .utils import output_levels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    import facula
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm"]


class LayerNorm(_Levels, nn.LayerNorm):
    """Apply nn.LayerNorm to quantized inputs, with a scale and zero point of the outputs' own.

    Args:
        normalized_shape: the sizes of the last dimensions.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
        eps: added to the variance.
        elementwise_affine: if True, there are weight and bias.
        device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[1.0, 3.0]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.LayerNorm([2], None, None, 0.5, 4)(x).dequantize()
    tensor([[-1.,  1.]])
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, normalized_shape: int | Sequence[int], weight: Tensor | None, bias: Tensor | None, scale: float,
                 zero_point: int, eps: float = 1e-5, elementwise_affine: bool = True, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)
        self.weight, self.bias = weight, bias
        self._set_levels(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of an observed nn.LayerNorm; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.LayerNorm(2)
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.tensor([[1.0, 3.0]])))
        >>> torch.ao.nn.quantized.LayerNorm.from_float(layer)
        QuantizedLayerNorm((2,), eps=1e-05, elementwise_affine=True, bias=True)
        """
        levels = output_levels(mod, "LayerNorm")
        return cls(mod.normalized_shape, mod.weight, mod.bias, *levels, mod.eps, mod.elementwise_affine)


class GroupNorm(_Levels, nn.GroupNorm):
    """Apply nn.GroupNorm to quantized inputs, with a scale and zero point of the outputs' own.

    Args:
        num_groups, num_channels: how many groups and channels there are.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
        eps: added to the variance.
        affine: if True, there are weight and bias.
        device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[1.0, 3.0]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.GroupNorm(1, 2, None, None, 0.5, 4)(x).dequantize()
    tensor([[-1.,  1.]])
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, num_groups: int, num_channels: Any, weight: Tensor | None, bias: Tensor | None, scale: float,
                 zero_point: int, eps: float = 1e-5, affine: bool = True, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(num_groups, num_channels, eps, affine)
        self.weight, self.bias = weight, bias
        self._set_levels(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of an observed nn.GroupNorm; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.GroupNorm(1, 2)
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.tensor([[1.0, 3.0]])))
        >>> torch.ao.nn.quantized.GroupNorm.from_float(layer)
        QuantizedGroupNorm(1, 2, eps=1e-05, affine=True, bias=True)
        """
        levels = output_levels(mod, "GroupNorm")
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias, *levels, mod.eps, mod.affine)


class _InstanceNorm(_Levels):
    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, num_features: int, weight: Tensor | None, bias: Tensor | None, scale: float, zero_point: int,
                 eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False,
                 device: Device = None, dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.weight, self.bias = weight, bias
        self._set_levels(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of an observed instance normalization; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.InstanceNorm1d(1)
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.tensor([[[1.0, 3.0]]])))
        >>> torch.ao.nn.quantized.InstanceNorm1d.from_float(layer)
        QuantizedInstanceNorm1d(1, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)
        """
        levels = output_levels(mod, cls.__name__)
        return cls(mod.num_features, mod.weight, mod.bias, *levels, mod.eps, mod.momentum, mod.affine)


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """Apply nn.InstanceNorm1d to quantized inputs, with a scale and zero point of the outputs' own.

    Args:
        num_features: how many channels there are.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
        eps: added to the variance.
        affine: if True, there are weight and bias.
        momentum, track_running_stats: of nn.InstanceNorm1d.
        device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 3.0]).reshape(1, 1, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.InstanceNorm1d(1, None, None, 0.5, 4)(x).dequantize().flatten()
    tensor([-1.,  1.])
    """


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """Apply nn.InstanceNorm2d to quantized inputs, with a scale and zero point of the outputs' own.

    Args:
        num_features: how many channels there are.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
        eps: added to the variance.
        affine: if True, there are weight and bias.
        momentum, track_running_stats: of nn.InstanceNorm2d.
        device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 3.0]).reshape(1, 1, 1, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.InstanceNorm2d(1, None, None, 0.5, 4)(x).dequantize().flatten()
    tensor([-1.,  1.])
    """


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """Apply nn.InstanceNorm3d to quantized inputs, with a scale and zero point of the outputs' own.

    Args:
        num_features: how many channels there are.
        weight, bias: of float32, or None.
        scale, zero_point: of the outputs.
        eps: added to the variance.
        affine: if True, there are weight and bias.
        momentum, track_running_stats: of nn.InstanceNorm3d.
        device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 3.0]).reshape(1, 1, 1, 1, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.InstanceNorm3d(1, None, None, 0.5, 4)(x).dequantize().flatten()
    tensor([-1.,  1.])
    """
