"""Translate ops on parts of numbers, neighboring numbers, and divisors."""

import math

from ._table import op
from .elementwise import pair


def _exponent(g, wide):
    """Return the mantissa in [0.5, 1) and exponent of positive numbers, computed in float64."""
    exponent = g.Floor(g.Log(wide) * (1 / math.log(2))) + 1.0
    mantissa = wide * g.Pow(g.constant(2.0, "float64"), -exponent)
    high, low = g.GreaterOrEqual(mantissa, 1.0), g.Less(mantissa, 0.5)  # the logarithm was rounded
    mantissa = g.Where(high, mantissa * 0.5, g.Where(low, mantissa * 2.0, mantissa))
    return mantissa, exponent + g.cast(high, "float64") - g.cast(low, "float64")


def _narrow(name, value):
    if value.dtype == "float64":
        raise NotImplementedError(f"onnx.export: {name} of float64 has no translation to ONNX")


@op("frexp")
def frexp(g, self):
    _narrow("frexp", self)
    size = g.Abs(g.cast(self, "float64"))
    plain = g.And(g.Greater(size, 0.0), g.Less(size, math.inf))
    mantissa, exponent = _exponent(g, g.where(plain, size, 1.0))
    mantissa = g.cast(mantissa, self.dtype) * g.Sign(self)
    return g.Where(plain, mantissa, self), g.cast(g.where(plain, exponent, 0.0), "int32")


#: dtype -> bits of the mantissa, least exponent of a normal number as frexp has it, the smallest and the largest number
_FORMATS = {"float32": (24, -125, 2.0**-149, 3.4028234663852886e38), "float16": (11, -13, 2.0**-24, 65504.0)}


@op("nextafter")
def nextafter(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    if a.dtype not in _FORMATS:
        raise NotImplementedError(f"onnx.export: nextafter of {a.dtype} has no translation to ONNX")
    bits, least, smallest, largest = _FORMATS[a.dtype]
    x, y = g.cast(a, "float64"), g.cast(b, "float64")
    size = g.Abs(x)
    plain = g.And(g.Greater(size, 0.0), g.Less(size, math.inf))
    mantissa, exponent = _exponent(g, g.where(plain, size, 1.0))
    outwards = g.Equal(g.Greater(y, x), g.Greater(x, 0.0))
    inner = g.And(g.Equal(mantissa, 0.5), g.Not(outwards))  # below a power of two numbers lie closer
    step = g.Pow(g.constant(2.0, "float64"), g.Max(exponent - g.cast(inner, "float64"), float(least)) - float(bits))
    moved = x + g.Where(g.Greater(y, x), step, -step)
    limit = g.constant(math.inf, "float64")
    moved = g.Where(g.Greater(g.Abs(moved), largest), g.Sign(moved) * limit, moved)
    moved = g.where(g.Equal(size, 0.0), g.Sign(y) * smallest, moved)
    moved = g.where(g.Equal(size, math.inf), g.Sign(x) * largest, moved)
    nan = g.Or(g.IsNaN(x), g.IsNaN(y))
    return g.cast(g.where(nan, math.nan, g.Where(g.Equal(x, y), y, moved)), a.dtype)


#: as many steps as two numbers of neighbors in Fibonacci's row take
_STEPS = {"int64": 92, "int32": 46, "int16": 23, "int8": 12, "uint8": 13}


def _divisor(g, a, b):
    shape = g.Shape(a + b)
    like = (a + b).shape
    state = [g.Expand(g.Abs(v), shape) for v in (a, b)]
    for value in state:
        value.shape = like

    def step(g, i, a, b):
        done = g.Equal(b, 0)
        return g.Where(done, a, b), g.where(done, 0, g.Mod(a, g.where(done, 1, b)))

    return g.loop(_STEPS[a.dtype], state, step)[0]


@op("gcd")
def gcd(g, self, other):
    return _divisor(g, *pair(g, self, other, g.dtype))


@op("lcm")
def lcm(g, self, other):
    a, b = pair(g, self, other, g.dtype)
    divisor = _divisor(g, a, b)
    none = g.Equal(divisor, 0)
    return g.where(none, 0, g.Abs(g.Div(a, g.where(none, 1, divisor)) * b))
