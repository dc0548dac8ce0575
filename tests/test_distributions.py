"""facula.distributions: against SciPy, PyTorch's samples, expectations over samples, and definitions."""

import copy
import itertools
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from distribution_helpers import T, close, covariance, double
from scipy import special, stats

import facula as torch
import facula.distributions as D
from facula.distributions import constraints
from facula.distributions.kl import _KL_REGISTRY

GOLDEN = json.loads((Path(__file__).parent / "data" / "distributions_golden.json").read_text())


# ---- single numbers, against SciPy

A, B, LOC = (0.7, 2.0, 5.5), (1.5, 0.4, 3.0), (-1.0, 0.0, 2.5)
P = (0.2, 0.55, 0.9)
TABLE = {  # parameters, SciPy's distribution of them
    "Bernoulli": ([P], lambda p: stats.bernoulli(p)),
    "Beta": ([A, B], lambda a, b: stats.beta(a, b)),
    "Binomial": ([(9.0, 9.0, 9.0), P], lambda n, p: stats.binom(n, p)),
    "Cauchy": ([LOC, B], lambda m, s: stats.cauchy(m, s)),
    "Chi2": ([A], lambda k: stats.chi2(k)),
    "Exponential": ([A], lambda r: stats.expon(scale=1 / r)),
    "FisherSnedecor": ([A, (5.0, 6.5, 9.0)], lambda m, n: stats.f(m, n)),
    "Gamma": ([A, B], lambda a, r: stats.gamma(a, scale=1 / r)),
    "GeneralizedPareto": ([LOC, B, (-0.4, 0.3, 0.1)], lambda m, s, c: stats.genpareto(c, m, s)),
    "Geometric": ([P], lambda p: stats.geom(p, loc=-1)),
    "Gumbel": ([LOC, B], lambda m, s: stats.gumbel_r(m, s)),
    "HalfCauchy": ([B], lambda s: stats.halfcauchy(scale=s)),
    "HalfNormal": ([B], lambda s: stats.halfnorm(scale=s)),
    "InverseGamma": ([(2.5, 3.0, 5.0), B], lambda a, r: stats.invgamma(a, scale=r)),
    "Laplace": ([LOC, B], lambda m, s: stats.laplace(m, s)),
    "LogNormal": ([LOC, B], lambda m, s: stats.lognorm(s, scale=np.exp(m))),
    "NegativeBinomial": ([A, P], lambda n, p: stats.nbinom(n, 1 - p)),
    "Normal": ([LOC, B], lambda m, s: stats.norm(m, s)),
    "Pareto": ([B, (2.5, 3.0, 5.0)], lambda s, a: stats.pareto(a, scale=s)),
    "Poisson": ([A], lambda r: stats.poisson(r)),
    "StudentT": ([(2.5, 3.0, 9.0), LOC, B], lambda k, m, s: stats.t(k, m, s)),
    "Uniform": ([LOC, (0.0, 0.5, 7.0)], lambda a, b: stats.uniform(a, b - a)),
    "VonMises": ([(-1.0, 0.0, 2.5), B], lambda m, k: stats.vonmises(k, m)),
    "Weibull": ([B, A], lambda s, k: stats.weibull_min(k, scale=s)),
}
DISCRETE = {"Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"}


def pair(name):
    parameters, scipy_family = TABLE[name]
    return getattr(D, name)(*(double(*p) for p in parameters)), scipy_family(*map(np.array, parameters))


def values_of(name, reference):
    if name in DISCRETE:
        return np.arange(2 if name == "Bernoulli" else 6, dtype=float)[:, None] + np.zeros(3)
    return reference.ppf(np.array([[0.03], [0.4], [0.8], [0.99]]))


@pytest.mark.parametrize("name", TABLE)
def test_log_prob(name):
    ours, reference = pair(name)
    values = values_of(name, reference)
    expected = reference.logpmf(values) if name in DISCRETE else reference.logpdf(values)
    close(ours.log_prob(torch.tensor(values)), expected)


