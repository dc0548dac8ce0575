"""Observe the range of a tensor and round the tensor to quantization levels in one call, as quantization-aware training
does at every step.
"""

from __future__ import annotations

import math

import facula
from facula import Tensor

__all__ = ["fused_moving_avg_obs_fake_quant"]

_NAME = "fused_moving_avg_obs_fake_quant"
_LEAST_SCALE = 6.1e-5  # smaller ones would leave the range of float16


def _put(target, values):
    if target.shape != values.shape:
        target.resize_(values.shape)
    target.copy_(values)


def _averaged(running, new, empty, share):
    """Return the moving average; the new values where there is none yet."""
    if running.numel() == 0:
        return new
    return facula.where(running == empty, new, running + share * (new - running))


def _scale_and_zero(low, high, quant_min, quant_max, symmetric):
    """Return the scale and the zero point of one channel; `low` and `high` are numbers that float32 holds."""
    both = low < 0 < high
    if both and symmetric:
        least, most = -((quant_max - quant_min) // 2 + 1), (quant_max - quant_min) // 2
        widest = max(abs(low / least), abs(high / most))
        low, high = widest * least, widest * most
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / (quant_max - quant_min)
    if scale < 1.0 / 3.4028234663852886e38:  # of all zeros, or its reciprocal is no float32
        scale = 0.1
    if scale < _LEAST_SCALE:
        larger = _LEAST_SCALE / scale
        low, high, scale = low * larger, high * larger, _LEAST_SCALE
    if both and symmetric:
        zero = (quant_min + quant_max) / 2
    else:
        from_low, from_high = quant_min - low / scale, quant_max - high / scale
        low_error, high_error = abs(quant_min) - abs(low / scale), abs(quant_max) - abs(high / scale)
        zero = from_low if low_error < high_error else from_high
    return scale, round(min(max(zero, quant_min), quant_max))


def fused_moving_avg_obs_fake_quant(input: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor,
                                    running_max: Tensor, scale: Tensor, zero_point: Tensor, averaging_const: float,
                                    quant_min: int, quant_max: int, ch_axis: int, per_row_fake_quant: bool = False,
                                    symmetric_quant: bool = False) -> Tensor:  # fmt: skip
    """Update the moving averages of the least and the greatest value, the scale and zero point, and round to levels.

    Args:
        input: a tensor of floating point, any shape.
        observer_on, fake_quant_on: tensors of one element: whether to update, whether to round.
        running_min, running_max, scale, zero_point: written where observer_on is 1. For one range: infinities at first; for
            one of every channel: empty at first.
        averaging_const: how much of the new values counts.
        quant_min, quant_max: the least and the greatest level.
        ch_axis: the dimension of channels, where per_row_fake_quant.
        per_row_fake_quant: whether every channel has its own scale.
        symmetric_quant: whether the middle level stands for zero.

    Returns: a tensor like input; the gradient goes through where a value lies within the levels.

    Errors: RuntimeError for a dimension that input has not, and quant_min >= quant_max; TypeError for an input that is no
    floating-point tensor.

    Example::

        >>> one, low, high = torch.ones(1, dtype=torch.int64), torch.tensor(torch.inf), torch.tensor(-torch.inf)
        >>> scale, zero_point = torch.ones(1), torch.zeros(1, dtype=torch.int32)
        >>> x = torch.tensor([0.0, 1.3, 3.0])
        >>> torch.fused_moving_avg_obs_fake_quant(x, one, one, low, high, scale, zero_point, 0.01, 0, 15, -1)
        tensor([0.0000, 1.2000, 3.0000])
    """
    if not isinstance(input, Tensor) or not input.is_floating_point():
        kind = input.dtype if isinstance(input, Tensor) else type(input).__name__
        raise TypeError(f"{_NAME}: expected a tensor of floating point, got {kind}")
    if quant_min >= quant_max:
        raise RuntimeError(f"{_NAME}: expected quant_min < quant_max, got {quant_min} and {quant_max}")
    if per_row_fake_quant and not -input.dim() <= ch_axis < input.dim():
        raise RuntimeError(f"{_NAME}: expected ch_axis to be a dimension of the input's {input.dim()}, got {ch_axis}")
    if observer_on.item():
        x = input.detach()
        new = x.transpose(0, ch_axis).flatten(1).aminmax(dim=1) if per_row_fake_quant else x.aminmax()
        ranges = []
        for running, seen, empty in zip((running_min, running_max), new, (math.inf, -math.inf)):
            _put(running, _averaged(running, seen.to(running.dtype), empty, averaging_const))
            ranges.append(running.reshape(-1).tolist())
        found = [_scale_and_zero(*pair, quant_min, quant_max, symmetric_quant) for pair in zip(*ranges)]
        _put(scale, facula.tensor([one for one, _ in found], dtype=scale.dtype))
        _put(zero_point, facula.tensor([zero for _, zero in found], dtype=zero_point.dtype))
    if not fake_quant_on.item():
        return input.clone()
    if per_row_fake_quant:
        return facula.fake_quantize_per_channel_affine(input, scale, zero_point, ch_axis, quant_min, quant_max)
    return facula.fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)
