"""Define the element-wise functions of the Array API, and how dtypes promote in them."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = [
    "can_cast", "clip", "equal", "finfo", "floor_divide", "iinfo", "remainder", "result_type", "sign", "where",
]  # fmt: skip


def _dtype_of(type):
    return type.dtype if isinstance(type, facula.Tensor) else type


def finfo(type: Tensor | facula.dtype, /) -> SimpleNamespace:
    """Return the bits, eps, max, min, smallest_normal and (real) dtype of a floating-point dtype.

    Args:
        type: a floating or complex dtype, or a tensor for its dtype.

    Errors: TypeError for another dtype.

    >>> torch.array_api.finfo(torch.float32).bits
    32
    """
    info = facula.finfo(_dtype_of(type))
    real = _dtype_of(type).to_real()
    return SimpleNamespace(
        bits=info.bits, eps=info.eps, max=info.max, min=info.min, smallest_normal=info.smallest_normal, dtype=real
    )


def iinfo(type: Tensor | facula.dtype, /) -> SimpleNamespace:
    """Return the bits, max, min and dtype of an integer dtype.

    Args:
        type: an integer dtype, or a tensor for its dtype.

    Errors: TypeError for another dtype.

    >>> torch.array_api.iinfo(torch.int8).max
    127
    """
    info = facula.iinfo(_dtype_of(type))
    return SimpleNamespace(bits=info.bits, max=info.max, min=info.min, dtype=_dtype_of(type))


def result_type(*arrays_and_dtypes: Any) -> facula.dtype:
    """Return the dtype that tensors, dtypes and Python numbers promote to together.

    Args:
        arrays_and_dtypes: these, at least one tensor or dtype.

    Errors: ValueError for numbers only; RuntimeError for dtypes without a common one.

    >>> torch.array_api.result_type(torch.int32, torch.ones(2, dtype=torch.int64), 1)
    torch.int64
    """
    numbers = [a for a in arrays_and_dtypes if isinstance(a, (bool, int, float, complex))]
    dtypes = [_dtype_of(a) for a in arrays_and_dtypes if not isinstance(a, (bool, int, float, complex))]
    if not dtypes:
        raise ValueError(f"result_type: expected at least one tensor or dtype, got {arrays_and_dtypes}")
    common = functools.reduce(facula.promote_types, dtypes)
    for number in numbers:
        common = facula.result_type(facula.empty(1, dtype=common), number)
    return common


def can_cast(from_: Tensor | facula.dtype, to: facula.dtype, /) -> bool:
    """Return whether a dtype promotes to another without becoming a third one.

    Args:
        from_: a dtype, or a tensor for its dtype; the standard calls it from.
        to: a dtype.

    >>> torch.array_api.can_cast(torch.int8, torch.int32), torch.array_api.can_cast(torch.float32, torch.int32)
    (True, False)
    """
    try:
        return facula.promote_types(_dtype_of(from_), to) == to
    except RuntimeError:  # uint64 and a signed integer have no common dtype
        return False


def equal(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Return whether the elements are equal, one by one, where torch.equal gives one bool.

    Args:
        x1: a tensor or number.
        x2: a tensor or number; shapes broadcast, and dtypes promote.

    >>> torch.array_api.equal(torch.tensor([1, 2]), torch.tensor([1., 3.]))
    tensor([ True, False])
    """
    return facula.eq(*_tensors(x1, x2))