@pytest.mark.parametrize("name", TABLE)
def test_moments(name):
    ours, reference = pair(name)
    if name == "VonMises":
        kappa = ours.concentration.numpy()
        close(ours.variance, 1 - special.i1(kappa) / special.i0(kappa))
        return
    if name not in ("Cauchy", "HalfCauchy"):
        close(ours.mean, reference.mean())
        close(ours.variance, reference.var())
        close(ours.stddev, reference.std())
    if name not in ("FisherSnedecor", "NegativeBinomial", "Poisson", "VonMises"):
        expected = [TABLE[name][1](*p).entropy() for p in zip(*TABLE[name][0], strict=True)]
        close(ours.entropy(), expected, rtol=1e-6)
        close(ours.perplexity(), np.exp(expected), rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in TABLE if "cdf" in vars(getattr(D, n)) or n in ("Gumbel", "LogNormal", "Pareto", "Weibull")])
def test_cdf(name):
    ours, reference = pair(name)
    values = values_of(name, reference)
    close(ours.cdf(torch.tensor(values)), reference.cdf(values))
    if name != "Gamma":
        u = np.array([[0.02], [0.5], [0.97]]) + np.zeros(3)
        close(ours.icdf(torch.tensor(u)), reference.ppf(u))


@pytest.mark.parametrize("name", TABLE)
def test_samples_follow_the_distribution(name):
    torch.manual_seed(2)
    ours, reference = pair(name)
    samples = ours.sample((4000,)).numpy()
    for i, p in enumerate(zip(*TABLE[name][0], strict=True)):
        one = TABLE[name][1](*p)
        if name in DISCRETE:
            bound = 5 * math.sqrt(one.var() / 4000)
            assert abs(samples[:, i].mean() - one.mean()) < bound
            assert abs((samples[:, i] == 0).mean() - one.pmf(0)) < 0.05
        elif name == "VonMises":
            assert abs(np.sin(samples[:, i] - p[0]).mean()) < 0.05
            assert abs(np.cos(samples[:, i] - p[0]).mean() - special.i1(p[1]) / special.i0(p[1])) < 0.05
        else:
            assert stats.kstest(samples[:, i], one.cdf).pvalue > 1e-3


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["call"].split("(")[0])
def test_samples_are_pytorchs(row):
    torch.manual_seed(11)
    sample = eval(row["call"], {"torch": torch, **vars(D)}).sample((3,))
    assert list(sample.shape) == row["shape"]
    np.testing.assert_allclose(sample.double().flatten()[:8].numpy(), row["values"], rtol=2e-6, atol=2e-6)


def test_log_prob_integrates_to_one():
    """Of families that SciPy does not have."""
    x = torch.linspace(0, 1, 20001, dtype=torch.float64)[1:-1]
    for one in (
        D.Kumaraswamy(double(2.0), double(3.5)),
        D.ContinuousBernoulli(double(0.2)),
        D.ContinuousBernoulli(double(0.4999)),
        D.RelaxedBernoulli(torch.tensor(0.9, dtype=torch.float64), double(0.3)),
    ):
        density = one.log_prob(x).exp()
        assert abs(torch.trapezoid(density, x).item() - 1) < 2e-3
        if not isinstance(one, D.RelaxedBernoulli):
            close(one.mean, [torch.trapezoid(density * x, x).item()], rtol=1e-3)
            close(one.entropy(), [-torch.trapezoid(density * density.log(), x).item()], rtol=2e-3, atol=1e-3)
            close(one.cdf(x[10000:10001]), [torch.trapezoid(density[:10001], x[:10001]).item()], rtol=2e-3)


# ---- derivatives


