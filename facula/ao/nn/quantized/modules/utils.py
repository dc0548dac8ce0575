"""Define the base classes of modules with quantized weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import nn

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["WeightedQuantizedModule"]


class WeightedQuantizedModule(nn.Module):
    """Define a module whose weight is quantized; this is the base class.

    Args:
        args, kwargs: those of nn.Module, which takes none.

    >>> from torch.ao.nn.quantized.modules.utils import WeightedQuantizedModule
    >>> isinstance(torch.ao.nn.quantized.Linear(2, 1), WeightedQuantizedModule)
    True
    """

    @classmethod
    def from_reference(cls, ref_module: Any, output_scale: float, output_zero_point: int) -> Any:
        """Raise NotImplementedError: reference modules belong to quantization of graphs, which is not here.

        Args:
            ref_module: the reference module.
            output_scale, output_zero_point: of the outputs.

        >>> torch.ao.nn.quantized.Linear.from_reference(nn.Linear(2, 1), 1.0, 0)
        Traceback (most recent call last):
            ...
        NotImplementedError: Linear.from_reference: quantization of graphs is not supported, got Linear
        """
        raise NotImplementedError(
            f"{cls.__name__}.from_reference: quantization of graphs is not supported, got {type(ref_module).__name__}"
        )


class OutputLevels:
    """Hold the scale and zero point of a module's outputs as plain numbers, which its state dict holds as tensors."""

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = facula.tensor(self.scale)
        destination[prefix + "zero_point"] = facula.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name, kind in (("scale", float), ("zero_point", int)):
            if prefix + name in state_dict:
                setattr(self, name, kind(state_dict.pop(prefix + name)))
            elif strict:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )


def quantize_weight(weight: Tensor, observer: Module) -> Tensor:
    """Return a float weight on the levels that an observer has found: qint8, quint8, or with float16 the weight rounded to
    it."""
    scale, zero_point = observer.calculate_qparams()
    dtype = observer.dtype
    schemes = {facula.per_tensor_affine, facula.per_tensor_symmetric}
    if observer.qscheme in schemes:
        return facula.quantize_per_tensor(weight.float(), float(scale), int(zero_point), dtype)
    floats = observer.qscheme is facula.per_channel_affine_float_qparams
    zeros = zero_point.float() if floats else zero_point.long()
    return facula.quantize_per_channel(weight.float(), scale.double(), zeros, observer.ch_axis, dtype)


def observed_weight(module: Module, default: Any, precomputed: bool = False) -> Any:
    """Return the observer of a module's weight, which has seen it.

    Args:
        module: has `weight`, and `qconfig` (or `weight_fake_quant`, when it was trained so).
        default: the maker of an observer where there is no qconfig.
        precomputed: whether a `weight_fake_quant` has seen enough.
    """
    observer = getattr(module, "weight_fake_quant", None)
    if observer is None:
        config = getattr(module, "qconfig", None)
        observer = config.weight() if config is not None and config.weight is not None else default()
        observer(module.weight)
    elif not precomputed:
        observer(module.weight)
    return observer


def output_levels(module: Module, name: str) -> tuple[float, int]:
    """Return the scale and zero point that the observer behind a module has found."""
    observer = getattr(module, "activation_post_process", None)
    if observer is None:
        given = type(module).__name__
        raise AssertionError(f"{name}.from_float: expected a module with an observer of its outputs, got {given}")
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point)
