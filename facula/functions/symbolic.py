"""Compute with numbers that a tracer would represent by symbols: `sym_max`, `sym_ite`, ..."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


def sym_float(a: Any) -> float:
    """Return the number as a float, or what ``a.__sym_float__()`` gives where `a` has that.

    Args:
        a: a number.

    >>> torch.sym_float(3)
    3.0
    """
    return a.__sym_float__() if hasattr(a, "__sym_float__") else float(a)


def sym_int(a: Any) -> int:
    """Return the number `a` without its fraction, rounded towards zero.

    Args:
        a: a number.

    >>> torch.sym_int(2.7), torch.sym_int(-2.7)
    (2, -2)
    """
    return math.trunc(a)


def sym_max(a: Any, b: Any) -> int:
    """Return the larger of two numbers, as a float where one of them is a float.

    Args:
        a, b: numbers, such as sizes.

    >>> torch.sym_max(2, 3), torch.sym_max(2.0, 3)
    (3, 3.0)
    """
    return _extreme(max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, as a float where one of them is a float.

    Args:
        a, b: numbers, such as sizes.

    >>> torch.sym_min(2, 3), torch.sym_min(2, 3.5)
    (2, 2.0)
    """
    return _extreme(min, a, b)


def _extreme(choose, a, b):
    return float(choose(a, b)) if isinstance(a, float) or isinstance(b, float) else choose(a, b)


def sym_not(a: Any) -> bool:
    """Return ``not a``, for conditions on sizes.

    Args:
        a: a bool.

    >>> torch.sym_not(torch.ones(3).size(0) > 2)
    False
    """
    return operator.not_(a)


def sym_ite(b: Any, t: Any, f: Any) -> int:
    """Return `t` if `b`, else `f`; both are evaluated before the call.

    Args:
        b: a bool.
        t, f: numbers.

    >>> torch.sym_ite(True, 1, 2)
    1
    """
    return t if b else f


def sym_sum(*args: Any) -> int:
    """Return the sum of numbers, given one by one or as one sequence.

    Args:
        args: the numbers, or a list or tuple of them.

    >>> torch.sym_sum([1, 2, 3])
    6
    """
    return sum(args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args)


def sym_sqrt(a: Any) -> float:
    """Return the square root of a number, as a float.

    Args:
        a: a number that is not negative.

    Errors: ValueError for a negative number.

    >>> torch.sym_sqrt(9)
    3.0
    """
    return math.sqrt(a)


def sym_constrain_range(size: Any, *, min: Any = None, max: Any = None) -> None:
    """Check a number: RuntimeError where it is not from `min` to `max`, either of which may be None.

    A program that is recorded with sizes that vary knows from it how large the number can be.

    Args:
        size: the number.
        min, max: the least and the greatest that it may be; None for no limit.

    Errors: RuntimeError for a number outside, and for max below min.

    >>> torch.sym_constrain_range(3, min=2, max=5)
    """
    low, high = -(2**63) if min is None else min, 2**63 - 1 if max is None else max
    if high < low:
        raise RuntimeError(f"sym_constrain_range: max is at least min, got min={low} max={high}")
    if not low <= size <= high:
        raise RuntimeError(f"sym_constrain_range: expected a number from {low} to {high}, got {size}")


def sym_constrain_range_for_size(size: Any, *, min: Any = None, max: Any = None) -> None:
    """Check a number that is to be a length: RuntimeError where it is not from `min` (0 by default) to `max`.

    Args:
        size: the number.
        min, max: the least and the greatest that it may be; max, where given, is above 2.

    Errors: RuntimeError for a number outside, and for a max of 2 or less.

    >>> torch.sym_constrain_range_for_size(3, max=5)
    """
    if max is not None and max <= 2:
        raise RuntimeError(f"sym_constrain_range_for_size: max is greater than 2, got {max}")
    low = 0 if min is None else min
    if size < low or max is not None and size > max:
        raise RuntimeError(f"sym_constrain_range_for_size: expected {low} to {'any' if max is None else max}, got {size}")


class _Symbolic:
    """Refuse construction by programs. The three classes below stand for unknown numbers, which only the library makes."""

    def __new__(cls, *given: int) -> Self:
        if cls in (SymInt, SymFloat, SymBool):
            raise NotImplementedError(f"{cls.__name__}: the library makes such numbers itself, got {len(given)} arguments")
        return super().__new__(cls, *given)


class SymInt(_Symbolic):
    """Represent a length that is no number, such as that of a ragged dimension; for annotations and isinstance.

    Args:
        given: nothing can be given: the library makes such lengths itself.

    Errors: NotImplementedError when it is called.

    >>> isinstance(torch.ones(3).size(0), torch.SymInt)
    False
    """


class SymFloat(_Symbolic):
    """Represent a fractional number that is not known yet; for annotations and isinstance. The library makes none.

    Args:
        given: nothing can be given.

    Errors: NotImplementedError when it is called.

    >>> isinstance(0.5, torch.SymFloat)
    False
    """


class SymBool(_Symbolic):
    """Represent the result of a comparison that is not known yet; for annotations and isinstance. The library makes
    none.

    Args:
        given: nothing can be given.

    Errors: NotImplementedError when it is called.

    >>> isinstance(True, torch.SymBool)
    False
    """