def test_implicit_gradients():
    """Against differences of quantiles."""
    for a, u in itertools.product((0.05, 0.7, 3.0, 80.0, 7000.0), (0.01, 0.5, 0.97)):
        x, h = special.gammaincinv(a, u), a * 1e-4
        slope = (special.gammaincinv(a + h, u) - special.gammaincinv(a - h, u)) / (2 * h)
        close(torch._standard_gamma_grad(double(a), double(x)), [slope], rtol=1e-4)
        for b in (0.4, 2.0, 60.0):
            x = special.betaincinv(a, b, u)
            if 1e-100 < x < 1 - 1e-7:
                slope = (special.betaincinv(a + h, b, u) - special.betaincinv(a - h, b, u)) / (2 * h) / (1 - x)
                close(torch._dirichlet_grad(double(x), double(a), double(a + b)), [slope], rtol=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: D.Gamma(t, 2.0), lambda t: D.Beta(t, 2.0), lambda t: D.Chi2(t), lambda t: D.StudentT(t + 6, t, t),
        lambda t: D.FisherSnedecor(t, t + 10), lambda t: D.InverseGamma(t + 3, 1.0), lambda t: D.Normal(t, t),
        lambda t: D.Exponential(t), lambda t: D.Laplace(t, t), lambda t: D.Gumbel(t, t), lambda t: D.Uniform(-t, 2 * t),
        lambda t: D.Weibull(t, 2.0), lambda t: D.Pareto(t, 7.0), lambda t: D.Kumaraswamy(t, 2.0), lambda t: D.LogNormal(t, 0.3),
        lambda t: D.HalfNormal(t), lambda t: D.ContinuousBernoulli(t / 10), lambda t: D.Dirichlet(torch.stack([t, 2 * t, t * t], -1)),
        lambda t: D.MultivariateNormal(torch.stack([t, t], -1), scale_tril=torch.eye(2, dtype=torch.float64) * 2),
        lambda t: D.GeneralizedPareto(0.0, t, 0.1), lambda t: D.LowRankMultivariateNormal(t[..., None], t[..., None, None], t[..., None]),
    ],
)  # fmt: skip
def test_rsample_has_the_gradient_of_the_mean(make):
    torch.manual_seed(1)
    t = double(1.3).requires_grad_()
    distribution = make(t)
    assert distribution.has_rsample
    (expected,) = torch.autograd.grad(distribution.mean.sum(), t, retain_graph=True)
    (found,) = torch.autograd.grad(distribution.rsample((40000,)).mean(0).sum(), t)
    close(found, expected.numpy(), rtol=0.1, atol=0.03)


def test_no_second_derivative_of_samples():
    t = double(1.3).requires_grad_()
    (first,) = torch.autograd.grad(D.Gamma(t, 1.0).rsample().sum(), t, create_graph=True)
    with pytest.raises(NotImplementedError, match="_standard_gamma_grad"):
        first.sum().backward()


def test_score_gradients():
    t = double(0.4, 1.7).requires_grad_()
    for make in (D.Poisson, D.Exponential, D.Chi2, lambda t: D.VonMises(0.3, t), lambda t: D.Beta(t, 2 * t)):
        x = double(1.0, 4.0) if make is D.Poisson else double(0.9, 0.45)
        assert torch.autograd.gradcheck(lambda t, make=make, x=x: make(t).log_prob(x), (t,))


# ---- divergences


def examples():
    """Two distributions of each family."""
    one, two = double(0.8, 1.9), double(1.4, 0.6)
    W, matrix = torch.tensor([[1.0], [0.5]], dtype=torch.float64), torch.tensor(covariance(2))
    return {
        D.Bernoulli: [D.Bernoulli(double(0.2, 0.7)), D.Bernoulli(double(0.5, 0.9))],
        D.Beta: [D.Beta(one + 1, two + 1), D.Beta(two + 1, one + 1)],
        D.Binomial: [D.Binomial(7, double(0.2, 0.7)), D.Binomial(7, double(0.5, 0.9))],
        D.Categorical: [D.Categorical(logits=one), D.Categorical(logits=two)],
        D.Cauchy: [D.Cauchy(one, two), D.Cauchy(two, one)],
        D.ContinuousBernoulli: [D.ContinuousBernoulli(double(0.2, 0.7)), D.ContinuousBernoulli(double(0.5, 0.9))],
        D.Dirichlet: [D.Dirichlet(one), D.Dirichlet(two)],
        D.Exponential: [D.Exponential(one), D.Exponential(two)],
        D.ExponentialFamily: [D.Wishart(double(4.0, 5.5), matrix), D.Wishart(double(5.0, 6.0), 2 * matrix)],
        D.Gamma: [D.Gamma(one + 1, two), D.Gamma(two + 1, one)],
        D.Geometric: [D.Geometric(double(0.2, 0.7)), D.Geometric(double(0.5, 0.9))],
        D.Gumbel: [D.Gumbel(one, one + 1), D.Gumbel(two, two + 1)],
        D.HalfNormal: [D.HalfNormal(one), D.HalfNormal(two)],
        D.Independent: [D.Independent(D.Normal(one, two), 1), D.Independent(D.Normal(two, one), 1)],
        D.Laplace: [D.Laplace(one, two), D.Laplace(two, one)],
        D.LowRankMultivariateNormal: [D.LowRankMultivariateNormal(one, W, two), D.LowRankMultivariateNormal(two, 2 * W, one)],
        D.MultivariateNormal: [D.MultivariateNormal(one, matrix), D.MultivariateNormal(two, 3 * matrix)],
        D.Normal: [D.Normal(one, two), D.Normal(two, one)],
        D.OneHotCategorical: [D.OneHotCategorical(logits=one), D.OneHotCategorical(logits=two)],
        D.Pareto: [D.Pareto(two + 1, one + 6), D.Pareto(double(0.1, 0.2), two + 3)],
        D.Poisson: [D.Poisson(one + 4), D.Poisson(two + 4)],
        D.TransformedDistribution: [D.LogNormal(one, two), D.LogNormal(two, one)],
        D.Uniform: [D.Uniform(double(0.2, 0.3), double(0.7, 0.9)), D.Uniform(double(-1.0, 0.0), double(2.0, 1.5))],
    }


