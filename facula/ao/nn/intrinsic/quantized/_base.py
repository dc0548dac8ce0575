"""Define the base class of quantized fused layers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from facula.nn.modules.module import Module


@contextlib.contextmanager
def observed_layer(mod):
    """Give the first layer of a container, with the container's observer of outputs; other modules are their own."""
    if hasattr(mod, "weight_fake_quant"):  # it trained with rounding, as one layer
        yield mod
        return
    layer = mod[0]
    layer.activation_post_process = getattr(mod, "activation_post_process", None)
    try:
        yield layer
    finally:
        del layer.activation_post_process


class Fused:
    """Build a quantized layer from a container."""

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Any:
        """Return the quantized form of a container that has been observed (`prepare`), or of a fused layer trained so
        (`prepare_qat`).

        Args:
            mod: the container or fused layer.
            use_precomputed_fake_quant: as for the layer alone.

        Errors: AssertionError for a module without observers.
        """
        with observed_layer(mod) as layer:
            return super().from_float(layer, use_precomputed_fake_quant)
