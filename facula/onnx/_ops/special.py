"""Translate mathematical functions that ONNX lacks, by series and rational approximations in float32."""

import math

import numpy as np

from .._graph import Value
from ._table import op
from .elementwise import floating, pair

#: Lanczos' coefficients for g = 7, n = 9 (Godfrey)
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def _polynomial(x, coefficients):
    """Evaluate a polynomial by Horner's rule, the highest power first."""
    result = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        result = result * x + c
    return result


def in_double(function):
    """Compute in float64, where sums of large numbers that nearly cancel keep enough digits."""

    def translate(g, *args, **kwargs):
        dtype = g.dtype if g.dtype in ("float32", "float64", "float16", "bfloat16") else "float32"
        wide = [g.cast(a, "float64") if isinstance(a, Value) else a for a in args]
        g.dtype = "float64"
        result = function(g, *wide, **kwargs)
        g.dtype = dtype
        return g.cast(result, dtype)

    return translate


@op("lgamma special_gammaln")
@in_double
def lgamma(g, self):
    x = floating(g, self)
    small = g.Less(x, 0.5)
    # Lanczos' approximation holds from 0.5 on; smaller numbers are reflected below.
    y = g.Where(small, 1.0 - x, x) - 1.0
    total = g.constant(_LANCZOS[0], x.dtype)
    for i, c in enumerate(_LANCZOS[1:], 1):
        total = c / (y + float(i)) + total
    t = y + 7.5
    value = (y + 0.5) * g.Log(t) - t + g.Log(total) + 0.5 * math.log(2 * math.pi)
    # The reflection formula. The sine is periodic, and only the fraction is accurate for a large x.
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
@in_double
def digamma(g, self):
    x = floating(g, self)
    small = g.Less(x, 0.0)
    y = g.Where(small, 1.0 - x, x)
    shift = 0.0
    for i in range(6):  # psi(y) = psi(y + 6) - 1/y - ... - 1/(y + 5)
        shift = 1.0 / (y + float(i)) + shift
    z = y + 6.0
    inverse = 1.0 / (z * z)
    # The asymptotic series, for which z >= 6 is large enough; its coefficients are -B(2k) / 2k.
    series = inverse * _polynomial(inverse, (-1 / 252, 1 / 120, -1 / 12))
    value = g.Log(z) - 0.5 / z + series - shift
    fraction = (x - g.Floor(x)) * math.pi
    mirrored = value - math.pi * g.Cos(fraction) / g.Sin(fraction)
    result = g.Where(small, mirrored, value)
    whole = g.And(small, g.Equal(x, g.Floor(x)))
    result = g.where(g.Equal(x, math.inf), math.inf, result)
    # -1/x has the sign that PyTorch's result has: -inf at 0.0 and inf at -0.0.
    pole = g.Equal(x, 0.0)
    return g.where(whole, math.nan, g.Where(pole, -g.Reciprocal(x), result))


def _zeta(g, s, x, terms=12):
    """Compute Hurwitz' zeta by Euler and Maclaurin: `terms` terms, then the integral and corrections."""
    total = 0.0
    for k in range(terms):
        total = g.Pow(x + float(k), -s) + total
    y = x + float(terms)
    power = g.Pow(y, -s)
    total = total + power * (y / (s - 1.0) + 0.5)
    factor, inverse = s * power / y, 1.0 / (y * y)
    # The coefficients are B(2j) / (2j)!, with Bernoulli's numbers B.
    for j, bernoulli in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160), 1):
        total = total + factor * bernoulli
        factor = factor * inverse * (s + (2 * j - 1.0)) * (s + 2.0 * j)
    return total


