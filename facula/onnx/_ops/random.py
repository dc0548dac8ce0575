"""Translate random numbers. ONNX has its own generators, so the drawn numbers differ from those of the program."""

import math

from ._table import op
from .create import filled
from .sort import ordered


@op("rand_like")
def rand_like(g, self, **_):
    return g.RandomUniformLike(self)


@op("randn_like")
def randn_like(g, self, **_):
    return g.RandomNormalLike(self)


def _blank(g, size):
    return g.Expand(g.constant(0.0, g.dtype), g.sizes(size))


@op("rand")
def rand(g, size, **_):
    return g.RandomUniformLike(_blank(g, size))


@op("randn")
def randn(g, size, **_):
    return g.RandomNormalLike(_blank(g, size))


@op("randint")
def randint(g, *args, **_):
    low, high, size = args if len(args) == 3 else (0, *args)
    draws = g.RandomUniformLike(g.Expand(g.constant(0.0), g.sizes(size)), low=float(low), high=float(high))
    return g.cast(g.Floor(draws), g.dtype)


@op("randint_like")
def randint_like(g, self, *bounds, **_):
    low, high = bounds if len(bounds) == 2 else (0, *bounds)
    draws = g.RandomUniformLike(g.cast(self, "float32"), low=float(low), high=float(high))
    return g.cast(g.Floor(draws), g.dtype)


@op("normal")
def normal(g, mean, std, *_, **__):
    if not hasattr(mean, "dtype") and not hasattr(std, "dtype"):
        return g.RandomNormalLike(_blank(g, g.shape), mean=float(mean), scale=float(std))
    like = mean if hasattr(mean, "dtype") else std
    return g.RandomNormalLike(like) * std + mean


@op("bernoulli")
def bernoulli(g, self, p=None, **_):
    return g.Bernoulli(self if p is None else g.expand(g.constant(float(p), self.dtype), g.shape_of(self)))


@op("multinomial")
def multinomial(g, self, num_samples, replacement=False, **_):
    if not replacement:  # the largest of log(p) + noise of Gumbel's distribution
        noise = -g.Log(-g.Log(g.RandomUniformLike(self)))
        return ordered(g, g.Log(self) + noise, num_samples, -1, True)[1]
    logs = g.Log(self if self.rank == 2 else g.unsqueeze(self, 0))
    # In ONNX's list of dtypes 7 is int64.
    result = g.Multinomial(logs, sample_size=num_samples, dtype=7)
    result.dtype = "int64"
    return result if self.rank == 2 else g.squeeze(result, 0)


@op("uniform")
def uniform(g, self, from_=0.0, to=1.0, **named):
    return g.RandomUniformLike(self, low=float(named.get("from", from_)), high=float(to))


@op("normal_")
def normal_(g, self, mean=0.0, std=1.0, **_):
    return g.RandomNormalLike(self, mean=float(mean), scale=float(std))


def _even(g, self):
    """Return the numbers above 0 and below 1, shaped as a tensor."""
    # The ends are left out because the functions applied to these numbers are infinite there.
    return g.RandomUniformLike(self if self.is_floating() else g.cast(self, "float32"), low=1e-7, high=1.0 - 1e-7)


def _drawn(g, self, value):
    return g.cast(value, self.dtype)


@op("exponential_")
def exponential_(g, self, lambd=1, **_):
    return _drawn(g, self, -g.Log(_even(g, self)) / float(lambd))


@op("cauchy_")
def cauchy_(g, self, median=0, sigma=1, **_):
    return _drawn(g, self, g.Tan((_even(g, self) - 0.5) * math.pi) * float(sigma) + float(median))


@op("geometric_")
def geometric_(g, self, p, **_):
    if p == 1:
        return filled(g, g.shape_of(self), 1, self.dtype)
    return _drawn(g, self, g.Ceil(g.Log(_even(g, self)) / math.log1p(-p)))


@op("log_normal_")
def log_normal_(g, self, mean=1, std=2, **_):
    return _drawn(g, self, g.Exp(g.RandomNormalLike(self, mean=float(mean), scale=float(std))))


@op("random_.from")
def random_from(g, self, low, high=None, **_):
    high = _most(self) if high is None else high
    draws = g.RandomUniformLike(self if self.is_floating() else g.cast(self, "float32"), low=float(low), high=float(high))
    return _drawn(g, self, g.Floor(draws))


def _most(self):
    # Up to these, all integers are exact in the dtype. Integers are drawn as float32, so they get no more than its 24
    # bits.
    return {"float32": 2**24, "float64": 2**53, "float16": 2**11, "bfloat16": 2**8}.get(self.dtype) or (
        2**23 if self.dtype in ("int64", "int32") else 127
    )


@op("random_.to")
def random_to(g, self, high, **_):
    return random_from(g, self, 0, high)


@op("random_")
def random_(g, self, **_):
    return random_from(g, self, 0)


@op("randperm")
def randperm(g, n, **_):
    draws = g.RandomUniformLike(g.Expand(g.constant(0.0), g.sizes([n])))
    draws.shape = (n,) if isinstance(n, int) else (None,)
    # The order of random numbers is a random permutation.
    return g.cast(g.TopK(draws, g.sizes([n]), axis=0, outputs=2)[1], g.dtype)
