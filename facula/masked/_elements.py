"""Select the elements that the functions of `masked` use, their dtype, and the values that replace the others."""

from __future__ import annotations

import math

import facula as _f

_INTEGER_LIMITS = {
    _f.uint8: (0, 255),
    _f.int8: (-(2**7), 2**7 - 1),
    _f.int16: (-(2**15), 2**15 - 1),
    _f.int32: (-(2**31), 2**31 - 1),
    _f.int64: (-(2**63), 2**63 - 1),
    _f.bool: (False, True),
}
_FLOATS = (_f.float16, _f.bfloat16, _f.float32, _f.float64)
_COMPLEX = (_f.complex64, _f.complex128)


def _lowest(dtype):
    return _INTEGER_LIMITS[dtype][0] if dtype in _INTEGER_LIMITS else -math.inf


def _highest(dtype):
    return _INTEGER_LIMITS[dtype][1] if dtype in _INTEGER_LIMITS else math.inf


def _sum_dtype(dtype):
    return _f.int64 if dtype in _INTEGER_LIMITS else dtype


def _dims(input, dim):
    """Return every dimension when `dim` is None or empty."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(input.dim()))
    return tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)


def _shown(op, input, mask):
    """Return the mask, as bool and in the shape of `input`."""
    if mask.dim() > input.dim():
        raise IndexError(
            f"{op}: mask broadcasts to the shape {tuple(input.shape)} of the input, got shape {tuple(mask.shape)}"
        )
    return (mask if mask.layout == _f.strided else mask.to_dense()).bool().expand(input.shape)


def _filled(op, input, mask, value):
    """Return `input` with `value` wherever the mask is False."""
    if mask is None:
        return input
    neutral = _f.full((), value, dtype=input.dtype)
    return _f.where(_shown(op, input, mask), input, neutral)


def _count(input, mask, dims, keepdim):
    ones = _f.ones(tuple(input.shape), dtype=_f.int64)
    ones = ones if mask is None else _f.where(_shown("count", input, mask), ones, 0)
    return _f.sum(ones, dims, keepdim)


def _require_inexact(op, dtype):
    if dtype not in _FLOATS and dtype not in _COMPLEX:
        raise ValueError(f"{op}: a floating-point or complex dtype, got {dtype}")