@op("special_zeta")
@in_double
def zeta(g, self, other):
    s, x = pair(g, self, other, "float64")
    good = g.And(g.Greater(s, 1.0), g.Greater(x, 0.0))
    result = _zeta(g, g.where(good, s, 2.0), g.where(good, x, 1.0))
    whole = lambda v: g.Equal(v, g.Floor(v))
    pole = g.Or(g.Equal(s, 1.0), g.And(g.And(g.Greater(s, 1.0), g.LessOrEqual(x, 0.0)), whole(x)))
    # Below zero 32 terms are summed, so that the corrections start above zero for x > -32.
    below = g.And(g.And(g.Greater(s, 1.0), g.Less(x, 0.0)), whole(s))
    result = g.Where(good, result, g.where(below, _zeta(g, s, x, 32), math.nan))
    return g.where(pole, math.inf, result)


@op("polygamma special_polygamma")
def polygamma(g, n, self):
    return digamma(g, self) if n == 0 else _polygamma(g, n, self)


@in_double
def _polygamma(g, n, self):
    """Compute polygamma; numbers below 0.5 are reflected: what the two sides differ by is the n-th derivative of pi cot(pi
    x)."""
    x, s = floating(g, self), g.constant(float(n + 1), "float64")
    small, sign = g.Less(x, 0.5), 1.0 if n % 2 else -1.0
    value = _zeta(g, s, g.Where(small, 1.0 - x, x)) * float(math.factorial(n))
    if n == 1:
        value = g.where(g.Equal(x, math.inf), 0.0, value)
    away = x - g.Round(x)
    # The cosine is computed as a sine: it is accurate near its zeros then.
    cotangent = g.Sin((0.5 - g.Abs(away)) * math.pi) / g.Sin(away * math.pi)
    mirrored = _cotangent_derivative(n, cotangent) * -(math.pi ** (n + 1)) - value
    pole = g.And(g.LessOrEqual(x, 0.0), g.Equal(x, g.Floor(x)))
    return g.where(pole, math.inf * sign, g.Where(small, mirrored, value * sign))


def _cotangent_derivative(n, cotangent):
    """Return the n-th derivative of cot, a polynomial in cot: that of cot is -(1 + cot^2)."""
    factors = np.polynomial.Polynomial([0, 1])
    for _ in range(n):
        factors = factors.deriv() * np.polynomial.Polynomial([-1, 0, -1])
    return _polynomial(cotangent, tuple(map(float, reversed(factors.coef))))


# Enough for float64 where the series and the fraction converge slowest, near x = a; ONNX loops have no early end here.
_STEPS = 300


def _lower_part(g, a, x):
    """Return the series of the lower incomplete gamma function, for x below a + 1."""

    def step(g, i, term, total):
        term = term * x / (a + g.cast(i, "float64") + 1.0)
        return term, total + term

    first = g.Where(g.Equal(x, x), 1.0 / a, x)
    return g.loop(_STEPS, [first, first], step)[1]


def _upper_part(g, a, x):
    """Return the continued fraction of the upper one, for larger x (Lentz' method)."""
    # Lentz' method replaces zeros by a tiny number, so that it never divides by zero.
    tiny = 1e-300
    b = x + 1.0 - a
    d = 1.0 / b

    def step(g, i, b, c, d, made):
        k = g.cast(i, "float64") + 1.0
        factor = -k * (k - a)
        b = b + 2.0
        d = factor * d + b
        d = 1.0 / g.where(g.Less(g.Abs(d), tiny), tiny, d)
        c = b + factor / c
        c = g.where(g.Less(g.Abs(c), tiny), tiny, c)
        return b, c, d, made * c * d

    c = g.where(g.Equal(b, b), 1 / tiny, b)
    return g.loop(_STEPS, [b, c, d, d], step)[3]


