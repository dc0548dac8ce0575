"""Define a linear layer that rounds its weight in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn
from facula.ao.nn.qat._base import as_parameter, qconfig_of, weight_rounding
from facula.nn import functional as F
from facula.nn.utils.parametrize import is_parametrized, transfer_parametrizations_and_params

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    import facula
    from facula import Tensor
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["Linear"]


class Linear(nn.Linear):
    """Apply nn.Linear with a weight rounded as `convert` will round it.

    Args:
        in_features, out_features, bias, device, dtype: as for nn.Linear.
        qconfig: its `weight` says how.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.qat.Linear(4, 2, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    _FLOAT_MODULE = nn.Linear

    def __init__(self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        rounding = weight_rounding(type(self).__name__, qconfig, device)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = qconfig
        self.weight_fake_quant: Any = rounding

    def forward(self, input: Tensor) -> Tensor:
        """Return input @ rounded weight.T + bias."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the layer made of one of floating point with a qconfig, whose parameters it takes over.

        Args:
            mod: the layer, or the container of it and a ReLU.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for another class, or without a qconfig.

        >>> layer = nn.Linear(2, 1)
        >>> layer.qconfig = torch.ao.quantization.default_qat_qconfig
        >>> rounded = torch.ao.nn.qat.Linear.from_float(layer)
        >>> rounded.weight is layer.weight
        True
        """
        linear = mod[0] if isinstance(mod, nn.Sequential) else mod
        qconfig = qconfig_of(cls, mod, linear)
        made = cls(linear.in_features, linear.out_features, bias=linear.bias is not None, qconfig=qconfig)
        for name in ("weight", "bias"):
            if is_parametrized(linear, name):
                transfer_parametrizations_and_params(linear, made, name)
            else:
                setattr(made, name, getattr(linear, name))
        return made

    def to_float(self) -> Linear:
        """Return the layer without rounding.

        >>> torch.ao.nn.qat.Linear(2, 1, qconfig=torch.ao.quantization.default_qat_qconfig).to_float()
        Linear(in_features=2, out_features=1, bias=True)
        """
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        linear.weight, linear.bias = as_parameter(self.weight), as_parameter(self.bias)
        return linear.train(self.training)
