"""Define functions of quantized tensors. Functions without scale and zero_point return tensors with the scheme of their
input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula.ao.nn.quantized import _products
from facula.nn import functional as F

from .modules._levels import requantized

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d", "conv2d", "conv3d",
    "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear", "max_pool1d", "max_pool2d",
    "threshold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def _quantized(name, input):
    if not isinstance(input, facula.Tensor) or not input.is_quantized:
        kind = input.dtype if isinstance(input, facula.Tensor) else type(input).__name__
        raise ValueError(f"quantized.{name}: input must be quantized, got {kind}")
    return input


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Return nn.functional.adaptive_avg_pool2d of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor, (N, C, H, W) or (C, H, W).
        output_size: the sizes of the output, a number or one for each dimension; None for that of the input.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.adaptive_avg_pool2d(x, 1).dequantize()
    tensor([[[1.]]])
    """
    return F.adaptive_avg_pool2d(_quantized("functional.adaptive_avg_pool2d", input), output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Return nn.functional.adaptive_avg_pool3d of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor, (N, C, D, H, W) or (C, D, H, W).
        output_size: the sizes of the output, a number or one for each dimension; None for that of the input.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.adaptive_avg_pool3d(x, 1).dequantize()
    tensor([[[[1.]]]])
    """
    return F.adaptive_avg_pool3d(_quantized("functional.adaptive_avg_pool3d", input), output_size)


def avg_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: Any = None) -> Tensor:  # fmt: skip
    """Return nn.functional.avg_pool2d of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor.
        kernel_size: of the window, a number or one for each dimension.
        stride: the step of the window; default: its size.
        padding: zeros added at both ends of each dimension.
        ceil_mode: if True, round sizes up.
        count_include_pad: if True, count padding in the mean.
        divisor_override: what sums are divided by instead of their number.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.avg_pool2d(x, 2).dequantize()
    tensor([[[1.]]])
    """
    more = (kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, divisor_override)
    return F.avg_pool2d(_quantized("avg_pool2d", input), *more)


def avg_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: Any = None) -> Tensor:  # fmt: skip
    """Return nn.functional.avg_pool3d of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor.
        kernel_size: of the window, a number or one for each dimension.
        stride: the step of the window; default: its size.
        padding: zeros added at both ends of each dimension.
        ceil_mode: if True, round sizes up.
        count_include_pad: if True, count padding in the mean.
        divisor_override: what sums are divided by instead of their number.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 2, 2), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.avg_pool3d(x, 2).dequantize()
    tensor([[[[1.]]]])
    """
    more = (kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, divisor_override)
    return F.avg_pool3d(_quantized("avg_pool3d", input), *more)


def max_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """Return nn.functional.max_pool1d of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor.
        kernel_size: of the window, a number or one for each dimension.
        stride: the step of the window; default: its size.
        padding: how far windows reach over both ends of each dimension.
        dilation: the step between the elements of a window.
        ceil_mode: if True, round sizes up.
        return_indices: if True, also return where the maxima were.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[1.0, 3.0]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.max_pool1d(x, 2).dequantize()
    tensor([[3.]])
    """
    return F.max_pool1d(_quantized("max_pool1d", input), kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | Any:  # fmt: skip
    """Return nn.functional.max_pool2d of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor.
        kernel_size: of the window, a number or one for each dimension.
        stride: the step of the window; default: its size.
        padding: how far windows reach over both ends of each dimension.
        dilation: the step between the elements of a window.
        ceil_mode: if True, round sizes up.
        return_indices: if True, also return where the maxima were.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.max_pool2d(x, 2).dequantize()
    tensor([[[3.]]])
    """
    return F.max_pool2d(_quantized("max_pool2d", input), kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _prepared(input, weight, dtype):
    if dtype is not facula.quint8 or input.dtype is not facula.quint8:
        raise NotImplementedError(f"quantized.conv: only torch.quint8 is supported for activations, got {dtype}")
    return weight


def _conv(dims, input, weight, bias, stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype):
    """Compute `conv1d` to `conv3d`, for 1 to 3 dims."""
    weight = _prepared(_quantized(f"conv{dims}d", input), weight, dtype)
    places = tuple(tuple(v) if isinstance(v, (list, tuple)) else (v,) * dims for v in (stride, padding, dilation))
    return _products.conv(input, weight, bias, *places, groups, scale, zero_point, padding_mode=padding_mode)


def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, padding_mode: str = "zeros",
           scale: float = 1.0, zero_point: int = 0, dtype: facula.dtype = facula.quint8) -> Tensor:  # fmt: skip
    """Return nn.functional.conv1d of a quantized tensor and a quantized weight, (N, C_out, L_out).

    Args:
        input: the values, of quint8, (N, C, L).
        weight: the weight, of qint8, (C_out, C / groups, ...).
        bias: the bias, of float32, (C_out,), or None.
        stride, padding, dilation, groups: those of nn.functional.conv1d; padding is given in numbers.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        scale, zero_point: those of the result.
        dtype: the dtype of the result, quint8.

    Errors: ValueError for an input that is not quantized; NotImplementedError for another dtype.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 2), 1.0, 0, torch.quint8)
    >>> weight = torch.quantize_per_tensor(torch.ones(1, 1, 2), 1.0, 0, torch.qint8)
    >>> torch.ao.nn.quantized.functional.conv1d(x, weight, None).dequantize().item() == 2**1
    True
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, padding_mode: str = "zeros",
           scale: float = 1.0, zero_point: int = 0, dtype: facula.dtype = facula.quint8) -> Tensor:  # fmt: skip
    """Return nn.functional.conv2d of a quantized tensor and a quantized weight, (N, C_out, H_out, W_out).

    Args:
        input: the values, of quint8, (N, C, H, W).
        weight: the weight, of qint8, (C_out, C / groups, ...).
        bias: the bias, of float32, (C_out,), or None.
        stride, padding, dilation, groups: those of nn.functional.conv2d; padding is given in numbers.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        scale, zero_point: those of the result.
        dtype: the dtype of the result, quint8.

    Errors: ValueError for an input that is not quantized; NotImplementedError for another dtype.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 2, 2), 1.0, 0, torch.quint8)
    >>> weight = torch.quantize_per_tensor(torch.ones(1, 1, 2, 2), 1.0, 0, torch.qint8)
    >>> torch.ao.nn.quantized.functional.conv2d(x, weight, None).dequantize().item() == 2**2
    True
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)


def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, padding_mode: str = "zeros",
           scale: float = 1.0, zero_point: int = 0, dtype: facula.dtype = facula.quint8) -> Tensor:  # fmt: skip
    """Return nn.functional.conv3d of a quantized tensor and a quantized weight, (N, C_out, D_out, H_out, W_out).

    Args:
        input: the values, of quint8, (N, C, D, H, W).
        weight: the weight, of qint8, (C_out, C / groups, ...).
        bias: the bias, of float32, (C_out,), or None.
        stride, padding, dilation, groups: those of nn.functional.conv3d; padding is given in numbers.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        scale, zero_point: those of the result.
        dtype: the dtype of the result, quint8.

    Errors: ValueError for an input that is not quantized; NotImplementedError for another dtype.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 2, 2, 2), 1.0, 0, torch.quint8)
    >>> weight = torch.quantize_per_tensor(torch.ones(1, 1, 2, 2, 2), 1.0, 0, torch.qint8)
    >>> torch.ao.nn.quantized.functional.conv3d(x, weight, None).dequantize().item() == 2**3
    True
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, scale: float | None = None,
           zero_point: int | None = None) -> Any:  # fmt: skip
    """Return ``input @ weight.T + bias`` of a quantized tensor and a weight of qint8.

    Args:
        input: a quantized tensor, (..., in_features).
        weight: (out_features, in_features).
        bias: of float32, or None.
        scale, zero_point: of the result; default: those of the input.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 2), 1.0, 0, torch.quint8)
    >>> weight = torch.quantize_per_tensor(torch.ones(1, 2), 1.0, 0, torch.qint8)
    >>> torch.ao.nn.quantized.functional.linear(x, weight).dequantize()
    tensor([[2.]])
    """
    scale = _quantized("linear", input).q_scale() if scale is None else scale
    return _products.linear(input, weight, bias, scale, input.q_zero_point() if zero_point is None else zero_point)


