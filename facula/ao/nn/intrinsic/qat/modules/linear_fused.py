"""Define a linear layer fused with a batch normalization, which rounds its weight in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn
from facula.ao.nn import intrinsic as nni
from facula.ao.nn.intrinsic.modules.fused import _FusedModule
from facula.ao.nn.intrinsic.qat._folded import Folded
from facula.ao.nn.qat._base import as_parameter, qconfig_of, weight_rounding
from facula.nn import functional as F
from facula.nn.utils import fuse_linear_bn_weights

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.linear import Linear
    from facula.nn.modules.module import Module

__all__ = ["LinearBn1d"]


class LinearBn1d(Folded, nn.Linear, _FusedModule):
    """Apply a linear layer and a batch normalization with a weight rounded as `convert` will round that of both in one.

    Args:
        in_features, out_features, bias: as for nn.Linear.
        eps, momentum: as for nn.BatchNorm1d.
        freeze_bn: if True, normalize with the statistics as they are.
        qconfig: its `weight` says how.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.LinearBn1d(4, 2, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    _FLOAT_MODULE = nni.LinearBn1d

    def __init__(self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-05, momentum: float = 0.1,
                 freeze_bn: bool = False, qconfig: Any = None) -> None:  # fmt: skip
        rounding = weight_rounding("LinearBn1d", qconfig)
        super().__init__(in_features, out_features, bias)
        self._with_bn(nn.BatchNorm1d(out_features, eps, momentum, True, True), rounding, qconfig, freeze_bn)

    def _product(self, input, weight, bias):
        return F.linear(input, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the product with the rounded weight, normalized."""
        return self._folded(input)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the layer made of a container with a qconfig, whose parameters and statistics it takes over; `prepare_qat`
        calls it.

        Args:
            mod: the container, `nn.intrinsic.LinearBn1d`.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for another class, or without a qconfig.

        >>> from torch.ao.nn import intrinsic
        >>> container = intrinsic.LinearBn1d(nn.Linear(2, 1), nn.BatchNorm1d(1))
        >>> container.qconfig = torch.ao.quantization.default_qat_qconfig
        >>> layer = intrinsic.qat.LinearBn1d.from_float(container)
        >>> layer.weight is container[0].weight
        True
        """
        qconfig = qconfig_of(cls, mod)
        linear, bn = mod[0], mod[1]
        made = cls(
            linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False, qconfig
        )
        return made._take(linear, bn)

    def to_float(self) -> Linear:
        """Return the linear layer with the normalization in its weight.

        >>> torch.ao.nn.intrinsic.qat.LinearBn1d(2, 1, qconfig=torch.ao.quantization.default_qat_qconfig).to_float()
        Linear(in_features=2, out_features=1, bias=True)
        """
        bn = self.bn
        linear = nn.Linear(self.in_features, self.out_features)
        linear.weight, linear.bias = fuse_linear_bn_weights(
            as_parameter(self.weight), as_parameter(self.bias), bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        return linear.train(self.training)
