"""Mark the places where a model's tensors become quantized, and floating point again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Stub(nn.Module):
    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


class QuantStub(_Stub):
    """Return the input; `prepare` adds an observer, and `convert` replaces the module by `nn.quantized.Quantize`.

    Args:
        qconfig: if not that of the module around it.

    >>> from torch.ao.quantization import QuantStub
    >>> QuantStub()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """


class DeQuantStub(_Stub):
    """Return the input; `convert` replaces the module by `nn.quantized.DeQuantize`.

    Args:
        qconfig: if not that of the module around it.

    >>> from torch.ao.quantization import DeQuantStub
    >>> DeQuantStub()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """


class QuantWrapper(nn.Module):
    """Run a module between a `QuantStub` and a `DeQuantStub`.

    Args:
        module: with a qconfig, or within a module that has one.

    >>> from torch.ao.quantization import QuantWrapper
    >>> QuantWrapper(nn.ReLU())
    QuantWrapper(
      (quant): QuantStub()
      (dequant): DeQuantStub()
      (module): ReLU()
    )
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        """Return what the module makes of X, quantized and back."""
        return self.dequant(self.module(self.quant(X)))
