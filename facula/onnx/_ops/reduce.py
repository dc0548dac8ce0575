"""Translate reductions, norms of vectors, statistics."""

import builtins
import math

from .._graph import Value
from ._table import op
from .elementwise import floating


def summed(g, value, dims=None, keepdim=False):
    return g.reduce("Sum", value, dims, keepdim)


def _dims(dim):
    return None if dim is None or dim == [] or dim == () else dim


@op("sum")
def sum(g, self, dim=None, keepdim=False, dtype=None):
    return summed(g, g.cast(self, g.dtype), _dims(dim), keepdim)


@op("nansum")
def nansum(g, self, dim=None, keepdim=False, dtype=None):
    self = g.where(g.IsNaN(self), 0.0, self) if self.is_floating() else self
    return sum(g, self, dim, keepdim)


@op("mean")
def mean(g, self, dim=None, keepdim=False, dtype=None):
    return g.reduce("Mean", floating(g, self), _dims(dim), keepdim)


@op("nanmean")
def nanmean(g, self, dim=None, keepdim=False, dtype=None):
    there = g.Not(g.IsNaN(self))
    return nansum(g, self, dim, keepdim) / summed(g, g.cast(there, self.dtype), _dims(dim), keepdim)


@op("prod")
def prod(g, self, dim=None, keepdim=False, dtype=None):
    return g.reduce("Prod", g.cast(self, g.dtype), _dims(dim), keepdim)


def extreme(g, kind, self, dim=None, keepdim=False):
    # ONNX reduces booleans from opset 20 on.
    if self.dtype != "bool":
        return g.reduce(kind, self, _dims(dim), keepdim)
    return g.cast(g.reduce(kind, g.cast(self, "int32"), _dims(dim), keepdim), "bool")


@op("amax")
def amax(g, self, dim=(), keepdim=False):
    return extreme(g, "Max", self, dim, keepdim)


@op("amin")
def amin(g, self, dim=(), keepdim=False):
    return extreme(g, "Min", self, dim, keepdim)


@op("aminmax")
def aminmax(g, self, dim=None, keepdim=False):
    return extreme(g, "Min", self, dim, keepdim), extreme(g, "Max", self, dim, keepdim)


def _arg(g, onnx, self, dim, keepdim):
    self = g.cast(self, "int32") if self.dtype == "bool" else self
    if not self.rank:
        return g.constant(0)
    if dim is not None:
        return getattr(g, onnx)(self, axis=dim, keepdims=int(keepdim))
    flat = getattr(g, onnx)(g.reshape(self, [-1]), axis=0, keepdims=0)
    return g.reshape(flat, [1] * self.rank) if keepdim else flat


@op("argmax")
def argmax(g, self, dim=None, keepdim=False):
    return _arg(g, "ArgMax", self, dim, keepdim)


@op("argmin")
def argmin(g, self, dim=None, keepdim=False):
    return _arg(g, "ArgMin", self, dim, keepdim)


@op("max")
def max(g, self, dim=None, keepdim=False):
    values = extreme(g, "Max", self, dim, keepdim)
    return values if dim is None else (values, argmax(g, self, dim, keepdim))


@op("min")
def min(g, self, dim=None, keepdim=False):
    values = extreme(g, "Min", self, dim, keepdim)
    return values if dim is None else (values, argmin(g, self, dim, keepdim))


@op("any")
def any(g, self, dim=None, keepdim=False):
    return g.cast(extreme(g, "Max", g.cast(g.cast(self, "bool"), "int32"), dim, keepdim), "bool")


@op("all")
def all(g, self, dim=None, keepdim=False):
    return g.cast(extreme(g, "Min", g.cast(g.cast(self, "bool"), "int32"), dim, keepdim), "bool")


@op("count_nonzero")
def count_nonzero(g, self, dim=None):
    return summed(g, g.cast(g.cast(self, "bool"), "int64"), _dims(dim))


def count(g, value, dims):
    """Return how many elements are reduced, as a number or a tensor of the value's dtype."""
    dims = range(value.rank) if dims is None else [dims] if isinstance(dims, int) else dims
    sizes = [g.size(value, d) for d in dims]
    if builtins.all(isinstance(s, int) for s in sizes):
        return float(math.prod(sizes))
    total = sizes[0] if isinstance(sizes[0], Value) else g.constant([sizes[0]])
    for size in sizes[1:]:
        total = total * size
    return g.cast(g.scalar(total), value.dtype)


def variance(g, self, dim, correction, keepdim):
    self, dims = floating(g, self), _dims(dim)
    number = count(g, self, dims)
    if number == 0.0:  # of nothing
        none = summed(g, self, dims, keepdim) * math.nan
        return none, none
    middle = g.reduce("Mean", self, dims, True)
    away = self - middle
    if isinstance(number, float):
        # Where elements are too few the division by zero gives NaN or infinity, as in PyTorch.
        below = number - correction if number > correction else 0.0
    else:
        below = g.Max(number - float(correction), 0.0)
    return summed(g, away * away, dims, keepdim) / below, (middle if keepdim else g.reduce("Mean", self, dims, False))


