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