@pytest.mark.parametrize("kinds", _KL_REGISTRY, ids=lambda k: f"{k[0].__name__}-{k[1].__name__}")
def test_kl_is_the_mean_log_quotient(kinds):
    torch.manual_seed(3)
    p, q = examples()[kinds[0]][0], examples()[kinds[1]][1]
    found = D.kl_divergence(p, q)
    assert found.shape == p.batch_shape
    if not found.isfinite().all():
        assert (found == math.inf).all()
        x = p.sample((3000,))
        assert not q.support.check(x).all(0).any()  # p leaves q's support
        return
    x = p.sample((5000,))
    terms = p.log_prob(x) - q.log_prob(x)
    error = terms.std(0) / 5000**0.5
    assert ((found - terms.mean(0)).abs() < 5 * error + 1e-6).all()
    if kinds[0] is kinds[1]:
        close(D.kl_divergence(p, p), np.zeros(p.batch_shape), atol=1e-9)


def test_kl_at_the_edges():
    inf = math.inf
    assert D.kl_divergence(D.Bernoulli(double(0.0, 1.0, 0.5)), D.Bernoulli(double(0.0, 0.0, 1.0))).tolist() == [0, inf, inf]
    assert D.kl_divergence(D.Poisson(double(0.0, 0.0)), D.Poisson(double(0.0, 2.0))).tolist() == [0, 2]
    assert D.kl_divergence(D.Categorical(double(0.0, 1.0)), D.Categorical(double(1.0, 0.0))).item() == inf
    assert D.kl_divergence(D.Uniform(0.0, 1.0), D.Pareto(0.5, 1.0)).item() == inf
    assert D.kl_divergence(D.Pareto(1.0, 0.9), D.Exponential(1.0)).item() == inf
    assert D.kl_divergence(D.Normal(torch.zeros(3, 1), 1.0), D.Normal(torch.zeros(2), 1.0)).shape == (3, 2)


def test_register_kl():
    class Mine(D.Normal):
        pass

    class Other(D.Normal):
        pass

    one, other = Mine(0.0, 1.0), Other(0.0, 1.0)
    assert D.kl_divergence(one, other).item() == 0  # by the parents
    try:
        D.register_kl(Mine, D.Normal)(lambda p, q: "p")
        assert D.kl_divergence(one, other) == "p"
        D.register_kl(D.Normal, Other)(lambda p, q: "q")
        with pytest.warns(RuntimeWarning, match="ambiguous"):
            assert D.kl_divergence(one, other) == "p"
    finally:
        for key in [key for key in _KL_REGISTRY if Mine in key or Other in key]:
            del _KL_REGISTRY[key]


# ---- shapes, checks, the class protocol


