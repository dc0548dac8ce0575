"""Define a linear layer fused with a ReLU, which rounds its weight in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn
from facula.ao.nn import intrinsic as nni
from facula.ao.nn import qat as nnqat
from facula.ao.nn.intrinsic.modules.fused import _FusedModule
from facula.nn import functional as F

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["LinearReLU"]


class LinearReLU(nnqat.Linear, _FusedModule):
    """Apply a linear layer and a ReLU with a weight rounded as `convert` will round it.

    Args:
        in_features, out_features, bias: as for nn.Linear.
        qconfig: its `weight` says how.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.LinearReLU(4, 2, qconfig=default_qat_qconfig)
    >>> bool((layer(torch.ones(3, 4)) >= 0).all())
    True
    """

    _FLOAT_MODULE = nni.LinearReLU

    def __init__(self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None) -> None:
        super().__init__(in_features, out_features, bias, qconfig)

    def forward(self, input: Tensor) -> Tensor:
        """Return relu(input @ rounded weight.T + bias)."""
        return F.relu(super().forward(input))

    def to_float(self) -> LinearReLU:
        """Return the container of the layer without rounding and a ReLU."""
        return nni.LinearReLU(super().to_float(), nn.ReLU()).train(self.training)
