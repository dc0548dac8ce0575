"""Define integers that remember how they were computed from sizes that vary.

A `SymInt` is an int, the number that it is while a program is recorded, with the expression that it is in every run
(src/program/expr.h). Arithmetic with + - * // % and unary minus keeps the expression; a comparison notes a condition that
every run has to meet. What Python does otherwise with the number (math.sqrt, a list of that length) loses the expression:
`export` finds out by recording once more with other sizes.
"""

from __future__ import annotations

import contextlib

from facula import _C


@contextlib.contextmanager
def watching(guard):
    """Tell `guard(text)` within it of conditions on sizes that Python has asked for."""
    before, SymInt._guard = SymInt._guard, guard
    try:
        yield
    finally:
        SymInt._guard = before


def text_of(value):
    """Return the expression of an integer, in parentheses where it has operators."""
    return f"({value._expr})" if isinstance(value, SymInt) else str(int(value))


def _arithmetic(name, symbol, function):
    def forward(self, other):
        if not isinstance(other, int) or isinstance(other, bool):
            return function(int(self), other)
        return SymInt(function(int(self), int(other)), f"{text_of(self)} {symbol} {text_of(other)}")

    def reflected(self, other):
        if not isinstance(other, int) or isinstance(other, bool):
            return function(other, int(self))
        return SymInt(function(int(other), int(self)), f"{text_of(other)} {symbol} {text_of(self)}")

    forward.__name__, reflected.__name__ = f"__{name}__", f"__r{name}__"
    return forward, reflected


_NEGATED = {"==": "!=", "!=": "==", "<": "{1} <= {0}", "<=": "{1} < {0}"}


def _comparison(symbol, swapped, function):
    def compare(self, other):
        if not isinstance(other, int):
            return function(int(self), other)
        answer = function(int(self), int(other))
        a, b = (text_of(other), text_of(self)) if swapped else (text_of(self), text_of(other))
        if answer:
            SymInt._guard(f"{a} {symbol} {b}")
        elif symbol in ("==", "!="):
            SymInt._guard(f"{a} {_NEGATED[symbol]} {b}")
        else:
            SymInt._guard(_NEGATED[symbol].format(a, b))
        return answer

    return compare


class SymInt(int):
    """Represent an int together with an expression.

    Args:
        value: what it is in this run.
        expression: its text, such as "2*s0".
    """

    _guard = staticmethod(lambda condition: None)

    def __new__(cls, value, expression):
        self = super().__new__(cls, value)
        self._expr = _C._simplify(expression)
        return self

    def __hash__(self):
        return int.__hash__(self)

    def __neg__(self):
        return SymInt(-int(self), f"-{text_of(self)}")

    def __pos__(self):
        return self

    def __index__(self):
        return int(self)

    def __divmod__(self, other):
        return self // other, self % other

    def __pow__(self, other, mod=None):
        # Expressions have products but no powers, so small powers become products.
        if mod is None and type(other) is int and 0 < other < 8:
            result = self
            for _ in range(other - 1):
                result = result * self
            return result
        return pow(int(self), other, mod)

    def __abs__(self):
        return self if self >= 0 else -self

    def __reduce__(self):
        return int, (int(self),)

    __add__, __radd__ = _arithmetic("add", "+", lambda a, b: a + b)
    __sub__, __rsub__ = _arithmetic("sub", "-", lambda a, b: a - b)
    __mul__, __rmul__ = _arithmetic("mul", "*", lambda a, b: a * b)
    __floordiv__, __rfloordiv__ = _arithmetic("floordiv", "//", lambda a, b: a // b)
    __mod__, __rmod__ = _arithmetic("mod", "%", lambda a, b: a % b)
    __eq__ = _comparison("==", False, lambda a, b: a == b)
    __ne__ = _comparison("!=", False, lambda a, b: a != b)
    __lt__ = _comparison("<", False, lambda a, b: a < b)
    __le__ = _comparison("<=", False, lambda a, b: a <= b)
    __gt__ = _comparison("<", True, lambda a, b: a > b)
    __ge__ = _comparison("<=", True, lambda a, b: a >= b)

    def __bool__(self):
        return self != 0


_C._set_symint_class(SymInt)