def _incomplete(g, a, x, upper):
    """Return the regularized incomplete gamma functions."""
    a, x = pair(g, a, x, "float64")
    shape, like = g.Shape(a + x), (a + x).shape
    a, x = (g.Expand(v, shape) for v in (a, x))
    a.shape = x.shape = like
    below = g.Less(x, a + 1.0)
    good = g.And(g.And(g.Greater(x, 0.0), g.Greater(a, 0.0)), g.And(g.Less(x, math.inf), g.Less(a, math.inf)))
    # All branches are computed for all elements: where the formulas do not hold, 1 stands in and is replaced at the
    # end.
    one = lambda v: g.where(good, v, 1.0)
    # Either part gets numbers for which it converges where the other one's result is taken, too.
    start, end = g.Where(below, one(x), one(a)), g.where(g.Or(below, g.Not(good)), one(a) + 2.0, x)
    # x^a exp(-x) / gamma(a); the factors may overflow where their product does not, their logarithms do not.
    factor = g.Exp(one(a) * g.Log(one(x)) - one(x) - lgamma(g, one(a)))
    g.dtype = "float64"
    low = factor * _lower_part(g, one(a), start)
    high = factor * _upper_part(g, one(a), end)
    result = g.Where(below, 1.0 - low, high) if upper else g.Where(below, low, 1.0 - high)
    ended = g.Or(g.Equal(x, 0.0), g.Equal(x, math.inf))  # whatever the other number is
    nan = g.Or(g.And(g.IsNaN(x), g.Not(g.Equal(a, math.inf))), g.And(g.IsNaN(a), g.Not(ended)))
    bad = g.Or(g.Or(g.Less(x, 0.0), g.Less(a, 0.0)), nan)
    empty = g.Equal(x, 0.0)
    ends = 1.0 - g.cast(empty, "float64")  # the lower one: nothing, or all
    ends = g.where(g.And(g.Equal(a, math.inf), g.Not(g.Equal(x, math.inf))), 0.0, ends)
    unclear = g.Or(g.And(empty, g.Equal(a, 0.0)), g.And(g.Equal(a, math.inf), g.Equal(x, math.inf)))
    ends = g.where(g.Or(bad, unclear), math.nan, ends)
    return g.Where(good, result, 1.0 - ends if upper else ends)


@op("igamma special_gammainc")
@in_double
def igamma(g, self, other):
    return _incomplete(g, self, other, False)


@op("igammac special_gammaincc")
@in_double
def igammac(g, self, other):
    return _incomplete(g, self, other, True)


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
    # Near the ends the factors have digits that 1 - x^2 has lost.
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
    # Both formulas are computed for all elements, and the second one would divide by zero at 0.
    large = g.Max(x, 3.75)
    return g.Where(
        g.Less(x, 3.75), _polynomial(t * t, _I0_SMALL), g.Exp(large) / g.Sqrt(large) * _polynomial(3.75 / large, _I0_LARGE)
    )


@op("special_i0e")
def i0e(g, self):
    x = g.Abs(floating(g, self))
    t, large = g.Min(x, 3.75) / 3.75, g.Max(x, 3.75)
    small = _polynomial(t * t, _I0_SMALL) * g.Exp(-g.Min(x, 3.75))
    return g.Where(g.Less(x, 3.75), small, _polynomial(3.75 / large, _I0_LARGE) / g.Sqrt(large))


@op("special_log_ndtr")
@in_double
def log_ndtr(g, self):
    """Compute what is far below by the asymptotic series of the function's tail."""
    x = floating(g, self)
    far = g.Less(x, -5.0)
    safe = g.where(far, x, -5.0)
    inverse = 1.0 / (safe * safe)
    series = _polynomial(inverse, (10395.0, -945.0, 105.0, -15.0, 3.0, -1.0, 1.0))
    tail = safe * safe * -0.5 - g.Log(-safe) - 0.5 * math.log(2 * math.pi) + g.Log(series)
    near = g.where(far, 0.0, x)
    # erfc(|x| / sqrt(2)) is the regularized upper incomplete gamma function at (1/2, x^2 / 2).
    half = _incomplete(g, g.constant(0.5, "float64"), near * near * 0.5, True) * 0.5
    return g.Where(far, tail, g.Log(g.Where(g.Less(x, 0.0), half, 1.0 - half)))


@op("angle")
def angle(g, self):
    x = floating(g, self)
    return g.Where(g.IsNaN(x), x, g.where(g.Less(x, 0.0), g.constant(math.pi, x.dtype), 0.0))
