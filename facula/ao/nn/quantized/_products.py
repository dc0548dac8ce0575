"""Compute products of quantized tensors as integer sums, which are then converted to the scale and zero point of the
output.

Levels of eight bits are summed exactly, in int32. Transposed convolutions, and weights whose zero is not level 0, are summed
as float32 numbers, which hold levels and, up to 500 of their products, the sums exactly; beyond that sums are rounded to 24
digits, far below one step of the output.
"""

from __future__ import annotations

import facula
from facula import _C
from facula._tensor.quantized.schemes import PerTensor, limits
from facula._tensor.quantized.tensor import QuantizedTensor, levels_of, wrap
from facula.nn import functional as F


def _checked(name, input, weight):
    if not isinstance(input, QuantizedTensor) or not isinstance(input._scheme, PerTensor):
        kind = input.dtype if isinstance(input, facula.Tensor) else type(input).__name__
        raise RuntimeError(f"{name}: expected an input quantized per tensor, got {kind}")
    if not isinstance(weight, QuantizedTensor) or weight.dtype is not _C.qint8:
        kind = weight.dtype if isinstance(weight, facula.Tensor) else type(weight).__name__
        raise RuntimeError(f"{name}: expected a weight of qint8, got {kind}")
    return input._scheme


def weight_rows(weight):
    """Return the levels of a weight, their scales, float32, one or one for each row, and their levels of zero, None where all
    are 0; kept with the weight."""
    if weight._rows is None:
        scheme = weight._scheme
        if isinstance(scheme, PerTensor):
            scales, zeros = _C.tensor([scheme.scale], dtype=_C.float32), _C.tensor([scheme.zero_point], dtype=_C.int64)
        elif scheme.axis != 0:
            raise RuntimeError(f"weight: expected scales along dimension 0, got axis {scheme.axis}")
        else:
            scales, zeros = scheme.scales.float(), scheme.zero_points.long()
        weight._rows = levels_of(weight), scales, zeros if zeros.any() else None
    return weight._rows


def _row_sums(weight):
    """Return the sums of the levels of each row, int32, kept until a level changes."""
    levels = weight_rows(weight)[0]
    version, sums = weight._row_sums
    if version != levels._version:
        sums = levels.flatten(1).sum(1, dtype=_C.int32)
        weight._row_sums = levels._version, sums
    return sums


def _finished(sums, scales, bias, scheme, relu, at):
    """Turn sums in units of `scales` into levels of the output; `at` is the dimension of channels."""

    def along(x):
        return x.view([-1 if i == at else 1 for i in range(sums.dim())]) if x.numel() > 1 else x.view(())

    level = sums.float()  # another tensor where sums are whole numbers
    if bias is not None:
        # The bias is added in the unit of the sums, before one scale turns both into levels.
        level.add_(along(bias.detach().float() / scales))
    low, high = limits("quantized", scheme.dtype)
    level.mul_(along(scales * (1.0 / scheme.scale))).round_().add_(scheme.zero_point)
    return wrap(level.clamp_(scheme.zero_point if relu else low, high).to(scheme.dtype._levels), scheme)


