"""Arithmetic on numbers that a tracer would see as symbols: `sym_max`, `sym_ite`, ..."""

from __future__ import annotations

import math
import operator


def sym_float(a):
    """float(a), or what `a` has in its place."""
    return a.__sym_float__() if hasattr(a, "__sym_float__") else float(a)


def sym_int(a):
    """`a` without its fraction."""
    return math.trunc(a)


def sym_max(a, b):
    """The larger number, as a float where one of them is a float."""
    return _extreme(max, a, b)


def sym_min(a, b):
    """The smaller number, as a float where one of them is a float."""
    return _extreme(min, a, b)


def _extreme(choose, a, b):
    return float(choose(a, b)) if isinstance(a, float) or isinstance(b, float) else choose(a, b)


def sym_not(a):
    """not a."""
    return operator.not_(a)


def sym_ite(b, t, f):
    """`t` if `b`, else `f`."""
    return t if b else f


def sym_sum(*args):
    """The sum of numbers, given one by one or as one sequence."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args)


def sym_sqrt(a):
    """The square root of a number."""
    return math.sqrt(a)


def sym_constrain_range(size, *, min=None, max=None):
    """Checks a number: RuntimeError where it is not from `min` to `max`, either of which may be None.

    A program that is recorded with sizes that vary knows from it how large the number can be.
    """
    low, high = -(2**63) if min is None else min, 2**63 - 1 if max is None else max
    if high < low:
        raise RuntimeError(f"sym_constrain_range: max is at least min, got min={low} max={high}")
    if not low <= size <= high:
        raise RuntimeError(f"sym_constrain_range: expected a number from {low} to {high}, got {size}")


def sym_constrain_range_for_size(size, *, min=None, max=None):
    """As `sym_constrain_range`, of a number that is to be a length: not negative, and `max`, where given, is above 2."""
    if max is not None and max <= 2:
        raise RuntimeError(f"sym_constrain_range_for_size: max is greater than 2, got {max}")
    low = 0 if min is None else min
    if size < low or max is not None and size > max:
        raise RuntimeError(f"sym_constrain_range_for_size: expected {low} to {'any' if max is None else max}, got {size}")


class _Symbolic:
    """What all three have: a number that is not known, which the library makes itself."""

    def __new__(cls, *given):
        if cls in (SymInt, SymFloat, SymBool):
            raise NotImplementedError(f"{cls.__name__}: the library makes such numbers itself, got {len(given)} arguments")
        return super().__new__(cls, *given)


class SymInt(_Symbolic):
    """A length that is no number, such as that of a ragged dimension: for annotations and isinstance."""


class SymFloat(_Symbolic):
    """As SymInt, with a fraction. None are made."""


class SymBool(_Symbolic):
    """As SymInt, of comparisons. None are made."""
