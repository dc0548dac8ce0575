"""Define the dropout of quantized networks, which does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["Dropout"]


class Dropout(nn.Dropout):
    """Return the input unchanged, because a quantized network is not trained.

    Args:
        p, inplace: of nn.Dropout; kept.

    >>> torch.ao.nn.quantized.Dropout(0.9)(torch.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the input itself."""
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of nn.Dropout; `convert` calls it.

        Args:
            mod: the module; it needs no observer.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        >>> torch.ao.nn.quantized.Dropout.from_float(nn.Dropout(0.1))
        QuantizedDropout(p=0.1, inplace=False)
        """
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return what `from_float` gives.

        Args:
            mod: the module.
            scale, zero_point: without effect.

        >>> torch.ao.nn.quantized.Dropout.from_reference(nn.Dropout(0.1), 1.0, 0)
        QuantizedDropout(p=0.1, inplace=False)
        """
        return cls(mod.p, mod.inplace)
