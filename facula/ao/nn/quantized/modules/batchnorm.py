"""Define batch normalizations on quantized tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn
from facula.nn import functional as F

from ._levels import _Levels
from .utils import output_levels

if TYPE_CHECKING:
    import facula
    from facula.ao.nn.intrinsic.quantized.modules.bn_relu import BNReLU2d, BNReLU3d
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["BatchNorm2d", "BatchNorm3d"]


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
        """Return the quantized form of an observed batch normalization, or of one with its ReLU; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> layer = nn.BatchNorm2d(1)
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.ones(2, 1, 2, 2)))
        >>> torch.ao.nn.quantized.BatchNorm2d.from_float(layer)
        QuantizedBatchNorm2d(1, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        scale, zero_point = output_levels(mod, cls.__name__)
        norm = mod[0] if isinstance(mod, nn.Sequential) else mod
        made = cls(norm.num_features, norm.eps)
        made.weight, made.bias = norm.weight, norm.bias
        made.running_mean, made.running_var = norm.running_mean, norm.running_var
        made._set_levels(scale, zero_point)
        return made.requires_grad_(False)


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """Apply nn.BatchNorm2d in evaluation to quantized inputs, with a scale and zero point of the outputs' own.

    Args:
        num_features: how many channels there are.
        eps: added to the variance.
        momentum, device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.BatchNorm2d(1)(x).flatten().dequantize()
    tensor([1., 1., 1., 1.])
    """


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """Apply nn.BatchNorm3d in evaluation to quantized inputs, with a scale and zero point of the outputs' own.

    Args:
        num_features: how many channels there are.
        eps: added to the variance.
        momentum, device, dtype: accepted, and without effect.

    Errors: RuntimeError, at a call, for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 1, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.BatchNorm3d(1)(x).flatten().dequantize()
    tensor([1., 1., 1., 1.])
    """
