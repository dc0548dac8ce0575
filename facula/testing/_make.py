"""`make_tensor`: random inputs for tests, of any dtype."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.types import Device


def make_tensor(
    *shape: Sequence[int] | int,
    dtype: facula.dtype,
    device: Device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: facula.memory_format | None = None,
) -> Tensor:
    """A tensor for a test, with uniform values in [low, high).

    Args:
        shape: sizes, one by one or as one sequence.
        dtype: the dtype, any.
        device: the device, such as "cpu".
        low: the lower bound; None for -9, for unsigned integers and bool 0.
        high: the upper bound; None for 9 for floating and complex dtypes, 10 for integers, 2 for bool. Both bounds are
            clipped to what the dtype holds.
        requires_grad: whether autograd records what is done with it.
        noncontiguous: whether it is every second element of a longer last dimension.
        exclude_zero: whether zeros become the dtype's smallest positive number.
        memory_format: the order of the elements in memory; not together with `noncontiguous`.

    Errors: ValueError for low >= high (a FutureWarning where both are one number of a floating or complex dtype), for NaN,
    for bounds that the dtype does not hold, for requires_grad of integers, and for noncontiguous with a memory_format.

    >>> x = torch.testing.make_tensor(2, 3, dtype=torch.int32, device="cpu", low=0, high=5)
    >>> x.shape, x.dtype, bool(((x >= 0) & (x < 5)).all())
    (torch.Size([2, 3]), torch.int32, True)
    """
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        (shape,) = shape
    shape = tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"make_tensor: `noncontiguous` and `memory_format` are mutually exclusive, got both, {memory_format}"
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"make_tensor: only floating and complex tensors require gradients, got {dtype}")
    low, high = _interval(dtype, low, high)
    wide = shape if not (noncontiguous and shape) else (*shape[:-1], 2 * shape[-1])
    result = _draw(wide, dtype, device, low, high)
    if wide != shape:
        result = result[..., ::2]
    if exclude_zero:
        result[result == 0] = facula.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
    if memory_format is not None:
        result = result.contiguous(memory_format=memory_format)
    return result.requires_grad_(requires_grad) if requires_grad else result


def _interval(dtype, low, high):
    if dtype is facula.bool:
        least, most, defaults = 0, 2, (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        info = facula.finfo(dtype)
        least, most, defaults = info.min, info.max, (-9, 9)
    else:
        info = facula.iinfo(dtype)
        least, most, defaults = info.min, info.max + 1, (-9, 10) if info.min < 0 else (0, 10)
    low, high = (d if v is None else v for v, d in zip((low, high), defaults))
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high)):
        raise ValueError(f"make_tensor: `low` and `high` cannot be NaN, got low={low}, high={high}")
    if low == high and (dtype.is_floating_point or dtype.is_complex):
        text = f"make_tensor: low below high; that both are {low} is an old form of torch.full"
        warnings.warn(text, FutureWarning, stacklevel=3)
    elif not low < high:
        raise ValueError(f"make_tensor: `low` must be less than `high`, got low={low}, high={high}")
    if high < least or low > most or (low == most and not dtype.is_floating_point and not dtype.is_complex):
        raise ValueError(f"make_tensor: {dtype} holds numbers from {least} to {most}, got low={low}, high={high}")
    return max(low, least), min(high, most)


def _draw(shape, dtype, device, low, high):
    if low == high:
        return facula.full(shape, complex(low, low) if dtype.is_complex else low, dtype=dtype, device=device)
    if dtype.is_complex:
        part = facula.float64 if dtype is facula.complex128 else facula.float32
        real, imag = (facula.empty(shape, dtype=part, device=device).uniform_(low, high) for _ in range(2))
        return facula.complex(real, imag).to(dtype)
    if dtype.is_floating_point:
        wide = dtype if dtype in (facula.float32, facula.float64) else facula.float32
        return facula.empty(shape, dtype=wide, device=device).uniform_(low, high).to(dtype)
    return facula.randint(math.ceil(low), math.ceil(high), shape, device=device).to(dtype)
