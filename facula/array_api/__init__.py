"""The namespace that `Tensor.__array_namespace__` gives: the Python Array API, version 2024.12.

A name is looked up here, then in `functions.array_api`, then in facula. What stands here has a name that PyTorch gives another
meaning or other arguments.
"""

from __future__ import annotations

import functools
import math
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import facula
from facula.functions import array_api as _array_api

from . import fft, linalg
from .linalg import matmul, tensordot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

    from facula import Tensor
    from facula.functions.array_api import UniqueAll, UniqueCounts, UniqueInverse
    from facula.types import Device

__all__ = ["fft", "linalg", "namespace"]
__array_api_version__ = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def namespace(api_version: str | None = None) -> ModuleType:
    """This module, if it follows `api_version`."""
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"__array_namespace__: api_version is one of {', '.join(_VERSIONS)}, got {api_version!r}")
    return sys.modules[__name__]


def __getattr__(name: str) -> Any:
    if name in _array_api.__all__:
        return getattr(_array_api, name)
    return getattr(facula, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_array_api.__all__, *dir(facula)})


# dtypes


def _dtype_of(type):
    return type.dtype if isinstance(type, facula.Tensor) else type


def finfo(type: Tensor | facula.dtype, /) -> SimpleNamespace:
    """Bits, eps, max, min, smallest_normal and (real) dtype of a floating-point dtype, or of a tensor's."""
    info = facula.finfo(_dtype_of(type))
    real = _dtype_of(type).to_real()
    return SimpleNamespace(
        bits=info.bits, eps=info.eps, max=info.max, min=info.min, smallest_normal=info.smallest_normal, dtype=real
    )


def iinfo(type: Tensor | facula.dtype, /) -> SimpleNamespace:
    """Bits, max, min and dtype of an integer dtype, or of a tensor's."""
    info = facula.iinfo(_dtype_of(type))
    return SimpleNamespace(bits=info.bits, max=info.max, min=info.min, dtype=_dtype_of(type))


def result_type(*arrays_and_dtypes: Any) -> facula.dtype:
    """The dtype that tensors, dtypes and Python numbers promote to together."""
    numbers = [a for a in arrays_and_dtypes if isinstance(a, (bool, int, float, complex))]
    dtypes = [_dtype_of(a) for a in arrays_and_dtypes if not isinstance(a, (bool, int, float, complex))]
    if not dtypes:
        raise ValueError(f"result_type: at least one tensor or dtype, got {arrays_and_dtypes}")
    common = functools.reduce(facula.promote_types, dtypes)
    for number in numbers:
        common = facula.result_type(facula.empty(1, dtype=common), number)
    return common


def can_cast(from_: Tensor | facula.dtype, to: facula.dtype, /) -> bool:
    """Whether a dtype, or a tensor's, promotes to another."""
    try:
        return facula.promote_types(_dtype_of(from_), to) == to
    except RuntimeError:  # uint64 and a signed integer have no common dtype
        return False


def arange(start: float, /, stop: float | None = None, step: float = 1, *, dtype: facula.dtype | None = None,
           device: Device = None) -> Tensor:  # fmt: skip
    """The numbers from `start` (0 when it stands alone) up to, but not including, `stop`; none when `step` leads away."""
    if stop is None:
        start, stop = 0, start
    if math.copysign(1, step) * (stop - start) <= 0:
        kinds = facula.result_type(facula.tensor(start), facula.tensor(stop + step))
        return facula.empty(0, dtype=dtype or (facula.int64 if not kinds.is_floating_point else None), device=device)
    return facula.arange(start, stop, step, dtype=dtype, device=device)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays expanded to their common shape, as a list."""
    return list(facula.broadcast_tensors(*arrays))


def _axes(x, axis):
    """Every axis for None; a tuple for one."""
    return tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def _ordered(x):
    """uint64 as the int64 of the same order, which reductions know; other tensors as they are."""
    return x.view(facula.int64) ^ -(2**63) if x.dtype is facula.uint64 else x


def _reordered(result, x):
    """Undoes _ordered for elements of `x`."""
    return (result ^ -(2**63)).view(facula.uint64) if x.dtype is facula.uint64 else result


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first largest element along `axis`, of the flattened array for None."""
    return facula.argmax(_ordered(x), axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first smallest element along `axis`, of the flattened array for None."""
    return facula.argmin(_ordered(x), axis, keepdims)


def max(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The largest values over `axis` (an int, a tuple, or None for all)."""
    return x.clone() if axis == () else _reordered(facula.amax(_ordered(x), _axes(x, axis), keepdim=keepdims), x)


def min(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The smallest values over `axis` (an int, a tuple, or None for all)."""
    return x.clone() if axis == () else _reordered(facula.amin(_ordered(x), _axes(x, axis), keepdim=keepdims), x)


def _sum_dtype(x, dtype):
    """Sums of unsigned integers stay unsigned, where PyTorch's are int64."""
    unsigned = (facula.uint8, facula.uint16, facula.uint32, facula.uint64)
    return facula.uint64 if dtype is None and x.dtype in unsigned else dtype


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: facula.dtype | None = None,
                   include_initial: bool = False) -> Tensor:  # fmt: skip
    """Running sums along `axis`; include_initial puts the empty sum, 0, in front."""
    return _array_api.cumulative_sum(x, axis=axis, dtype=_sum_dtype(x, dtype), include_initial=include_initial)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: facula.dtype | None = None,
                    include_initial: bool = False) -> Tensor:  # fmt: skip
    """Running products along `axis`; include_initial puts the empty product, 1, in front."""
    return _array_api.cumulative_prod(x, axis=axis, dtype=_sum_dtype(x, dtype), include_initial=include_initial)