def interpolate(input: Tensor, size: Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
                mode: str = "nearest", align_corners: bool | None = None) -> Any:  # fmt: skip
    """Return nn.functional.interpolate of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor, (N, C, ...).
        size: the new sizes, a number or one for each spatial dimension; or
        scale_factor: the factor of each.
        mode: 'nearest', 'bilinear' or another one of nn.functional.interpolate.
        align_corners: if True, let the centers of the corner elements of input and output coincide.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[[[1.0, 3.0]]]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.interpolate(x, size=(1, 4)).dequantize()
    tensor([[[[1., 1., 3., 3.]]]])
    """
    return F.interpolate(_quantized("interpolate", input), size, scale_factor, mode, align_corners)


def upsample(input: Tensor, size: Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
             mode: str = "nearest", align_corners: bool | None = None) -> Any:  # fmt: skip
    """Return the same as `interpolate`.

    Args:
        input, size, scale_factor, mode, align_corners: of `interpolate`.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[[[1.0, 3.0]]]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.upsample(x, size=(1, 4)).dequantize()
    tensor([[[[1., 1., 3., 3.]]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: Tensor, size: Sequence[int] | None = None,
                      scale_factor: float | Sequence[float] | None = None) -> Any:  # fmt: skip
    """Return `interpolate` with mode='bilinear' and align_corners=True.

    Args:
        input, size, scale_factor: of `interpolate`.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[[[1.0, 3.0]]]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.upsample_bilinear(x, size=(1, 3)).dequantize()
    tensor([[[[1., 2., 3.]]]])
    """
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input: Tensor, size: Sequence[int] | None = None,
                     scale_factor: float | Sequence[float] | None = None) -> Any:  # fmt: skip
    """Return `interpolate` with mode='nearest'.

    Args:
        input, size, scale_factor: of `interpolate`.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([[[[1.0, 3.0]]]]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.upsample_nearest(x, scale_factor=(1, 2)).dequantize()
    tensor([[[[1., 1., 3., 3.]]]])
    """
    return interpolate(input, size, scale_factor, mode="nearest")


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return nn.functional.hardtanh of a quantized tensor: limited to [min_val, max_val], on its levels.

    Args:
        input: a quantized tensor.
        min_val, max_val: the limits.
        inplace: if True, change the input itself and return it.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-3.0, 0.0, 3.0]), 1.0, 3, torch.quint8)
    >>> torch.ao.nn.quantized.functional.hardtanh(x).dequantize()
    tensor([-1.,  0.,  1.])
    """
    return F.hardtanh(_quantized("hardtanh", input), min_val, max_val, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``relu6(x + 3) / 6`` of a quantized tensor, on levels from 0 to 1.

    Args:
        input: a quantized tensor.
        inplace: accepted, and without effect.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-3.0, 0.0, 3.0]), 1.0, 3, torch.quint8)
    >>> torch.ao.nn.quantized.functional.hardsigmoid(x).dequantize()
    tensor([0.0000, 0.5000, 0.9961])
    """
    return F.hardsigmoid(_quantized("hardsigmoid", input))


def hardswish(input: Tensor, scale: float, zero_point: int) -> Any:
    """Return ``x * relu6(x + 3) / 6`` of a quantized tensor.

    Args:
        input: a quantized tensor.
        scale, zero_point: of the result.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([0.0, 3.0]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.hardswish(x, 0.5, 0).dequantize()
    tensor([0., 3.])
    """
    return requantized(F.hardswish, _quantized("hardswish", input), scale, zero_point)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """Return ``x`` where it is positive, else ``alpha * (exp(x) - 1)``, of a quantized tensor.

    Args:
        input: a quantized tensor.
        scale, zero_point: of the result.
        alpha: of the formula.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 2.0]), 1.0, 1, torch.quint8)
    >>> torch.ao.nn.quantized.functional.elu(x, 0.5, 2).dequantize()
    tensor([-0.5000,  2.0000])
    """
    return requantized(lambda x: F.elu(x, alpha), _quantized("elu", input), scale, zero_point)


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """Return ``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``, of a quantized tensor.

    Args:
        input: a quantized tensor.
        scale, zero_point: of the result.
        alpha: of the formula.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 2.0]), 1.0, 1, torch.quint8)
    >>> torch.ao.nn.quantized.functional.celu(x, 0.5, 4, alpha=2.0).dequantize()
    tensor([-1.,  2.])
    """
    return requantized(lambda x: F.celu(x, alpha), _quantized("celu", input), scale, zero_point)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False, scale: float | None = None,
               zero_point: int | None = None) -> Any:  # fmt: skip
    """Return ``x`` where it is positive, else ``negative_slope * x``, of a quantized tensor.

    Args:
        input: a quantized tensor.
        negative_slope: of the formula.
        inplace: if True, change the input itself, where no levels are given.
        scale, zero_point: of the result; default: those of the input.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([-4.0, 2.0]), 1.0, 4, torch.quint8)
    >>> torch.ao.nn.quantized.functional.leaky_relu(x, 0.5).dequantize()
    tensor([-2.,  2.])
    """
    if scale is None or zero_point is None:
        return F.leaky_relu(_quantized("leaky_relu", input), negative_slope, inplace)
    return requantized(lambda x: F.leaky_relu(x, negative_slope), _quantized("leaky_relu", input), scale, zero_point)


def threshold(input: Tensor, threshold: Any, value: Any) -> Tensor:
    """Return ``x`` where it is greater than the threshold, else ``value``, of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor.
        threshold: a number.
        value: a number.

    Errors: ValueError for an input that is not quantized, or no threshold or value.

    >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 5.0]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.threshold(x, 2.0, 0.0).dequantize()
    tensor([0., 5.])
    """
    if threshold is None or value is None:
        raise ValueError(f"threshold: expected a threshold and a value, got {threshold} and {value}")
    return F.threshold(_quantized("threshold", input), threshold, value)


def clamp(input: Tensor, min_: float, max_: float) -> Tensor:
    """Return ``min(max(x, min_), max_)`` of a quantized tensor, on its levels.

    Args:
        input: a quantized tensor.
        min_, max_: the limits.

    Errors: ValueError for an input that is not quantized.

    >>> x = torch.quantize_per_tensor(torch.tensor([1.0, 5.0]), 1.0, 0, torch.quint8)
    >>> torch.ao.nn.quantized.functional.clamp(x, 2.0, 4.0).dequantize()
    tensor([2., 4.])
    """
    return facula.clamp(_quantized("clamp", input), min_, max_)
