"""Define short names of ops of PyTorch's core IR for rules of private ops, and the table of the rules."""

from __future__ import annotations

from facula.export._functional import op

#: rules by Facula's names
RULES = {}


def private(function):
    """Note a rule under its function's name, the op's."""
    RULES[f"{function.__name__}.default"] = function
    return function


def added(a, b):
    return op("add.default", a, b)


def less(a, b):
    return op("sub.default", a, b)


def times(a, *others):
    for b in others:
        a = op("mul.default", a, b)
    return a


def over(a, b):
    return op("div.default", a, b)


def total(x, dims, keep=False):
    return op("sum.dim", x, dims, keep)


def number(value, like):
    return op("full.default", [], value, like.dtype)


def where(condition, a, b):
    return op("where.default", condition, a, b)


def zeros(sizes, like):
    return op("full.default", list(sizes), 0, like.dtype)
