"""Define modules on quantized tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import nn

from .activation import ELU, Hardswish, LeakyReLU, PReLU, ReLU6, Sigmoid, Softmax
from .batchnorm import BatchNorm2d, BatchNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .dropout import Dropout
from .embedding_ops import Embedding, EmbeddingBag
from .functional_modules import FloatFunctional, FXFloatFunctional, QFunctional
from .linear import Linear
from .normalization import GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.nn.modules.module import Module

MaxPool2d = nn.MaxPool2d

__all__ = [
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "DeQuantize", "Dropout", "ELU", "Embedding", "EmbeddingBag", "FXFloatFunctional", "FloatFunctional", "GroupNorm",
    "Hardswish", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LeakyReLU", "Linear", "MaxPool2d", "PReLU",
    "QFunctional", "Quantize", "ReLU6", "Sigmoid", "Softmax",
]  # fmt: skip


class Quantize(nn.Module):
    """Quantize float inputs.

    Args:
        scale, zero_point: numbers, as for `quantize_per_tensor`.
        dtype: quint8, qint8 or qint32.
        factory_kwargs: device of the buffers.

    Example::

        >>> torch.ao.nn.quantized.Quantize(0.5, 1, torch.quint8)(torch.tensor([1.0])).int_repr()
        tensor([3], dtype=torch.uint8)
    """

    def __init__(self, scale: float, zero_point: int, dtype: facula.dtype,
                 factory_kwargs: dict[str, Any] | None = None) -> None:  # fmt: skip
        super().__init__()
        device = (factory_kwargs or {}).get("device")
        self.register_buffer("scale", facula.tensor([float(scale)], device=device))
        self.register_buffer("zero_point", facula.tensor([int(zero_point)], dtype=facula.long, device=device))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Tensor:
        """Return the quantized input."""
        return facula.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Quantize:
        """Return the quantized form of an observed `QuantStub`; `convert` calls it.

        Args:
            mod: the module, whose observer has seen its outputs.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a module without an observer.

        >>> stub = torch.ao.quantization.QuantStub()
        >>> stub.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = stub.activation_post_process(torch.tensor([0.0, 127.0]))
        >>> torch.ao.nn.quantized.Quantize.from_float(stub)
        Quantize(scale=tensor([1.]), zero_point=tensor([0]), dtype=torch.quint8)
        """
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError(f"Quantize.from_float: expected an observed module, got {type(mod).__name__}")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.float().item(), zero_point.long().item(), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        """Return what printing shows."""
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """Return the values of quantized inputs, in float32.

    Example::

        >>> x = torch.quantize_per_tensor(torch.tensor([1.0]), 0.5, 1, torch.quint8)
        >>> torch.ao.nn.quantized.DeQuantize()(x)
        tensor([1.])
    """

    def __init__(self):
        super().__init__()

    def forward(self, Xq: Tensor) -> Tensor:
        """Return the values."""
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """Return the quantized form of a `DeQuantStub`; `convert` calls it.

        Args:
            mod: the stub; it needs no observer.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        >>> torch.ao.nn.quantized.DeQuantize.from_float(torch.ao.quantization.DeQuantStub())
        DeQuantize()
        """
        return DeQuantize()