def prod(x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: facula.dtype | None = None,
         keepdims: bool = False) -> Tensor:  # fmt: skip
    """The product over `axis` (an int, a tuple, or None for all)."""
    dtype = _sum_dtype(x, dtype)
    axes = sorted((a % x.ndim for a in _axes(x, axis)), reverse=True)
    if dtype is None and not axes:
        dtype = facula.prod(x[(0,) * x.ndim]).dtype if x.numel() else None
    result = x if dtype is None else x.to(dtype)
    for a in axes:
        result = facula.prod(result, a, keepdim=keepdims, dtype=dtype)
    return result


def sum(x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: facula.dtype | None = None,
        keepdims: bool = False) -> Tensor:  # fmt: skip
    """The sum over `axis` (an int, a tuple, or None for all)."""
    dtype = _sum_dtype(x, dtype)
    if axis == ():
        return x.to(dtype) if dtype is not None else x + 0 * x.new_zeros(()).sum()
    return facula.sum(x, _axes(x, axis), keepdim=keepdims, dtype=dtype)


def all(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over `axis` are true."""
    return _logical(facula.all, x, axis, keepdims)


def any(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Whether some element over `axis` is true."""
    return _logical(facula.any, x, axis, keepdims)


def _logical(op, x, axis, keepdims):
    result = x.to(facula.bool)
    for a in sorted((a % x.ndim for a in _axes(x, axis)), reverse=True):
        result = op(result, a, keepdim=keepdims)
    return result


def mean(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The mean over `axis` (an int, a tuple, or None for all)."""
    return x.clone() if axis == () else facula.mean(x, _axes(x, axis), keepdim=keepdims)


def std(x: Tensor, /, *, axis: int | Sequence[int] | None = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over `axis`, with n - correction degrees of freedom."""
    return _spread(facula.std, x, axis, correction, keepdims)


def var(x: Tensor, /, *, axis: int | Sequence[int] | None = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over `axis`, with n - correction degrees of freedom."""
    return _spread(facula.var, x, axis, correction, keepdims)


def _spread(op, x, axis, correction, keepdims):
    if axis == ():  # every element for itself: a deviation of zero, with 1 - correction degrees of freedom
        return (x - x) / facula.clamp(facula.tensor(1.0 - correction, dtype=x.dtype), min=0)
    return op(x, _axes(x, axis), correction=correction, keepdim=keepdims)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements along `axis` in order."""
    return facula.sort(x, dim=axis, descending=descending, stable=stable).values


def argsort(x: Tensor, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort along `axis`."""
    return facula.sort(x, dim=axis, descending=descending, stable=stable).indices


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices at `indices` (negative ones count from the end) along `axis`."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed for an array of {x.ndim} dimensions, got None")
        axis = 0
    return x.index_select(axis, facula.where(indices < 0, indices + x.shape[axis], indices))


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of elements other than zero, one tensor per dimension."""
    if x.ndim == 0:
        raise ValueError("nonzero: an array of at least one dimension is expected, got 0-d")
    return tuple(facula.nonzero(x).unbind(1))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Coordinate arrays of the grid of 1-D arrays."""
    return list(facula.meshgrid(*arrays, indexing=indexing))


def linspace(start: float, stop: float, /, num: int, *, dtype: facula.dtype | None = None, device: Device = None,
             endpoint: bool = True) -> Tensor:  # fmt: skip
    """`num` evenly spaced numbers from `start` to `stop`, without the latter when endpoint is False."""
    if endpoint:
        return facula.linspace(start, stop, num, dtype=dtype, device=device)
    return facula.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The arrays one after the other along `axis`; flattened for None."""
    if axis is None:
        return facula.cat([a.reshape(-1) for a in arrays], 0)
    return facula.cat(list(arrays), axis)


def equal(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Whether the elements are equal, one by one (the function of this name at the top level gives one bool)."""
    return facula.eq(*_tensors(x1, x2))


def full(shape: int | Sequence[int], fill_value: float, *, dtype: facula.dtype | None = None, device: Device = None) -> Tensor:
    """A tensor of a shape (an int for one dimension) with `fill_value` everywhere."""
    return facula.full((shape,) if isinstance(shape, int) else tuple(shape), fill_value, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: facula.dtype | None = None,
        device: Device = None) -> Tensor:  # fmt: skip
    """A matrix with ones on diagonal `k` and zeros elsewhere; square unless `n_cols` is given."""
    n_cols = n_rows if n_cols is None else n_cols
    result = facula.zeros(n_rows, n_cols, dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices' elements on and below diagonal `k`, zeros above."""
    return facula.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices' elements on and above diagonal `k`, zeros below."""
    return facula.triu(x, k)


def count_nonzero(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """How many elements over `axis` are not zero."""
    return sum(facula.ne(x, 0), axis=axis, keepdims=keepdims)


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """`x` shown in a shape that it broadcasts to."""
    return facula.broadcast_to(x, tuple(shape))


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """The arrays along a new dimension at `axis`."""
    return facula.stack(list(arrays), axis)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """`x` with another shape; copy=True for memory of its own, False to raise where sharing is impossible."""
    if copy is False:
        return x.view(shape)
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """The elements along `axis` (an int, a tuple, or None for all) in reverse."""
    return facula.flip(x, _axes(x, axis))


def roll(x: Tensor, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """The elements along `axis` moved round by `shift`."""
    return facula.roll(x, shift, axis if axis is not None else ())


def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Any:
    """`x` without the dimensions `axis`, which must have size 1."""
    for a in _axes(x, axis):
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: dimensions of size 1 are expected, got size {x.shape[a]} at axis {a}")
    return facula.squeeze(x, _axes(x, axis))


def clip(x: Tensor, /, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """The elements bounded by `min` and `max`."""
    return x.clone() if min is None and max is None else facula.clamp(x, min, max)


def _tensors(x1, x2):
    """Both operands in their common dtype. PyTorch leaves tensors of no dimension out of promotion, the standard does not."""
    if not (isinstance(x1, facula.Tensor) and isinstance(x2, facula.Tensor)):
        dtype = result_type(x1, x2)
        return facula.asarray(x1, dtype=dtype), facula.asarray(x2, dtype=dtype)
    if x1.dtype == x2.dtype:
        return x1, x2
    dtype = facula.promote_types(x1.dtype, x2.dtype)
    return x1.to(dtype), x2.to(dtype)


def _of_common_dtype(name):
    op = getattr(facula, name)

    def function(x1, x2, /):
        return op(*_tensors(x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As facula.{name}, of numbers and tensors of any dimensions in their common dtype."
    return function


for _name in (
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "copysign",
    "divide", "greater", "greater_equal", "hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or",
    "logical_xor", "maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "subtract",
):  # fmt: skip
    globals()[_name] = _of_common_dtype(_name)


def where(condition: Tensor, x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """The elements of `x1` where the condition holds, else those of `x2`."""
    return facula.where(condition, *_tensors(x1, x2))


def floor_divide(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """The quotients rounded down; where one side alone is infinite, what division gives (PyTorch: NaN, -1)."""
    x1, x2 = _tensors(x1, x2)
    result = facula.floor_divide(x1, x2)
    if not result.is_floating_point():
        return result
    return facula.where(facula.isinf(x1) != facula.isinf(x2), facula.divide(x1, x2), result)


def remainder(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """The remainders of floor division, with the divisor's sign also where they are zero."""
    x1, x2 = _tensors(x1, x2)
    result = facula.remainder(x1, x2)
    return facula.where(result == 0, facula.copysign(result, x2), result) if result.is_floating_point() else result


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; NaN for NaN; x / abs(x), or 0, for complex numbers."""
    if x.is_complex():
        return facula.sgn(x)
    return facula.where(facula.isnan(x), x, facula.sign(x)) if x.is_floating_point() else facula.sign(x)


def _unique(x, *, return_inverse=False, return_counts=False):
    if not x.is_complex():
        return facula.unique(x, return_inverse=return_inverse, return_counts=return_counts)
    rows = facula.view_as_real(x.reshape(-1).resolve_conj())  # ordered by real parts, then by imaginary parts
    found = facula.unique(rows, return_inverse=return_inverse, return_counts=return_counts, dim=0)
    values, *rest = found if isinstance(found, tuple) else (found,)
    if return_inverse:
        rest[0] = rest[0].reshape(x.shape)
    return (facula.view_as_complex(values), *rest)


def unique_all(x: Tensor, /) -> UniqueAll:
    """Distinct values in order, the flat index of the first of each, which value each element is, and how often."""
    values, inverse, counts = _unique(x, return_inverse=True, return_counts=True)
    return _array_api.UniqueAll(values, _array_api.first_positions(inverse, len(values)), inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Distinct values in order, and how often each occurs."""
    return _array_api.UniqueCounts(*_unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Distinct values in order, and which of them each element is."""
    return _array_api.UniqueInverse(*_unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """Distinct values in order."""
    found = _unique(x)
    return found[0] if isinstance(found, tuple) else found
