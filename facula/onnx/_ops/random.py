"""Random numbers: ONNX has its own generators, so what is drawn differs from what the program drew."""

from ._table import op
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
    result = g.Multinomial(logs, sample_size=num_samples, dtype=7)
    result.dtype = "int64"
    return result if self.rank == 2 else g.squeeze(result, 0)


@op("uniform")
def uniform(g, self, from_=0.0, to=1.0, **named):
    return g.RandomUniformLike(self, low=float(named.get("from", from_)), high=float(to))


@op("normal_")
def normal_(g, self, mean=0.0, std=1.0, **_):
    return g.RandomNormalLike(self, mean=float(mean), scale=float(std))
