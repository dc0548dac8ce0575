"""Train a layer and its batch normalization with the weight rounded as it will be when both are one.

What is rounded is weight * g / s, where g is the normalization's weight and s its running standard deviation; the result is
divided by g / s again, so that the normalization sees, and counts into its statistics, what the layer alone would give.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import facula
from facula import nn
from facula.nn import init

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula.nn.modules.module import Module


class Folded(nn.Module):
    """Provide methods for layers that have `weight`, `bias`, `bn` and `weight_fake_quant`."""

    weight: Any
    bias: Any

    def _with_bn(self, bn, rounding, qconfig, freeze_bn):
        self.qconfig: Any = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn: Any = bn
        self.weight_fake_quant: Any = rounding
        self.reset_bn_parameters()
        if self.training:
            if freeze_bn:
                self.freeze_bn_stats()
            else:
                self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def reset_running_stats(self) -> None:
        """Forget the batch normalization's statistics."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        """Draw the batch normalization's weight and the layer's bias anew, and forget the statistics."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)
        if self.bias is not None:
            bound = 1 / math.sqrt(init._calculate_fan_in_and_fan_out(self.weight)[0])
            init.uniform_(self.bias, -bound, bound)

    def update_bn_stats(self) -> Self:
        """Let the batch normalization count into its statistics; return the layer."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self) -> Self:
        """Have the batch normalization use its statistics as they are; return the layer."""
        self.freeze_bn: bool = True
        self.bn.training = False
        return self

    def _product(self, input, weight, bias):
        raise NotImplementedError(f"{type(self).__name__}: a layer says what it does with its weight, got {tuple(input.shape)}")

    def _folded(self, input):
        factor = self.bn.weight / facula.sqrt(self.bn.running_var + self.bn.eps)
        rows = [-1, *[1] * (self.weight.dim() - 1)]
        channels = [1, -1, *[1] * (self.weight.dim() - 2)]
        weight = self.weight_fake_quant(self.weight * factor.reshape(rows))
        result = self._product(input, weight, None) / factor.reshape(channels)
        if self.bias is not None:
            result = result + self.bias.reshape(channels)
        return self.bn(result)

    def train(self, mode: bool = True) -> Self:
        """Set the mode as nn.Module does, but a frozen batch normalization stays in evaluation mode."""
        self.training = mode
        if not self.freeze_bn:
            for child in self.children():
                child.train(mode)
        return self

    def _take(self, layer, bn):
        """Take over the parameters and statistics of layers of floating point; return the layer."""
        self.weight, self.bias = layer.weight, layer.bias
        self.bn.weight, self.bn.bias = bn.weight, bn.bias
        self.bn.running_mean, self.bn.running_var = bn.running_mean, bn.running_var
        self.bn.num_batches_tracked = bn.num_batches_tracked
        return self


def update_bn_stats(mod: Module) -> None:
    """Let the batch normalization of a fused layer count into its statistics: for ``model.apply(update_bn_stats)``.

    Args:
        mod: any module; others than fused layers stay as they are.

    >>> from torch.ao.nn.intrinsic import qat
    >>> layer = qat.ConvBn1d(1, 1, 1, freeze_bn=True, qconfig=torch.ao.quantization.default_qat_qconfig)
    >>> _ = layer.apply(qat.update_bn_stats)
    >>> layer.freeze_bn, layer.bn.training
    (False, True)
    """
    if isinstance(mod, Folded):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Module) -> None:
    """Have the batch normalization of a fused layer use its statistics as they are: for ``model.apply(freeze_bn_stats)``.

    Args:
        mod: any module; others than fused layers stay as they are.

    >>> from torch.ao.nn.intrinsic import qat
    >>> layer = qat.ConvBn1d(1, 1, 1, qconfig=torch.ao.quantization.default_qat_qconfig)
    >>> _ = layer.apply(qat.freeze_bn_stats)
    >>> layer.freeze_bn, layer.bn.training
    (True, False)
    """
    if isinstance(mod, Folded):
        mod.freeze_bn_stats()
