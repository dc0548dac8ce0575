"""Define a linear layer that is trained for `nn.quantized.dynamic.Linear`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.ao.nn.qat.modules import linear

if TYPE_CHECKING:
    from typing import Any

    import facula
    from facula.types import Device

__all__ = ["Linear"]


class Linear(linear.Linear):
    """Apply `nn.qat.Linear` for a qconfig whose activations get their scales with each input.

    Args:
        in_features, out_features, bias, device, dtype: as for nn.Linear.
        qconfig: such as `default_dynamic_qat_qconfig`.

    Errors: ValueError for a qconfig whose activations' scales depend on earlier inputs; AssertionError without one.

    >>> from torch.ao.quantization import default_dynamic_qat_qconfig
    >>> layer = torch.ao.nn.qat.dynamic.Linear(4, 2, qconfig=default_dynamic_qat_qconfig)
    >>> layer(torch.ones(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        from facula.ao.quantization.qconfig import _activation_is_memoryless

        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        if not _activation_is_memoryless(qconfig):
            raise ValueError(f"qat.dynamic.Linear: Dynamic QAT requires a memoryless observer, got {qconfig.activation}")
