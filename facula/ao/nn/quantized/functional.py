"""Functions of quantised tensors. Those without scale and zero_point give the levels of their input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula._quantized import products
from facula.nn import functional as F

from .modules.activation import requantized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d", "conv2d", "conv3d",
    "elu",
    "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear", "max_pool1d", "max_pool2d", "threshold",
    "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def _quantized(name, input):
    if not isinstance(input, facula.Tensor) or not input.is_quantized:
        kind = input.dtype if isinstance(input, facula.Tensor) else type(input).__name__
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!, got {kind}")
    return input


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """nn.functional.adaptive_avg_pool2d of a quantised tensor."""
    return F.adaptive_avg_pool2d(_quantized("functional.adaptive_avg_pool2d", input), output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """nn.functional.adaptive_avg_pool3d of a quantised tensor."""
    return F.adaptive_avg_pool3d(_quantized("functional.adaptive_avg_pool3d", input), output_size)


def avg_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: Any = None) -> Tensor:  # fmt: skip
    """nn.functional.avg_pool2d of a quantised tensor."""
    more = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return F.avg_pool2d(_quantized("avg_pool2d", input), *more)


def avg_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: Any = None) -> Tensor:  # fmt: skip
    """nn.functional.avg_pool3d of a quantised tensor."""
    more = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return F.avg_pool3d(_quantized("avg_pool3d", input), *more)


def max_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """nn.functional.max_pool1d of a quantised tensor."""
    return F.max_pool1d(_quantized("max_pool1d", input), kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """nn.functional.max_pool2d of a quantised tensor."""
    return F.max_pool2d(_quantized("max_pool2d", input), kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _prepared(input, weight, dtype):
    if dtype is not facula.quint8 or input.dtype is not facula.quint8:
        raise NotImplementedError(f"quantized.conv: only torch.quint8 is supported for activations, got {dtype}")
    return weight


def _conv(dims):
    def function(input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0, zero_point=0,
                 dtype=facula.quint8):  # fmt: skip
        weight = _prepared(_quantized(f"conv{dims}d", input), weight, dtype)
        places = tuple(tuple(v) if isinstance(v, (list, tuple)) else (v,) * dims for v in (stride, padding, dilation))
        return products.conv(input, weight, bias, *places, groups, scale, zero_point, padding_mode=padding_mode)

    function.__name__ = function.__qualname__ = f"conv{dims}d"
    function.__doc__ = (
        f"nn.functional.conv{dims}d of a quint8 tensor and a weight of qint8, on the levels of scale and zero_point."
    )
    return function


conv1d: Callable[..., Tensor]
conv2d: Callable[..., Tensor]
conv3d: Callable[..., Tensor]
conv1d, conv2d, conv3d = map(_conv, (1, 2, 3))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, scale: float | None = None,
           zero_point: int | None = None) -> Any:  # fmt: skip
    """nn.functional.linear of a quantised tensor and a weight of qint8, on the levels of scale and zero_point.

    Without them the input's are taken.
    """
    scale = _quantized("linear", input).q_scale() if scale is None else scale
    return products.linear(input, weight, bias, scale, input.q_zero_point() if zero_point is None else zero_point)


def interpolate(input: Tensor, size: Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
                mode: str = "nearest", align_corners: bool | None = None) -> Any:  # fmt: skip
    """nn.functional.interpolate of a quantised tensor."""
    return F.interpolate(_quantized("interpolate", input), size, scale_factor, mode, align_corners)


def upsample(input: Tensor, size: Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
             mode: str = "nearest", align_corners: bool | None = None) -> Any:  # fmt: skip
    """The same as `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: Tensor, size: Sequence[int] | None = None,
                      scale_factor: float | Sequence[float] | None = None) -> Any:  # fmt: skip
    """`interpolate` with mode="bilinear" and align_corners=True."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input: Tensor, size: Sequence[int] | None = None,
                     scale_factor: float | Sequence[float] | None = None) -> Any:  # fmt: skip
    """`interpolate` with mode="nearest"."""
    return interpolate(input, size, scale_factor, mode="nearest")


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """nn.functional.hardtanh of a quantised tensor."""
    return F.hardtanh(_quantized("hardtanh", input), min_val, max_val, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """nn.functional.hardsigmoid of a quantised tensor, on levels from 0 to 1."""
    return F.hardsigmoid(_quantized("hardsigmoid", input))


def hardswish(input: Tensor, scale: float, zero_point: int) -> Any:
    """nn.functional.hardswish, on the levels of scale and zero_point."""
    return requantized(F.hardswish, _quantized("hardswish", input), scale, zero_point)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """nn.functional.elu, on the levels of scale and zero_point."""
    return requantized(lambda x: F.elu(x, alpha), _quantized("elu", input), scale, zero_point)


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """nn.functional.celu, on the levels of scale and zero_point."""
    return requantized(lambda x: F.celu(x, alpha), _quantized("celu", input), scale, zero_point)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False, scale: float | None = None,
               zero_point: int | None = None) -> Any:  # fmt: skip
    """nn.functional.leaky_relu, on the levels of scale and zero_point, or of the input."""
    if scale is None or zero_point is None:
        return F.leaky_relu(_quantized("leaky_relu", input), negative_slope, inplace)
    return requantized(lambda x: F.leaky_relu(x, negative_slope), _quantized("leaky_relu", input), scale, zero_point)


def threshold(input: Tensor, threshold: Any, value: Any) -> Tensor:
    """nn.functional.threshold of a quantised tensor. Errors: ValueError for no threshold or value."""
    if threshold is None or value is None:
        raise ValueError(f"threshold: expected a threshold and a value, got {threshold} and {value}")
    return F.threshold(_quantized("threshold", input), threshold, value)


def clamp(input: Tensor, min_: int, max_: int) -> Tensor:
    """torch.clamp of a quantised tensor."""
    return facula.clamp(_quantized("clamp", input), min_, max_)