def clip(x: Tensor, /, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Return the elements, where they are lower or higher than bounds, replaced by these.

    Args:
        x: the tensor.
        min: the lower bound, a number or tensor; None for none.
        max: the upper bound.

    >>> torch.array_api.clip(torch.tensor([1, 5, 9]), 2, 6)
    tensor([2, 5, 6])
    """
    return x.clone() if min is None and max is None else facula.clamp(x, min, max)


def _tensors(x1, x2):
    """Return both operands in their common dtype. PyTorch leaves tensors of no dimension out of promotion, the standard does
    not."""
    if not (isinstance(x1, facula.Tensor) and isinstance(x2, facula.Tensor)):
        dtype = result_type(x1, x2)
        return facula.asarray(x1, dtype=dtype), facula.asarray(x2, dtype=dtype)
    if x1.dtype == x2.dtype:
        return x1, x2
    dtype = facula.promote_types(x1.dtype, x2.dtype)
    return x1.to(dtype), x2.to(dtype)


_TEXT = """Return {what}, element by element; what torch.{name} computes, but numbers and 0-d tensors count in promotion.

Args:
    x1: a tensor or number.
    x2: a tensor or number, of a shape that broadcasts with the first's; both are taken in their common dtype.

Errors: RuntimeError for shapes that do not broadcast, and for dtypes without a common one.

>>> torch.array_api.{name}({example})
{result}
"""


def _of_common_dtype(name, what, example, result):
    op = getattr(facula, name)

    def function(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
        return op(*_tensors(x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _TEXT.format(name=name, what=what, example=example, result=result)
    return function


_ELEMENTWISE = (
    ("add", "the sums", "torch.tensor([1, 2]), torch.tensor([0.5, 0.5])", "tensor([1.5000, 2.5000])"),
    ("atan2", "the angles of the points (x2, x1)", "torch.tensor([0., 1.]), torch.tensor([1., 0.])",
     "tensor([0.0000, 1.5708])"),
    ("bitwise_and", "the bits that both have", "torch.tensor([6, 5]), torch.tensor([3, 3])", "tensor([2, 1])"),
    ("bitwise_left_shift", "the bits moved left by x2", "torch.tensor([1, 3]), torch.tensor([2, 1])", "tensor([4, 6])"),
    ("bitwise_or", "the bits that either has", "torch.tensor([6, 5]), torch.tensor([3, 3])", "tensor([7, 7])"),
    ("bitwise_right_shift", "the bits moved right by x2", "torch.tensor([8, 3]), torch.tensor([2, 1])", "tensor([2, 1])"),
    ("bitwise_xor", "the bits that one has", "torch.tensor([6, 5]), torch.tensor([3, 3])", "tensor([5, 6])"),
    ("copysign", "x1 with the signs of x2", "torch.tensor([1., 2.]), torch.tensor([-1., 1.])", "tensor([-1.,  2.])"),
    ("divide", "the quotients", "torch.tensor([1., 6.]), torch.tensor([2., 3.])", "tensor([0.5000, 2.0000])"),
    ("greater", "whether x1 > x2", "torch.tensor([1, 2]), torch.tensor([0.5, 3.])", "tensor([ True, False])"),
    ("greater_equal", "whether x1 >= x2", "torch.tensor([1, 2]), torch.tensor([1., 3.])", "tensor([ True, False])"),
    ("hypot", "``sqrt(x1**2 + x2**2)``", "torch.tensor([3., 0.]), torch.tensor([4., 2.])", "tensor([5., 2.])"),
    ("less", "whether x1 < x2", "torch.tensor([1, 2]), torch.tensor([0.5, 3.])", "tensor([False,  True])"),
    ("less_equal", "whether x1 <= x2", "torch.tensor([1, 2]), torch.tensor([1., 3.])", "tensor([True, True])"),
    ("logaddexp", "``log(exp(x1) + exp(x2))``", "torch.tensor([0., 0.]), torch.tensor([0., 1.])", "tensor([0.6931, 1.3133])"),
    ("logical_and", "whether both are true", "torch.tensor([True, False]), torch.tensor([True, True])",
     "tensor([ True, False])"),
    ("logical_or", "whether one at least is true", "torch.tensor([True, False]), torch.tensor([False, False])",
     "tensor([ True, False])"),
    ("logical_xor", "whether one alone is true", "torch.tensor([True, False]), torch.tensor([True, True])",
     "tensor([False,  True])"),
    ("maximum", "the larger elements", "torch.tensor([1, 5]), torch.tensor([2., 3.])", "tensor([2., 5.])"),
    ("minimum", "the smaller elements", "torch.tensor([1, 5]), torch.tensor([2., 3.])", "tensor([1., 3.])"),
    ("multiply", "the products", "torch.tensor([1, 2]), torch.tensor([0.5, 3.])", "tensor([0.5000, 6.0000])"),
    ("nextafter", "the next numbers from x1 towards x2", "torch.tensor([0.]), torch.tensor([1.])", "tensor([1.4013e-45])"),
    ("not_equal", "whether the elements differ", "torch.tensor([1, 2]), torch.tensor([1., 3.])", "tensor([False,  True])"),
    ("pow", "the powers ``x1**x2``", "torch.tensor([2, 3]), torch.tensor([3, 2])", "tensor([8, 9])"),
    ("subtract", "the differences", "torch.tensor([1, 2]), torch.tensor([0.5, 3.])", "tensor([ 0.5000, -1.0000])"),
)  # fmt: skip
globals().update({row[0]: _of_common_dtype(*row) for row in _ELEMENTWISE})
__all__ += [row[0] for row in _ELEMENTWISE]


def where(condition: Tensor, x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Return the elements of one tensor where a condition holds, else those of another.

    Args:
        condition: a bool tensor.
        x1: a tensor or number.
        x2: a tensor or number; shapes broadcast, and dtypes promote.

    >>> torch.array_api.where(torch.tensor([True, False]), 1, torch.tensor([3., 4.]))
    tensor([1., 4.])
    """
    return facula.where(condition, *_tensors(x1, x2))


def floor_divide(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Return the quotients rounded down; where one side alone is infinite, what division gives (torch.floor_divide: NaN or -1).

    Args:
        x1: a tensor or number.
        x2: a tensor or number; shapes broadcast, and dtypes promote.

    >>> torch.array_api.floor_divide(torch.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    x1, x2 = _tensors(x1, x2)
    result = facula.floor_divide(x1, x2)
    if not result.is_floating_point():
        return result
    return facula.where(facula.isinf(x1) != facula.isinf(x2), facula.divide(x1, x2), result)


def remainder(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Return the remainders of floor division, with the divisor's sign also where they are zero.

    Args:
        x1: a tensor or number.
        x2: a tensor or number; shapes broadcast, and dtypes promote.

    >>> torch.array_api.remainder(torch.tensor([7, -7]), 4)
    tensor([3, 1])
    """
    x1, x2 = _tensors(x1, x2)
    result = facula.remainder(x1, x2)
    return facula.where(result == 0, facula.copysign(result, x2), result) if result.is_floating_point() else result


def sign(x: Tensor, /) -> Tensor:
    """Return -1, 0 or 1; NaN for NaN; ``x / abs(x)``, or 0, for complex numbers.

    Args:
        x: the tensor.

    >>> torch.array_api.sign(torch.tensor([-2., 0., 3.]))
    tensor([-1.,  0.,  1.])
    """
    if x.is_complex():
        return facula.sgn(x)
    return facula.where(facula.isnan(x), x, facula.sign(x)) if x.is_floating_point() else facula.sign(x)
