"""Functions of mathematics that ONNX has not, by series and rational approximations in float32."""

import math

from ._table import op
from .elementwise import floating

#: Lanczos' coefficients for g = 7, n = 9 (Godfrey)
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def _polynomial(x, coefficients):
    """Horner's rule, the highest power first."""
    result = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        result = result * x + c
    return result


@op("lgamma special_gammaln")
def lgamma(g, self):
    x = floating(g, self)
    small = g.Less(x, 0.5)
    y = g.Where(small, 1.0 - x, x) - 1.0
    total = g.constant(_LANCZOS[0], x.dtype)
    for i, c in enumerate(_LANCZOS[1:], 1):
        total = c / (y + float(i)) + total
    t = y + 7.5
    value = (y + 0.5) * g.Log(t) - t + g.Log(total) + 0.5 * math.log(2 * math.pi)
    mirrored = math.log(math.pi) - g.Log(g.Abs(g.Sin((x - g.Floor(x)) * math.pi))) - value
    return g.where(g.Equal(g.Abs(x), math.inf), math.inf, g.Where(small, mirrored, value))


@op("mvlgamma special_multigammaln")
def mvlgamma(g, self, p):
    x = floating(g, self)
    total = g.constant(p * (p - 1) / 4 * math.log(math.pi), x.dtype)
    for i in range(p):
        total = lgamma(g, x - i / 2) + total
    return total


@op("digamma special_digamma special_psi")
def digamma(g, self):
    x = floating(g, self)
    small = g.Less(x, 0.0)
    y = g.Where(small, 1.0 - x, x)
    shift = 0.0
    for i in range(6):  # psi(y) = psi(y + 6) - 1/y - ... - 1/(y + 5)
        shift = 1.0 / (y + float(i)) + shift
    z = y + 6.0
    inverse = 1.0 / (z * z)
    series = inverse * _polynomial(inverse, (-1 / 252, 1 / 120, -1 / 12))
    value = g.Log(z) - 0.5 / z + series - shift
    fraction = (x - g.Floor(x)) * math.pi
    mirrored = value - math.pi * g.Cos(fraction) / g.Sin(fraction)
    result = g.Where(small, mirrored, value)
    whole = g.And(small, g.Equal(x, g.Floor(x)))
    return g.where(whole, math.nan, g.where(g.Equal(x, 0.0), -math.inf, result))


#: Giles, "Approximating the erfinv function" (2010), single precision: near the middle, and at the ends
_ERFINV_MIDDLE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727,
    1.50140941,
)  # fmt: skip
_ERFINV_ENDS = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406,
    2.83297682,
)  # fmt: skip


@op("erfinv special_erfinv")
def erfinv(g, self):
    x = floating(g, self)
    w = -g.Log((1.0 - x) * (1.0 + x))
    middle = _polynomial(w - 2.5, _ERFINV_MIDDLE)
    ends = _polynomial(g.Sqrt(g.Max(w, 0.0)) - 3.0, _ERFINV_ENDS)
    value = g.Where(g.Less(w, 5.0), middle, ends) * x
    return g.where(g.Equal(g.Abs(x), 1.0), g.Sign(x) * math.inf, value)


@op("special_ndtri")
def ndtri(g, self):
    return erfinv(g, floating(g, self) * 2.0 - 1.0) * math.sqrt(2)


#: Abramowitz and Stegun 9.8.1 and 9.8.2
_I0_SMALL = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_I0_LARGE = (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228)


@op("i0 special_i0")
def i0(g, self):
    x = g.Abs(floating(g, self))
    t = x / 3.75
    large = g.Max(x, 3.75)
    return g.Where(
        g.Less(x, 3.75), _polynomial(t * t, _I0_SMALL), g.Exp(large) / g.Sqrt(large) * _polynomial(3.75 / large, _I0_LARGE)
    )


@op("angle")
def angle(g, self):
    x = floating(g, self)
    return g.Where(g.IsNaN(x), x, g.where(g.Less(x, 0.0), g.constant(math.pi, x.dtype), 0.0))
