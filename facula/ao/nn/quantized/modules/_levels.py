"""Define modules on quantized tensors whose outputs have a scale and zero point of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Tensor
    from facula.nn.modules.module import Module


def requantized(function: Callable[..., Any], input: Tensor, scale: Tensor | float, zero_point: Tensor | int) -> Tensor:
    """Return `function` of the values of a quantized tensor, on other levels of its dtype."""
    if not isinstance(input, facula.Tensor) or not input.is_quantized:
        kind = input.dtype if isinstance(input, facula.Tensor) else type(input).__name__
        raise RuntimeError(f"quantized.{getattr(function, '__name__', 'module')}: expected a quantized input, got {kind}")
    with facula.no_grad():
        return facula.quantize_per_tensor(function(input.dequantize()), float(scale), int(zero_point), input.dtype)


class _Levels:
    """Hold a scale and a zero point for the outputs of a module."""

    def _set_levels(self, scale, zero_point):
        self.register_buffer("scale", facula.tensor(float(scale)))
        self.register_buffer("zero_point", facula.tensor(int(zero_point)))

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    def _apply_float(self, input):
        return super().forward(input)

    def forward(self, input: Tensor) -> Tensor:
        """Return the outputs of a quantized input, on the levels of `scale` and `zero_point`."""
        return requantized(self._apply_float, input, self.scale, self.zero_point)

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Any:
        """Raise NotImplementedError: reference modules belong to quantization of graphs, which is not here.

        Args:
            mod: the reference module.
            scale, zero_point: of the outputs.

        >>> torch.ao.nn.quantized.LayerNorm.from_reference(nn.LayerNorm(2), 1.0, 0)
        Traceback (most recent call last):
            ...
        NotImplementedError: LayerNorm.from_reference: quantization of graphs is not supported, got LayerNorm
        """
        raise NotImplementedError(
            f"{cls.__name__}.from_reference: quantization of graphs is not supported, got {type(mod).__name__}"
        )