def _correction(unbiased, correction):
    return float((1 if unbiased else 0) if correction is None else correction)


def _statistics():
    for name in ("var", "std", "var_mean", "std_mean"):
        op(name)(lambda g, self, *args, name=name, **kwargs: _statistic(g, name, self, *args, **kwargs))


def _statistic(g, name, self, dim=None, unbiased=True, keepdim=False, correction=None):
    if isinstance(dim, bool):  # var(self, unbiased)
        dim, unbiased = None, dim
    if correction is None and not isinstance(unbiased, bool):
        unbiased, correction = True, unbiased
    spread, middle = variance(g, self, dim, _correction(unbiased, correction), keepdim)
    spread = g.Sqrt(spread) if name.startswith("std") else spread
    return (spread, middle) if name.endswith("mean") else spread


_statistics()


@op("linalg_vector_norm")
def linalg_vector_norm(g, x, ord=2, dim=None, keepdim=False, dtype=None):
    x, dims = floating(g, x), _dims(dim)
    if ord == 2:
        return g.reduce("L2", x, dims, keepdim)
    size = g.Abs(x)
    if ord == 1:
        return summed(g, size, dims, keepdim)
    if ord in (math.inf, -math.inf):
        return g.reduce("Max" if ord > 0 else "Min", size, dims, keepdim)
    if ord == 0:
        return summed(g, g.cast(g.cast(x, "bool"), x.dtype), dims, keepdim)
    return summed(g, g.Pow(size, float(ord)), dims, keepdim) ** (1 / float(ord))


@op("dist")
def dist(g, self, other, p=2):
    return linalg_vector_norm(g, self - other, p)


@op("renorm")
def renorm(g, self, p, dim, maxnorm):
    others = [d for d in range(self.rank) if d != dim % self.rank]
    sizes = linalg_vector_norm(g, self, p, others, True)
    # PyTorch adds 1e-7 to the norm as well.
    return self * g.where(g.Greater(sizes, float(maxnorm)), float(maxnorm) / (sizes + 1e-7), g.constant(1.0, self.dtype))


@op("logsumexp special_logsumexp")
def logsumexp(g, self, dim, keepdim=False):
    self = floating(g, self)
    highest = g.reduce("Max", self, dim, True)
    # Where the maximum is infinite nothing is subtracted: inf - inf would be NaN.
    highest = g.where(g.Equal(g.Abs(highest), math.inf), 0.0, highest)
    result = g.Log(summed(g, g.Exp(self - highest), dim, True)) + highest
    dims = [dim] if isinstance(dim, int) else list(dim)
    return result if keepdim or not self.rank else g.squeeze(result, *dims)


@op("trace")
def trace(g, self):
    from .shape import diagonal

    return summed(g, g.cast(diagonal(g, self), g.dtype))


@op("isin")
def isin(g, elements, test_elements, assume_unique=False, invert=False):
    from .compare import compare

    elements, tests = g.tensor(elements), g.tensor(test_elements)
    found = compare(g, "Equal", g.unsqueeze(elements, elements.rank), g.reshape(tests, [-1]))
    result = any(g, found, elements.rank)
    return g.Not(result) if invert else result


@op("allclose")
def allclose(g, self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    from .compare import isclose

    return all(g, isclose(g, self, other, rtol, atol, equal_nan))


@op("cov")
def cov(g, self, correction=1, fweights=None, aweights=None):
    x = floating(g, self)
    x = g.reshape(x, [1, -1]) if x.rank < 2 else x
    weights = [g.reshape(g.cast(w, x.dtype), [-1]) for w in (fweights, aweights) if w is not None]
    if not weights:
        number = count(g, x, 1)
        middle = summed(g, x, 1, True) / number
        below = g.Max(number - correction, 0.0) if isinstance(number, Value) else builtins.max(number - correction, 0.0)
        return _covariance(g, x - middle, x - middle, below)
    weight = weights[0] if len(weights) == 1 else weights[0] * weights[1]
    total = summed(g, weight)
    away = x - summed(g, x * weight, 1, True) / total
    less = total - float(correction)
    if aweights is not None:
        less = total - summed(g, weight * weights[-1]) / total * float(correction)
    return _covariance(g, away * weight, away, g.Max(less, 0.0))


def _covariance(g, a, b, number):
    result = g.MatMul(a, g.transpose(b, 0, 1)) / number
    return g.reshape(result, []) if a.shape[0] == 1 else result


@op("corrcoef")
def corrcoef(g, self):
    c = cov(g, self)
    if not c.rank:
        # With one variable the result is 1, or NaN where the variance is zero.
        return c / c
    from .shape import diagonal

    size = g.Sqrt(diagonal(g, c))
    # Rounding may lead slightly beyond 1.
    return g.clip(c / g.unsqueeze(size, 1) / g.unsqueeze(size, 0), -1.0, 1.0)
