"""Convolutions with a ReLU on quantised tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula.ao.nn.quantized as nnq
from facula.ao.nn import intrinsic as nni
from facula.ao.nn.intrinsic.quantized._base import Fused

if TYPE_CHECKING:
    from typing import Any

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]

_DOC = """A convolution and a ReLU on quantised inputs.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            `nn.quantized.Conv{n}d`.

    >>> layer = torch.ao.nn.intrinsic.quantized.ConvReLU{n}d(2, 3, 3)
    >>> layer(torch.quantize_per_tensor(torch.ones(1, 2{sizes}), 1.0, 0, torch.quint8)).flatten().shape
    torch.Size([3])
    """


def _conv_relu(n):
    body = {
        "__doc__": _DOC.format(n=n, sizes=", 3" * n), "__module__": __name__, "_RELU": True,
        "_FLOAT_MODULE": getattr(nni, f"ConvReLU{n}d"),
        "_get_name": lambda self: f"QuantizedConvReLU{n}d",
    }  # fmt: skip
    return type(f"ConvReLU{n}d", (Fused, getattr(nnq, f"Conv{n}d")), body)


ConvReLU1d: type[Any]
ConvReLU2d: type[Any]
ConvReLU3d: type[Any]
ConvReLU1d, ConvReLU2d, ConvReLU3d = map(_conv_relu, (1, 2, 3))