def linear(input, weight, bias, scale, zero_point, relu=False):
    """Return a quantized input (..., k) times the transpose of a weight (n, k) of qint8, plus a bias of float32, quantized
    again.

    Args:
        scale, zero_point: of the result, whose dtype is that of the input.
        relu: if True, set negative values to zero.

    Errors: RuntimeError for other dtypes or shapes.
    """
    given = _checked("quantized.linear", input, weight)
    if input.dtype is _C.qint32:
        raise RuntimeError(f"quantized.linear: expected an input of quint8 or qint8, got {input.dtype}")
    x, scheme = levels_of(input), PerTensor(input.dtype, float(scale), int(zero_point))
    w, scales, zeros = weight_rows(weight)
    scales = scales * given.scale
    if zeros is None:
        # Clamping at the level of zero is ReLU.
        least = scheme.zero_point if relu else limits("quantized", scheme.dtype)[0]
        added = None if bias is None else bias.detach().float()
        to = scheme.scale, scheme.zero_point, least
        return wrap(_C._static_int8_linear(x, given.zero_point, w, scales, added, *to), scheme)
    sums = _C._int8_linear(x, w)
    if given.zero_point:
        # sum((x - z) w) = sum(x w) - z sum(w), so the levels are multiplied as they are, in eight bits.
        sums.sub_(_row_sums(weight), alpha=given.zero_point)
    rest = x.sum(-1, keepdim=True, dtype=_C.int32) - given.zero_point * x.size(-1)
    sums.sub_(rest * zeros.int())
    return _finished(sums, scales, bias, scheme, relu, sums.dim() - 1)


def _sides(padding):
    return [side for p in reversed(padding) for side in (p, p)]


def _sums(x, weight, zero_point, stride, padding, dilation, groups, padding_mode):
    """Return the convolution of levels less their zero, int32."""
    if any(padding):
        if padding_mode == "zeros":
            # The level of zero, which need not be 0.
            x = F.pad(x, _sides(padding), value=zero_point)
        else:  # these know floating-point numbers, which hold levels
            x = F.pad(x.float(), _sides(padding), mode=padding_mode).to(x.dtype)
    sums = _C._int8_conv(x, levels_of(weight), stride, dilation, groups)
    if not zero_point:
        return sums
    return sums.sub_(_row_sums(weight).view([-1, *[1] * (weight.dim() - 2)]), alpha=zero_point)


def conv(input, weight, bias, stride, padding, dilation, groups, scale, zero_point, relu=False, padding_mode="zeros",
         transposed=False, output_padding=0):  # fmt: skip
    """Return a convolution of a quantized input (N, C, ...) with a weight of qint8, plus a bias of float32, quantized again.

    Args:
        stride, padding, dilation, groups, padding_mode, output_padding: as in nn.functional.conv1d to conv_transpose3d.
        scale, zero_point: of the result, whose dtype is that of the input.
        relu: if True, set negative values to zero.

    Errors: RuntimeError for other dtypes or shapes.
    """
    dims = weight.dim() - 2
    name = f"quantized.conv{'_transpose' if transposed else ''}{dims}d"
    given = _checked(name, input, weight)
    if input.dim() != weight.dim():
        raise RuntimeError(f"{name}: expected an input of {weight.dim()} dimensions, got shape {tuple(input.shape)}")
    scheme = PerTensor(input.dtype, float(scale), int(zero_point))
    plain = not transposed and input.dtype is not _C.qint32
    if plain and weight_rows(weight)[2] is None:
        sums = _sums(levels_of(input), weight, given.zero_point, stride, padding, dilation, groups, padding_mode)
        return _finished(sums, weight_rows(weight)[1] * given.scale, bias, scheme, relu, 1)
    x = levels_of(input).float() - given.zero_point  # zero is 0, as padding fills
    if transposed:
        if not isinstance(weight._scheme, PerTensor):
            raise RuntimeError(f"{name}: expected a weight quantized per tensor, got {weight.qscheme()}")
        scales = _C.tensor([weight._scheme.scale], dtype=_C.float32)
        w = levels_of(weight).float() - weight._scheme.zero_point
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        sums = function(x, w, None, stride, padding, output_padding, groups, dilation)
    else:
        w, scales, zeros = weight_rows(weight)
        w = w.float() - (0 if zeros is None else zeros.view(-1, *[1] * (weight.dim() - 1)))
        if padding_mode != "zeros":
            x, padding = F.pad(x, _sides(padding), mode=padding_mode), 0
        sums = (F.conv1d, F.conv2d, F.conv3d)[dims - 1](x, w, None, stride, padding, dilation, groups)
    return _finished(sums, scales * given.scale, bias, scheme, relu, 1)