def more_examples():
    """Families that neither table has."""
    two, temperature = double(1.4, 0.6), double(0.7)[0]
    return [
        D.LKJCholesky(3, two), D.Kumaraswamy(two, two), D.LogisticNormal(two, two), D.Multinomial(3, two),
        D.RelaxedBernoulli(temperature, two / 2), D.RelaxedOneHotCategorical(temperature, two),
        D.OneHotCategoricalStraightThrough(two), D.MixtureSameFamily(D.Categorical(two), D.Normal(two.repeat(3, 1), 1.0)),
        D.TransformedDistribution(D.Normal(two, 1.0), [T.AffineTransform(two, 2.0), T.TanhTransform()]),
    ]  # fmt: skip


def test_shapes_and_expand():
    singles = (pair(name)[0] for name in TABLE)
    for distribution in (*(both[0] for both in examples().values()), *singles, *more_examples()):
        batch, event = distribution.batch_shape, distribution.event_shape
        assert distribution.sample().shape == batch + event
        assert distribution.sample((2, 3)).shape == (2, 3) + batch + event
        larger = distribution.expand((4, *batch))
        assert type(larger) is type(distribution) and larger.batch_shape == (4, *batch) and larger.event_shape == event
        x = distribution.sample()
        expected = distribution.log_prob(x).expand((4, *batch))
        close(larger.log_prob(x), expected.detach().numpy())
        close(copy.deepcopy(larger).log_prob(x), expected.detach().numpy())
        close(pickle.loads(pickle.dumps(distribution)).log_prob(x), distribution.log_prob(x).numpy())
        if batch:
            with pytest.raises(RuntimeError):
                distribution.expand((*batch[:-1], batch[-1] + 1))


def test_subclasses():
    class Unit(D.Normal):
        def __init__(self, loc):
            super().__init__(loc, torch.ones(()))

    with pytest.raises(NotImplementedError, match="expand: Unit"):
        Unit(torch.zeros(2)).expand((3, 2))

    class Expandable(Unit):
        def expand(self, batch_shape, _instance=None):
            return super().expand(batch_shape, self._get_checked_instance(Expandable, _instance))

    assert isinstance(Expandable(torch.zeros(2)).expand((3, 2)), Expandable)


def test_exponential_families():
    """Entropy and divergence from the log-normalizer alone agree with the closed forms."""
    for kind in (D.Bernoulli, D.Beta, D.Dirichlet, D.Exponential, D.Gamma, D.Normal, D.ContinuousBernoulli):
        p, q = examples()[kind]
        from_normalizer = _KL_REGISTRY[D.ExponentialFamily, D.ExponentialFamily](p, q)
        close(from_normalizer, D.kl_divergence(p, q).numpy(), rtol=1e-6)
        if kind not in (D.Beta, D.Dirichlet):
            close(D.ExponentialFamily.entropy(p), p.entropy().numpy(), rtol=1e-6)


def test_repr():
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert repr(D.Normal(torch.zeros(2), 1.0)) == "Normal(loc: torch.Size([2]), scale: torch.Size([2]))"
    assert repr(D.Independent(D.Bernoulli(torch.ones(2)), 1)) == "Independent(Bernoulli(probs: torch.Size([2])), 1)"
    assert repr(constraints.interval(0, 1)) == "Interval(lower_bound=0, upper_bound=1)"


