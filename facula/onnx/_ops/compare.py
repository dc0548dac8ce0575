"""Translate element-wise ops whose results are true or false, or that choose by such values: comparisons, logic, bits,
kinds of numbers.
"""

import math

from .._graph import Value
from ._table import op
from .elementwise import common_dtype, floor_divide, pair


def _comparisons():
    for names, onnx in (
        ("eq", "Equal"), ("lt less", "Less"), ("gt greater", "Greater"), ("le less_equal", "LessOrEqual"),
        ("ge greater_equal", "GreaterOrEqual"),
    ):  # fmt: skip
        op(names)(lambda g, self, other, onnx=onnx: compare(g, onnx, self, other))
    op("ne not_equal")(lambda g, self, other: g.Not(compare(g, "Equal", self, other)))


def compare(g, onnx, self, other):
    dtype = common_dtype(self, other)
    # ONNX compares booleans for equality alone.
    return getattr(g, onnx)(*pair(g, self, other, "int32" if dtype == "bool" and onnx != "Equal" else dtype))


_comparisons()


def truth(g, value):
    return g.cast(value, "bool") if isinstance(value, Value) else bool(value)


@op("logical_and")
def logical_and(g, self, other):
    return g.And(truth(g, self), truth(g, other))


@op("logical_or")
def logical_or(g, self, other):
    return g.Or(truth(g, self), truth(g, other))


@op("logical_xor")
def logical_xor(g, self, other):
    return g.Xor(truth(g, self), truth(g, other))


@op("logical_not")
def logical_not(g, self):
    return g.Not(truth(g, self))


def _bits():
    for word, boolean in (("And", "And"), ("Or", "Or"), ("Xor", "Xor")):
        names = f"bitwise_{word.lower()} __{word.lower()}__"
        op(names)(lambda g, self, other, word=word, boolean=boolean: _bitwise(g, word, boolean, self, other))


def _bitwise(g, word, boolean, self, other):
    a, b = pair(g, self, other, g.dtype)
    if a.dtype == "bool":
        return getattr(g, boolean)(a, b)
    if g.opset < 18:
        raise NotImplementedError(f"onnx.export: bitwise_{word.lower()} of integers needs opset 18, got {g.opset}")
    return getattr(g, f"Bitwise{word}")(a, b)


_bits()


@op("bitwise_not")
def bitwise_not(g, self):
    # In two's complement ~x is -x - 1; ONNX's own op is there from opset 18 on.
    return g.Not(self) if self.dtype == "bool" else g.Sub(g.Neg(self), 1)


@op("bitwise_left_shift __lshift__")
def bitwise_left_shift(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return g.Mul(a, g.cast(g.Pow(g.constant(2.0), g.cast(b, "float32")), a.dtype))


@op("bitwise_right_shift __rshift__")
def bitwise_right_shift(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return floor_divide(g, a, g.cast(g.Pow(g.constant(2.0), g.cast(b, "float32")), a.dtype))


@op("signbit")
def signbit(g, self):
    if not self.is_floating():
        return g.Less(self, 0)
    return g.Or(g.Less(self, 0.0), g.Less(g.Reciprocal(self), 0.0))  # of -0 too, whose reciprocal is -inf


@op("copysign")
def copysign(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    return g.Where(signbit(g, b), -g.Abs(a), g.Abs(a))


_LARGEST = {
    "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308, "float16": 65504.0, "bfloat16": 3.3895313892515355e38,
}  # fmt: skip


@op("nan_to_num")
def nan_to_num(g, self, nan=None, posinf=None, neginf=None):
    if not self.is_floating():
        return self
    largest = _LARGEST[self.dtype]
    self = g.where(g.IsNaN(self), 0.0 if nan is None else float(nan), self)
    self = g.where(g.Equal(self, math.inf), largest if posinf is None else float(posinf), self)
    return g.where(g.Equal(self, -math.inf), -largest if neginf is None else float(neginf), self)


def _never(g, self):
    return g.cast(g.Mul(g.cast(self, "int32"), 0), "bool")


@op("isnan")
def isnan(g, self):
    return g.IsNaN(self) if self.is_floating() else _never(g, self)


@op("isinf")
def isinf(g, self):
    return g.Equal(g.Abs(self), math.inf) if self.is_floating() else _never(g, self)


@op("isfinite")
def isfinite(g, self):
    return g.Less(g.Abs(self), math.inf) if self.is_floating() else g.Not(_never(g, self))


@op("isposinf")
def isposinf(g, self):
    return g.Equal(self, math.inf) if self.is_floating() else _never(g, self)


@op("isneginf")
def isneginf(g, self):
    return g.Equal(self, -math.inf) if self.is_floating() else _never(g, self)


@op("isreal")
def isreal(g, self):
    return g.Not(_never(g, self))


@op("isclose")
def isclose(g, self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    a, b = pair(g, self, other)
    near = g.Equal(a, b)
    if a.is_floating():
        near = g.Or(near, g.And(isfinite(g, b), g.LessOrEqual(g.Abs(a - b), g.Abs(b) * rtol + atol)))
    return g.Or(near, g.And(g.IsNaN(a), g.IsNaN(b))) if equal_nan and a.is_floating() else near


@op("where.self where.ScalarSelf where.ScalarOther where.Scalar where")
def where(g, condition, self, other):
    return g.Where(truth(g, condition), *pair(g, self, other, g.dtype))


@op("masked_fill")
def masked_fill(g, self, mask, value):
    return g.Where(mask, g.scalar(g.tensor(value, self.dtype)), self)


@op("heaviside")
def heaviside(g, self, values):
    a, b = pair(g, self, values, g.dtype)
    return g.Where(g.Equal(a, 0), b, g.cast(g.Greater(a, 0), a.dtype))


@op("equal")
def equal(g, self, other):
    same = g.cast(g.Equal(*pair(g, self, other)), "int32")
    return g.cast(g.reduce("Min", same), "bool")
