"""Make quantized tensors and read their scale and zero point. `facula._tensor.quantized` defines their class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._C import _int_mm as _int_mm
from facula._C import _scaled_mm as _scaled_mm
from facula._C import _weight_int8pack_mm as _weight_int8pack_mm
from facula._tensor.quantized.schemes import (
    LIMITS,
    PerChannel,
    PerTensor,
    limits,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme,
)
from facula._tensor.quantized.tensor import QuantizedTensor, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor

__all__ = [
    "dequantize", "int_repr", "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points",
    "q_scale", "q_zero_point", "qscheme", "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic",
]  # fmt: skip


def _floats(name, input):
    if not isinstance(input, facula.Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(input).__name__}")
    if isinstance(input, QuantizedTensor) or input.dtype is not _C.float32:
        raise RuntimeError(f"{name}: Quantize only works on Float Tensor, got {input.dtype}")
    return input.detach()


def _zero_point(name, zero_point, dtype):
    low, high = limits(name, dtype)
    if not low <= zero_point <= high:
        where = "below lower" if zero_point < low else "above upper"
        raise RuntimeError(f"{name}: zero_point is {where} bound of {dtype}, {low} to {high}, got {zero_point}")
    return zero_point


def _scale(name, scale):
    if not math.isfinite(scale):
        raise RuntimeError(f"{name}: expected a finite scale, got {scale}")
    return scale


def quantize_per_tensor(input: Sequence[Tensor] | Tensor, scale: Tensor | float, zero_point: Tensor | int,
                        dtype: facula.dtype) -> Tensor | Any:  # fmt: skip
    """Return the tensor with its values rounded to levels: clamp(round(input / scale) + zero_point).

    Args:
        input: a tensor of float32, any shape; or a list of tensors.
        scale: the distance between neighboring values, a number or a tensor of one element; for a list, one for each.
        zero_point: the level that stands for zero, as scale.
        dtype: quint8 (levels 0 to 255), qint8 (-128 to 127) or qint32.

    Returns: the quantized tensor, or a tuple of them.

    Errors: RuntimeError for other dtypes and zero points that are no level.

    Example::

        >>> torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 1.26]), 0.1, 10, torch.quint8).int_repr()
        tensor([ 0, 10, 23], dtype=torch.uint8)
    """
    name = "quantize_per_tensor"
    if isinstance(input, (list, tuple)):
        return tuple(quantize_per_tensor(x, s, z, dtype) for x, s, z in zip(input, scale, zero_point, strict=True))
    values = _floats(name, input)
    scheme = PerTensor(dtype, _scale(name, float(scale)), _zero_point(name, int(zero_point), dtype))
    return wrap(scheme.levels(values), scheme)


def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: facula.dtype) -> Tensor:
    """Return what `quantize_per_tensor` gives, with a scale and a zero point for every index along a dimension.

    Args:
        input: a tensor of float32, any shape.
        scales, zero_points: tensors of `input.size(axis)` elements; zero points of floating point are used as such.
        axis: the dimension.
        dtype: quint8, qint8 or qint32.

    Returns: the quantized tensor.

    Errors: RuntimeError for other dtypes or shapes, IndexError for an axis that is not there.

    Example::

        >>> x = torch.quantize_per_channel(torch.ones(2, 2), torch.tensor([0.1, 0.5]), torch.tensor([0, 5]), 0, torch.quint8)
        >>> x.int_repr()
        tensor([[10, 10],
                [ 7,  7]], dtype=torch.uint8)
    """
    name = "quantize_per_channel"
    values = _floats(name, input)
    low, high = limits(name, dtype)
    if not isinstance(axis, int) or not -values.dim() <= axis < values.dim():
        raise IndexError(f"{name}: axis is one of the {values.dim()} dimensions, got {axis}")
    axis %= values.dim()
    for what, given in (("scales", scales), ("zero_points", zero_points)):
        if not isinstance(given, facula.Tensor) or given.dim() != 1 or given.numel() != values.size(axis):
            shape = tuple(given.shape) if isinstance(given, facula.Tensor) else type(given).__name__
            raise RuntimeError(f"{name}: {what} is a tensor of {values.size(axis)} elements, got {shape}")
    scales = scales.detach().double()
    if not scales.isfinite().all():
        raise RuntimeError(f"{name}: expected finite scales, got {scales.tolist()}")
    if zero_points.is_floating_point():
        scheme = PerChannel(dtype, scales.float(), zero_points.detach().float(), axis, per_channel_affine_float_qparams)
    else:
        zero_points = zero_points.detach().long()
        if zero_points.numel() and not low <= zero_points.min().item() <= zero_points.max().item() <= high:
            raise RuntimeError(f"{name}: zero points of {dtype} are from {low} to {high}, got {zero_points.tolist()}")
        scheme = PerChannel(dtype, scales, zero_points, axis)
    return wrap(scheme.levels(values), scheme)


def choose_levels(name: str, low: float, high: float, dtype: facula.dtype, reduce_range: bool = False) -> tuple[float, int]:
    """Return the scale and the zero point that spread the levels of a dtype from `low` to `high` and hit zero."""
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{name}: expected finite values, got some from {low} to {high}")
    least, most = LIMITS[dtype]
    if reduce_range:
        least, most = least // 2, most // 2
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / (most - least)
    # PyTorch's scale for a range without width.
    if scale == 0.0 or math.isinf(1.0 / scale):
        scale = 0.1
    # PyTorch's least scale: kernels multiply by its reciprocal, which must not become too large.
    smallest = 6.1e-5
    if scale < smallest:
        low, high, scale = low * smallest / scale, high * smallest / scale, smallest
    from_low, from_high = least - low / scale, most - high / scale
    # Of the zero points that fit either end, the one with the smaller rounding error.
    zero = from_low if abs(least) - abs(low / scale) < abs(most) - abs(high / scale) else from_high
    scale = _C.as_tensor(scale, dtype=_C.float32).item()
    return scale, int(min(max(round(zero), least), most))


def quantize_per_tensor_dynamic(input: Tensor, dtype: facula.dtype, reduce_range: bool) -> Tensor:
    """Return `quantize_per_tensor` with levels from the least to the greatest value of `input`.

    Args:
        input: a tensor of float32, any shape.
        dtype: quint8 or qint8.
        reduce_range: whether half of the levels are used.

    Returns: the quantized tensor.

    Errors: RuntimeError for other dtypes, and values that are not finite.

    >>> torch.quantize_per_tensor_dynamic(torch.tensor([-1.0, 0.0, 1.0]), torch.quint8, False).int_repr()
    tensor([  1, 128, 255], dtype=torch.uint8)
    """
    name = "quantize_per_tensor_dynamic"
    values = _floats(name, input)
    limits(name, dtype)
    if dtype is _C.qint32:
        raise RuntimeError(f"{name}: expected torch.quint8 or torch.qint8, got {dtype}")
    low, high = (values.min().item(), values.max().item()) if values.numel() else (0.0, 0.0)
    scale, zero_point = choose_levels(name, low, high, dtype, bool(reduce_range))
    return quantize_per_tensor(values, scale, zero_point, dtype)


def _empty_affine_quantized(shape, *, scale=1.0, zero_point=0, dtype, device=None):
    """Return a quantized tensor without values of its own: `torch._empty_affine_quantized`."""
    low, _ = limits("_empty_affine_quantized", dtype)
    scheme = PerTensor(dtype, float(scale), _zero_point("_empty_affine_quantized", int(zero_point), dtype))
    return wrap(facula.full(tuple(shape), max(low, -1), dtype=dtype._levels, device=device), scheme)


def _make_per_tensor_quantized_tensor(levels, scale, zero_point):
    """Return a quantized tensor of a copy of these levels: `torch._make_per_tensor_quantized_tensor`."""
    scheme = PerTensor(_dtype_of("_make_per_tensor_quantized_tensor", levels), float(scale), int(zero_point))
    return wrap(levels.detach().clone(), scheme)


def _make_per_channel_quantized_tensor(levels, scales, zero_points, axis):
    """Return a quantized tensor of a copy of these levels: `torch._make_per_channel_quantized_tensor`."""
    dtype = _dtype_of("_make_per_channel_quantized_tensor", levels)
    if scales.numel() != levels.size(axis) or zero_points.numel() != levels.size(axis):
        raise RuntimeError(
            f"_make_per_channel_quantized_tensor: expected {levels.size(axis)} scales and zero points, got {scales.numel()} "
            f"and {zero_points.numel()}"
        )
    return wrap(levels.detach().clone(), PerChannel(dtype, scales.double(), zero_points.long(), axis % levels.dim()))


def _dtype_of(name, levels):
    for dtype in LIMITS:
        if dtype._levels is levels.dtype:
            return dtype
    raise RuntimeError(f"{name}: expected levels of uint8, int8 or int32, got {levels.dtype}")


def dequantize(tensor: Sequence[Tensor] | Tensor) -> Tensor | Any:
    """Return the values of a quantized tensor in float32; of a list or tuple of tensors, a tuple of them.

    Args:
        tensor: the quantized tensor, or several.

    Returns: a tensor of the shape of the given one, or a tuple of them.

    Errors: TypeError for what is no tensor. A tensor that is not quantized is converted to float32.

    Example::

        >>> torch.dequantize(torch.quantize_per_tensor(torch.tensor([0.26]), 0.5, 0, torch.qint8))
        tensor([0.5000])
    """
    if isinstance(tensor, (list, tuple)):
        return tuple(dequantize(x) for x in tensor)
    if not isinstance(tensor, facula.Tensor):
        raise TypeError(f"dequantize: expected a tensor, got {type(tensor).__name__}")
    return tensor.dequantize()


_PER_TENSOR = "torch.quantize_per_tensor(torch.tensor([0.5, 1.0]), 0.5, 10, torch.quint8)"
_PER_CHANNEL = "torch.quantize_per_channel(torch.ones(2), torch.tensor([0.5, 1.0]), torch.tensor([0, 5]), 0, torch.quint8)"


def _method(name, doc, made, shown):
    def function(input: Tensor):
        if not isinstance(input, QuantizedTensor):
            kind = input.dtype if isinstance(input, facula.Tensor) else type(input).__name__
            raise NotImplementedError(f"{name}: expected a quantized tensor, got {kind}")
        return getattr(input, name)()

    function.__name__ = function.__qualname__ = name
    about = "Args:\n    input: the quantized tensor.\n\nErrors: NotImplementedError for a tensor that is not quantized."
    function.__doc__ = f"Return {doc}\n\n{about}\n\n>>> x = {made}\n>>> torch.{name}(x)\n{shown}\n"
    return function


int_repr: Callable[[Tensor], Tensor] = _method(
    "int_repr", "a copy of a quantized tensor's levels.", _PER_TENSOR, "tensor([11, 12], dtype=torch.uint8)",
)
q_scale: Callable[[Tensor], float] = _method("q_scale", "the scale of a tensor quantized per tensor.", _PER_TENSOR, "0.5")
q_zero_point: Callable[[Tensor], int] = _method(
    "q_zero_point", "the level of zero of a tensor quantized per tensor.", _PER_TENSOR, "10",
)
q_per_channel_scales: Callable[[Tensor], Tensor] = _method(
    "q_per_channel_scales", "the scales of a tensor quantized per channel, float64.", _PER_CHANNEL,
    "tensor([0.5000, 1.0000], dtype=torch.float64)",
)  # fmt: skip
q_per_channel_zero_points: Callable[[Tensor], Tensor] = _method(
    "q_per_channel_zero_points", "the levels of zero of a tensor quantized per channel, int64.", _PER_CHANNEL, "tensor([0, 5])"
)
q_per_channel_axis: Callable[[Tensor], int] = _method(
    "q_per_channel_axis", "the dimension whose indices are channels.", _PER_CHANNEL, "0",
)