ERRORS = [
    (lambda: D.Normal(0.0, -1.0), ValueError, r"Normal: expected parameter scale .* GreaterThan\(lower_bound=0.0\), got -1.0"),
    (lambda: D.Normal("a", 1.0), ValueError, "broadcast_all: .* got str"),
    (lambda: D.Normal(torch.zeros(2), torch.ones(3)), RuntimeError, "broadcast"),
    (lambda: D.Normal(0.0, 1.0).log_prob(1.0), ValueError, "Normal: a value must be a tensor, got float"),
    (lambda: D.Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3)), ValueError, r"Normal: .* got shape \(3,\)"),
    (lambda: D.Dirichlet(torch.ones(3)).log_prob(torch.ones(2)), ValueError, r"Dirichlet: expected a value of shape"),
    (lambda: D.Exponential(1.0).log_prob(torch.tensor(-1.0)), ValueError, "Exponential: .* within GreaterThanEq"),
    (lambda: D.Categorical(), ValueError, "either probs or logits, got neither"),
    (lambda: D.Bernoulli(0.5, 0.5), ValueError, "either probs or logits, got both"),
    (lambda: D.Categorical(torch.tensor([-1.0, 2.0])), ValueError, "Simplex"),
    (lambda: D.Geometric(0.0), ValueError, "greater than 0, got"),
    (lambda: D.Uniform(1.0, 0.0), ValueError, "LessThan"),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1), ValueError, "at most 0, got 1"),
    (lambda: D.LKJCholesky(1), ValueError, "got 1"),
    (lambda: D.MultivariateNormal(torch.zeros(2)), ValueError, "exactly one"),
    (lambda: D.MultivariateNormal(torch.zeros(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]])), ValueError, "PositiveDefinite"),
    (lambda: D.LowRankMultivariateNormal(torch.zeros(3), torch.ones(2, 2), torch.ones(3)), ValueError, "cov_factor"),
    (lambda: D.MixtureSameFamily(D.Categorical(torch.ones(3)), D.Normal(torch.zeros(2), 1.0)), ValueError, "do not fit"),
    (lambda: D.Multinomial(torch.tensor(3), torch.ones(2)), NotImplementedError, "total_count"),
    (lambda: D.Wishart(1.0, torch.eye(3)), ValueError, "greater than 2"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3), ValueError, "got 3"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), T.StickBreakingTransform()), ValueError, "at least 1"),
    (lambda: D.Bernoulli(0.5).rsample(), NotImplementedError, "Bernoulli.rsample"),
    (lambda: D.Gamma(1.0, 1.0).icdf(torch.tensor(0.5)), NotImplementedError, "Gamma.icdf"),
    (lambda: D.Binomial(torch.tensor([2.0, 3.0]), torch.ones(2)).enumerate_support(), NotImplementedError, "total_count"),
    (lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0)), NotImplementedError, "Normal and q of Cauchy"),
    (lambda: D.register_kl(3, D.Normal), TypeError, "got 3"),
    (lambda: D.biject_to(constraints.boolean), NotImplementedError, "Boolean"),
    (lambda: D.Distribution.set_default_validate_args(3), ValueError, "got 3"),
    (lambda: T.ExpTransform(cache_size=2), ValueError, "got 2"),
    (lambda: T.CorrCholeskyTransform().forward_shape((4,)), ValueError, r"got shape \(4,\)"),
    (lambda: T.AbsTransform().log_abs_det_jacobian(1, 1), NotImplementedError, "AbsTransform"),
    (lambda: torch._standard_gamma(torch.ones(3, dtype=torch.int64)), NotImplementedError, "_standard_gamma: .* got .*int64"),
    (lambda: torch._sample_dirichlet(torch.tensor(1.0)), RuntimeError, "Dirichlet: expected at least one dimension"),
]  # fmt: skip


@pytest.mark.parametrize("row", ERRORS)
def test_errors(row):
    call, kind, text = row
    with pytest.raises(kind, match=text):
        call()


def test_validation_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert D.Uniform(0.0, 1.0, validate_args=False).log_prob(torch.tensor(3.0)).item() == -math.inf
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)


def test_import_is_lazy():
    code = "import sys, facula; assert 'facula.distributions' not in sys.modules; facula.distributions.Normal"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_class_beside_distribution_is_made_too():
    class Beside:
        def __init__(self):
            self.made = True
            super().__init__()

    class Both(D.Distribution, Beside):
        arg_constraints = {}

    assert Both(validate_args=False).made


def test_dirichlet_draws_of_tiny_concentrations():
    for concentration in (1e-6, 1e-30):
        draws = D.Dirichlet(torch.full((3,), concentration)).sample((50,))
        assert not draws.isnan().any()
        torch.testing.assert_close(draws.sum(-1), torch.ones(50))
        assert not D.Beta(torch.tensor(concentration), torch.tensor(concentration)).sample((50,)).isnan().any()
    assert D.Gamma(2.0, 1.0).log_prob(1).item() == D.Gamma(2.0, 1.0).log_prob(torch.tensor(1.0)).item()
