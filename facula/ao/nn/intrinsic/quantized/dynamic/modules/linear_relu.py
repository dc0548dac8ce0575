"""Define a linear layer with a weight of qint8 and a ReLU on float inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
import facula.ao.nn.quantized.dynamic as nnqd
from facula.ao.nn import intrinsic as nni

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["LinearReLU"]


class LinearReLU(nnqd.Linear):
    """Apply a linear layer and a ReLU to float inputs, with a weight of qint8 or float16.

    Args:
        in_features, out_features, bias, dtype: as for `nn.quantized.dynamic.Linear`.

    >>> layer = torch.ao.nn.intrinsic.quantized.dynamic.LinearReLU(2, 3)
    >>> bool((layer(torch.ones(1, 2)) >= 0).all())
    True
    """

    _FLOAT_MODULE = nni.LinearReLU

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: facula.dtype = facula.qint8) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the float outputs of float inputs, not negative."""
        return super().forward(x).relu_()

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the layer with its weight quantized as the qconfig of the container's first layer says.

        Args:
            mod: the container.
            use_precomputed_fake_quant: as for the layer alone.
        """
        return super().from_float(mod[0] if isinstance(mod, nni.LinearReLU) else mod, use_precomputed_fake_quant)
