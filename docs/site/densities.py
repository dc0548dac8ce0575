"""Densities and probabilities of distributions on the API's pages."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter

from curves import axes, curves
from pictures import BLUE, COLORS, INK, ORANGE, add, plt

import facula
from facula import distributions


def density(make: Callable, values: dict[str, tuple], low: float, high: float, top: float | None = None) -> Callable[[], None]:
    """Return what draws the densities of distributions with several parameters."""

    def draw() -> None:
        x = facula.linspace(low, high, 400)
        lines = {}
        for label, parameters in values.items():
            found = make(*(facula.tensor(float(p)) for p in parameters), validate_args=False)
            inside = found.support.check(x)
            safe = facula.where(inside, x, x[inside][0])
            lines[label] = facula.where(inside, found.log_prob(safe).exp(), 0.0)
        curves(x, lines, "x", "density", ylim=(0, top))

    return draw


def counts(make: Callable, values: dict[str, tuple], last: int) -> Callable[[], None]:
    """Return what draws the probabilities of whole numbers."""

    def draw() -> None:
        made = axes()
        for at, (label, parameters) in enumerate(values.items()):
            x = facula.arange(0.0, last + 1)
            found = make(*(facula.tensor(p) for p in parameters), validate_args=False)
            places = [value + 0.16 * (at - (len(values) - 1) / 2) for value in x.tolist()]
            heights = facula.where(found.support.check(x), found.log_prob(x).exp(), 0.0).tolist()
            made.vlines(places, 0, heights, color=COLORS[at], linewidth=2.6, label=label)
        made.set(xlabel="k", ylabel="probability", ylim=(0, 1 if last == 1 else None), xticks=range(0, last + 1, 1 + last // 8))
        made.legend()

    return draw


D = distributions
DENSITIES = {
    "Beta": ({"(0.5, 0.5)": (0.5, 0.5), "(2, 2)": (2, 2), "(2, 5)": (2, 5)}, 0.003, 0.997, 3.2),
    "Cauchy": ({"scale 0.5": (0, 0.5), "scale 1": (0, 1), "scale 2": (0, 2)}, -6, 6, None),
    "Chi2": ({"df 1": (1,), "df 2": (2,), "df 4": (4,)}, 0.02, 10, 0.6),
    "ContinuousBernoulli": ({"probs 0.1": (0.1,), "probs 0.5": (0.5,), "probs 0.9": (0.9,)}, 0.001, 0.999, None),
    "Exponential": ({"rate 0.5": (0.5,), "rate 1": (1,), "rate 2": (2,)}, 0, 5, None),
    "FisherSnedecor": ({"(1, 1)": (1, 1), "(5, 2)": (5, 2), "(20, 20)": (20, 20)}, 0.02, 4, 1.4),
    "Gamma": ({"(1, 1)": (1, 1), "(2, 1)": (2, 1), "(5, 2)": (5, 2)}, 0.005, 8, None),
    "GeneralizedPareto": ({"concentration 0": (0, 1, 0), "concentration 0.5": (0, 1, 0.5), "concentration -0.5": (0, 1, -0.5)},
                          0.0, 5, None),
    "Gumbel": ({"(0, 1)": (0, 1), "(0, 2)": (0, 2), "(2, 1)": (2, 1)}, -4, 8, None),
    "HalfCauchy": ({"scale 0.5": (0.5,), "scale 1": (1,), "scale 2": (2,)}, 0, 6, None),
    "HalfNormal": ({"scale 0.5": (0.5,), "scale 1": (1,), "scale 2": (2,)}, 0, 5, None),
    "InverseGamma": ({"(1, 1)": (1, 1), "(2, 1)": (2, 1), "(3, 0.5)": (3, 0.5)}, 0.01, 3, None),
    "Kumaraswamy": ({"(0.5, 0.5)": (0.5, 0.5), "(2, 2)": (2, 2), "(2, 5)": (2, 5)}, 0.003, 0.997, 3.2),
    "Laplace": ({"(0, 0.5)": (0, 0.5), "(0, 1)": (0, 1), "(2, 1)": (2, 1)}, -5, 6, None),
    "LogNormal": ({"(0, 0.25)": (0, 0.25), "(0, 0.5)": (0, 0.5), "(0, 1)": (0, 1)}, 0.01, 4, None),
    "Normal": ({"(0, 0.5)": (0, 0.5), "(0, 1)": (0, 1), "(2, 1)": (2, 1)}, -4, 6, None),
    "Pareto": ({"(1, 1)": (1, 1), "(1, 2)": (1, 2), "(1, 3)": (1, 3)}, 0.5, 5, None),
    "RelaxedBernoulli": ({"temperature 0.3": (0.3, 0.5), "temperature 0.7": (0.7, 0.5), "temperature 2": (2, 0.5)},
                         0.004, 0.996, 4),
    "relaxed_bernoulli.LogitRelaxedBernoulli": (
        {"temperature 0.5": (0.5, 0.5), "temperature 1": (1, 0.5), "temperature 2": (2, 0.5)}, -6, 6, None,
    ),
    "StudentT": ({"df 1": (1,), "df 3": (3,), "df 30": (30,)}, -5, 5, None),
    "Uniform": ({"(0, 1)": (0, 1), "(1, 3)": (1, 3)}, -0.5, 3.5, 1.1),
    "VonMises": ({"concentration 0.5": (0, 0.5), "concentration 1": (0, 1), "concentration 4": (0, 4)}, -3.14, 3.14, None),
    "Weibull": ({"(1, 1)": (1, 1), "(1, 2)": (1, 2), "(2, 4)": (2, 4)}, 0.005, 4, None),
}  # fmt: skip
COUNTS = {
    "Bernoulli": ({"probs 0.3": (0.3,), "probs 0.7": (0.7,)}, 1),
    "Binomial": ({"(10, 0.3)": (10.0, 0.3), "(10, 0.7)": (10.0, 0.7)}, 10),
    "Geometric": ({"probs 0.2": (0.2,), "probs 0.5": (0.5,)}, 10),
    "NegativeBinomial": ({"(2, 0.5)": (2.0, 0.5), "(5, 0.5)": (5.0, 0.5)}, 14),
    "Poisson": ({"rate 1": (1.0,), "rate 4": (4.0,)}, 12),
    "Categorical": ({"probs (0.1, 0.2, 0.4, 0.3)": ([0.1, 0.2, 0.4, 0.3],)}, 3),
}  # fmt: skip
for _name, (_values, _low, _high, _top) in DENSITIES.items():
    add(
        f"distributions.{_name}",
        f"Densities of {_name} for several parameters: {', '.join(_values)}",
        density(attrgetter(_name)(D), _values, _low, _high, _top),
    )
for _name, (_values, _last) in COUNTS.items():
    add(
        f"distributions.{_name}",
        f"Probabilities of {_name} for several parameters: {', '.join(_values)}",
        counts(getattr(D, _name), _values, _last),
    )


def mixture() -> None:
    x = facula.linspace(-4, 6, 400)
    shares, means, scales = facula.tensor([0.4, 0.6]), facula.tensor([-1.0, 2.5]), facula.tensor([0.7, 1.0])
    whole = D.MixtureSameFamily(D.Categorical(shares), D.Normal(means, scales))
    parts = (shares * D.Normal(means, scales).log_prob(x[:, None]).exp()).unbind(1)
    curves(x, {"mixture": whole.log_prob(x).exp(), "first part": parts[0], "second part": parts[1]}, "x", "density")


add("distributions.MixtureSameFamily", "The density of a mixture of two normal distributions, and those of its parts", mixture)


def bell() -> None:
    made = axes(3.4, 3.0)
    line = facula.linspace(-3, 3, 121)
    x, y = facula.meshgrid(line, line, indexing="xy")
    found = D.MultivariateNormal(facula.zeros(2), facula.tensor([[1.0, 0.8], [0.8, 1.5]]))
    heights = found.log_prob(facula.stack([x, y], -1)).exp()
    made.contour(x.numpy(), y.numpy(), heights.numpy(), levels=7, colors=[BLUE], linewidths=1)
    samples = found.sample((120,))
    made.scatter(samples[:, 0].tolist(), samples[:, 1].tolist(), s=5, color=ORANGE, linewidth=0)
    made.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal")


add(
    "distributions.MultivariateNormal",
    "Lines of equal density of a normal distribution of two correlated numbers, and 120 samples",
    bell,
)


def simplex() -> None:
    _, all_axes = plt.subplots(1, 3, figsize=(6.4, 2.1))
    for made, values in zip(all_axes, ([0.5] * 3, [2.0, 2.0, 2.0], [6.0, 3.0, 1.0])):
        points = D.Dirichlet(facula.tensor(values)).sample((400,))
        made.plot([0, 1, 0.5, 0], [0, 0, math.sqrt(0.75), 0], color=INK, linewidth=0.8)
        x, y = points[:, 1] + points[:, 2] / 2, points[:, 2] * math.sqrt(0.75)
        made.scatter(x.tolist(), y.tolist(), s=4, color=BLUE, linewidth=0, alpha=0.7)
        made.set(aspect="equal", title=f"({', '.join(f'{v:g}' for v in values)})")
        made.axis("off")


add(
    "distributions.Dirichlet",
    "400 samples of Dirichlet in the triangle of three shares: at the corners and edges for (0.5, 0.5, 0.5), in the middle for "
    "(2, 2, 2), towards the first corner for (6, 3, 1)",
    simplex,
)
