"""Compute Kullback-Leibler divergences in closed form.

KL(p || q) = E_p[log p(x) - log q(x)]. Pairs of one family have formulas of their own (the usual ones of the
literature). Pairs of different families are minus the entropy of p minus E_p[log q(x)], which for each q below needs
only a few expectations of p; the divergence is infinite where p has values outside of q's support.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import TYPE_CHECKING

import facula
from facula import Tensor

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, _batch_lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis, _log_diagonal
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula.distributions.distribution import Distribution

__all__ = ["register_kl", "kl_divergence"]

_KL_REGISTRY = {}  # (class of p, class of q): function


def register_kl(type_p: type, type_q: type) -> Callable[..., Any]:
    """Return a decorator: the function computes KL(p || q) for two classes of distributions and their subclasses.

    Of several functions that fit, kl_divergence takes the one of the nearest classes.

    Args:
        type_p: the class of p.
        type_q: the class of q.

    Returns: a decorator, which returns the function.

    Errors: TypeError for what is no class.

    >>> class Coin(torch.distributions.Bernoulli):
    ...     pass
    >>> @torch.distributions.register_kl(Coin, Coin)
    ... def _coins(p, q):
    ...     return torch.zeros(p.batch_shape)
    >>> torch.distributions.kl_divergence(Coin(0.5), Coin(0.25))
    tensor(0.)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):  # of any kind: packages bring hierarchies of their own
            raise TypeError(f"register_kl: expected classes, got {kind!r}")

    def decorator(function):
        _KL_REGISTRY[type_p, type_q] = function
        _dispatch.cache_clear()
        return function

    return decorator


@functools.cache
def _dispatch(type_p, type_q):
    """Return the function of the nearest classes; None where there is none.

    Nearness counts steps in the order of method resolution; that of p comes first, with a warning where that of q
    first would choose otherwise.
    """
    ranks = {
        (type_p.__mro__.index(p), type_q.__mro__.index(q)): function
        for (p, q), function in _KL_REGISTRY.items()
        if issubclass(type_p, p) and issubclass(type_q, q)
    }
    if not ranks:
        return None
    by_p, by_q = min(ranks), min(ranks, key=lambda rank: rank[::-1])
    if ranks[by_p] is not ranks[by_q]:
        pairs = [(type_p.__mro__[i].__name__, type_q.__mro__[j].__name__) for i, j in (by_p, by_q)]
        warnings.warn(
            f"kl_divergence({type_p.__name__}, {type_q.__name__}) is ambiguous: register_kl for these classes; "
            f"of {pairs[0]} and {pairs[1]} the first is taken",
            RuntimeWarning,
            stacklevel=3,
        )
    return ranks[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor | Any:
    """Return the Kullback-Leibler divergence ``KL(p || q) = E_p[log p(x) - log q(x)]`` of each pair in the batch, in nats.

    Args:
        p: the distribution of which the expectation is taken.
        q: the other one; the batch shapes broadcast.

    Returns: a tensor of the broadcast batch shape, in nats.

    Errors: NotImplementedError where no formula is registered for these classes.

    >>> from torch.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(torch.tensor([0.0, 1.0]), 1.0))
    tensor([0.0000, 0.5000])
    """
    function = _dispatch(type(p), type(q))
    if function is None:
        raise NotImplementedError(f"kl_divergence: no formula for p of {type(p).__name__} and q of {type(q).__name__}")
    return function(p, q)


# ---- pairs of one family


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    def one(of, logits_p, logits_q):  # of * log of the quotient of the probabilities
        ratio = facula.nn.functional.softplus(-logits_q) - facula.nn.functional.softplus(-logits_p)
        return facula.where(of == 0, 0.0, of * ratio)

    return _infinite_where(
        ((q.probs == 0) & (p.probs > 0)) | ((q.probs == 1) & (p.probs < 1)),
        one(p.probs, p.logits, q.logits) + one(1 - p.probs, -p.logits, -q.logits),
    )


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    """Return the divergence: infinite where p has more trials than q; not implemented where it has fewer."""
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            f"kl_divergence: two Binomials of as many trials are expected, got {p.total_count} and {q.total_count}"
        )
    found = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _infinite_where(p.total_count > q.total_count, found)


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms = facula.where(q.probs == 0, facula.inf, terms)
    return facula.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    return p.mean * (p.logits - q.logits) + p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()


@register_kl(Beta, Beta)
def _beta(p, q):
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normalizer = total.lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return normalizer + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio = p.scale / q.scale
    apart = (q.loc - p.loc) / q.scale
    return ratio * euler_constant + (apart + (ratio + 1).lgamma()).exp() - ratio.log() - (1 + euler_constant) - apart


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_where(p.scale < q.scale, found)


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return facula.xlogy(p.rate, p.rate) - facula.xlogy(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    return _infinite_where((q.low > p.low) | (q.high < p.high), ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    """Return the divergence (Chyzak and Nielsen 2019)."""
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p, q):
    """Return a Bregman divergence of the log-normalizer (Nielsen and Nock 2010); for two of the same class."""
    if type(p) is not type(q):
        raise NotImplementedError(f"kl_divergence: no formula for p of {type(p).__name__} and q of {type(q).__name__}")
    p_params = [param.detach().requires_grad_() for param in p._natural_params]
    q_params = q._natural_params
    with facula.enable_grad():
        log_normalizer = p._log_normalizer(*p_params)
        # The derivatives of the log-normalizer are the expectations of the sufficient statistics.
        slopes = facula.autograd.grad(log_normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q_params) - log_normalizer
    for p_param, q_param, slope in zip(p_params, q_params, slopes, strict=True):
        result = result - _sum_rightmost((q_param - p_param) * slope, p_param.dim() - len(p.batch_shape))
    return result


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence: Independent distributions of one reinterpreted_batch_ndims are expected, got "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    """Return the divergence of the bases, where both are transformed alike."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence: distributions with the same transforms are expected, got "
            f"{p.transforms} and {q.transforms}, event shapes {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), len(p.event_shape) - len(p.base_dist.event_shape))


# ---- multivariate normal distributions: (trace(Q^-1 P) + distance - n + log det Q - log det P) / 2


def _columns(factor, matrix):
    """Return trace((L L')^-1 M M') for factors L and any matrix M with as many rows."""
    batch = facula.broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
    matrix = matrix.expand(batch + matrix.shape[-2:])
    return facula.linalg.solve_triangular(factor.expand(batch + factor.shape[-2:]), matrix, upper=False).square().sum((-2, -1))


def _roots(p):
    """Return the matrices M of which the sum of M M' is the covariance."""
    if isinstance(p, MultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]


def _log_det(p):
    return 2 * _log_diagonal(p._unbroadcasted_scale_tril) if isinstance(p, MultivariateNormal) else p._logdet()


def _check_events(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence: expected equal event shapes, got {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _to_multivariate_normal(p, q):
    _check_events(p, q)
    factor = q._unbroadcasted_scale_tril
    trace = sum(_columns(factor, root) for root in _roots(p))
    distance = _batch_mahalanobis(factor, q.loc - p.loc)
    return 0.5 * (trace + distance - p.event_shape[0] + _log_det(q) - _log_det(p))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _to_low_rank(p, q):
    _check_events(p, q)
    W, D, capacitance = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q._capacitance_tril
    scaled = W.mT / D.unsqueeze(-2)
    trace = 0  # by Woodbury's identity
    for root in _roots(p):
        trace = trace + (root / D.sqrt().unsqueeze(-1)).square().sum((-2, -1)) - _columns(capacitance, scaled @ root)
    distance = _batch_lowrank_mahalanobis(W, D, q.loc - p.loc, capacitance)
    return 0.5 * (trace + distance - p.event_shape[0] + _log_det(q) - _log_det(p))


# ---- pairs of different families


def _infinite_where(condition, found):
    return facula.where(condition, facula.inf, found)


def _mean_log(p):
    """Return E[log x]."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1  # Uniform


def _mean_log_rest(p):
    """Return E[log(1 - x)] for x in [0, 1]."""
    if isinstance(p, Beta):
        return p.concentration0.digamma() - (p.concentration1 + p.concentration0).digamma()
    return (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / (p.high - p.low) - 1  # Uniform


def _mean_exp(p, slope):
    """Return E[exp(-slope x)] for slope > 0."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + slope)
    if isinstance(p, Gamma):
        return (1 + slope / p.rate).pow(-p.concentration)
    if isinstance(p, Normal):
        return (-slope * p.loc + 0.5 * (slope * p.scale).pow(2)).exp()
    return ((-slope * p.low).exp() - (-slope * p.high).exp()) / (slope * (p.high - p.low))  # Uniform


def _mean_distance(p, center):
    """Return E|x - center| of a normal x."""
    apart = p.loc - center
    z = apart / (p.scale * math.sqrt(2))
    return p.scale * math.sqrt(2 / math.pi) * (-z * z).exp() + apart * facula.erf(z)


def _x_log_x(x):
    return facula.special.xlogy(x, x)


_LOG_2_PI = math.log(2 * math.pi)
_MEAN_LOG_PROB = {  # E_p[log q(x)]
    Beta: lambda p, q: (
        (q.concentration1 - 1) * _mean_log(p)
        + (q.concentration0 - 1) * _mean_log_rest(p)
        - q._log_normalizer(q.concentration1, q.concentration0)
    ),
    ContinuousBernoulli: lambda p, q: p.mean * q.logits + (-q.probs).log1p() + q._log_norm(),
    Exponential: lambda p, q: q.rate.log() - q.rate * p.mean,
    Gamma: lambda p, q: (
        q.concentration * q.rate.log() - q.concentration.lgamma() + (q.concentration - 1) * _mean_log(p) - q.rate * p.mean
    ),
    Gumbel: lambda p, q: (
        (q.loc - p.mean) / q.scale - (q.loc / q.scale).exp() * _mean_exp(p, 1 / q.scale) - q.scale.log()
    ),
    Laplace: lambda p, q: -(2 * q.scale).log() - _mean_distance(p, q.loc) / q.scale,
    Normal: lambda p, q: -0.5 * (_LOG_2_PI + ((p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2))) - q.scale.log(),
    Pareto: lambda p, q: q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p),
    Poisson: lambda p, q: p.mean * q.rate.log() - q.rate,  # of p with values 0 and 1 only
    Uniform: lambda p, q: -(q.high - q.low).log(),
}
_FOREIGN = {  # for p of a class, whether it has values outside of q's support, by parameters; True: always
    Bernoulli: {Poisson: None},
    Beta: {
        ContinuousBernoulli: None, Exponential: None, Gamma: None, Normal: None, Pareto: True,
        Uniform: lambda p, q: (q.low > 0) | (q.high < 1),
    },
    ContinuousBernoulli: {
        Exponential: None, Normal: None, Pareto: True, Uniform: lambda p, q: (q.low > 0) | (q.high < 1),
    },
    Exponential: {
        Beta: True, ContinuousBernoulli: True, Gamma: None, Gumbel: None, Normal: None, Pareto: True, Uniform: True,
    },
    Gamma: {
        Beta: True, ContinuousBernoulli: True, Exponential: None, Gumbel: None, Normal: None, Pareto: True, Uniform: True,
    },
    Gumbel: {
        Beta: True, ContinuousBernoulli: True, Exponential: True, Gamma: True, Normal: None, Pareto: True, Uniform: True,
    },
    Laplace: {
        Beta: True, ContinuousBernoulli: True, Exponential: True, Gamma: True, Normal: None, Pareto: True, Uniform: True,
    },
    Normal: {
        Beta: True, ContinuousBernoulli: True, Exponential: True, Gamma: True, Gumbel: None, Laplace: None, Pareto: True,
        Uniform: True,
    },
    Pareto: {
        Beta: True, ContinuousBernoulli: True, Uniform: True,
        Exponential: lambda p, q: p.alpha <= 1, Gamma: lambda p, q: p.alpha <= 1, Normal: lambda p, q: p.alpha <= 2,
    },
    Poisson: {Bernoulli: True, Binomial: True},
    Uniform: {
        Beta: lambda p, q: (p.low < 0) | (p.high > 1),
        ContinuousBernoulli: lambda p, q: (p.low < 0) | (p.high > 1),
        Exponential: lambda p, q: p.low < 0, Gamma: lambda p, q: p.low < 0,
        Gumbel: None, Normal: None,
        Pareto: lambda p, q: p.low < q.scale,
    },
}  # fmt: skip


def _batch_of(p, q):
    return facula.broadcast_shapes(p.batch_shape, q.batch_shape)


def _always_infinite(p, q):
    model = next(iter(p.__dict__[name] for name in p.arg_constraints if name in p.__dict__), None)
    model = p.mean if model is None else model
    return model.new_full(_batch_of(p, q), facula.inf)


def _by_expectation(mean_log_prob, outside, p, q):
    found = -p.entropy() - mean_log_prob(p, q)
    return found if outside is None else _infinite_where(outside(p, q), found)


for _p, _targets in _FOREIGN.items():
    for _q, _outside in _targets.items():
        if _outside is True:
            register_kl(_p, _q)(_always_infinite)
        else:
            register_kl(_p, _q)(functools.partial(_by_expectation, _MEAN_LOG_PROB[_q], _outside))
