"""Distributions of vectors and matrices, against SciPy and definitions."""

import itertools
import math

import numpy as np
from distribution_helpers import close, covariance, double
from scipy import stats

import facula as torch
import facula.distributions as D
from facula.distributions import constraints


def test_multivariate_normal():
    loc, matrix = np.array([1.0, -2.0, 0.5]), covariance(3)
    x = np.random.default_rng(0).normal(size=(4, 3))
    reference = stats.multivariate_normal(loc, matrix)
    tensor = torch.tensor(matrix)
    for given in (
        {"covariance_matrix": tensor},
        {"precision_matrix": torch.linalg.inv(tensor)},
        {"scale_tril": torch.linalg.cholesky(tensor)},
    ):
        ours = D.MultivariateNormal(torch.tensor(loc), **given)
        close(ours.log_prob(torch.tensor(x)), reference.logpdf(x))
        close(ours.entropy(), reference.entropy())
        close(ours.covariance_matrix, matrix)
        close(ours.precision_matrix, np.linalg.inv(matrix))
        close(ours.scale_tril, np.linalg.cholesky(matrix))
        close(ours.variance, np.diag(matrix))


def test_multivariate_normal_batches():
    loc, matrices = torch.zeros(5, 1, 3, dtype=torch.float64), torch.tensor(covariance(3, 4))
    ours = D.MultivariateNormal(loc, matrices)
    assert ours.batch_shape == (5, 4) and ours.event_shape == (3,)
    x = ours.sample((2,))
    found = ours.log_prob(x)
    for i, j, k in itertools.product(range(2), range(5), range(4)):
        expected = stats.multivariate_normal(np.zeros(3), matrices[k].numpy()).logpdf(x[i, j, k].numpy())
        close(found[i, j, k], expected)


def test_low_rank_multivariate_normal():
    rng = np.random.default_rng(1)
    W, diagonal, loc = rng.normal(size=(4, 2)), rng.uniform(0.5, 2, 4), rng.normal(size=4)
    ours = D.LowRankMultivariateNormal(*(torch.tensor(v) for v in (loc, W, diagonal)))
    matrix = W @ W.T + np.diag(diagonal)
    x = rng.normal(size=(3, 4))
    reference = stats.multivariate_normal(loc, matrix)
    close(ours.log_prob(torch.tensor(x)), reference.logpdf(x))
    close(ours.entropy(), reference.entropy())
    close(ours.covariance_matrix, matrix)
    close(ours.precision_matrix, np.linalg.inv(matrix))
    close(ours.scale_tril, np.linalg.cholesky(matrix))
    torch.manual_seed(0)
    close(torch.cov(ours.sample((20000,)).T), matrix, rtol=0.1, atol=0.1)


def test_wishart():
    matrix, x = covariance(3), covariance(3) + np.eye(3)
    ours, reference = D.Wishart(double(5.5)[0], torch.tensor(matrix)), stats.wishart(5.5, matrix)
    close(ours.log_prob(torch.tensor(x)), reference.logpdf(x))
    close(ours.entropy(), reference.entropy())
    close(ours.mean, reference.mean())
    close(ours.variance, reference.var())
    close(ours.mode, reference.mode())
    torch.manual_seed(0)
    close(ours.sample((4000,)).mean(0), reference.mean(), rtol=0.1, atol=0.5)


def test_dirichlet_and_multinomial():
    a, p = np.array([0.7, 2.0, 3.5]), np.array([0.2, 0.3, 0.5])
    dirichlet, reference = D.Dirichlet(torch.tensor(a)), stats.dirichlet(a)
    close(dirichlet.log_prob(torch.tensor(p)), reference.logpdf(p))
    close(dirichlet.entropy(), reference.entropy())
    close(dirichlet.mean, reference.mean())
    close(dirichlet.variance, reference.var())
    multinomial, reference = D.Multinomial(6, torch.tensor(p)), stats.multinomial(6, p)
    close(multinomial.log_prob(double(1, 2, 3)), reference.logpmf([1, 2, 3]))
    close(multinomial.entropy(), reference.entropy())
    assert (multinomial.sample((50,)).sum(-1) == 6).all()


def test_lkj_cholesky():
    """dim 2: the correlation is 2 Beta(concentration, concentration) - 1."""
    ours = D.LKJCholesky(2, double(1.7)[0])
    torch.manual_seed(0)
    correlation = ours.sample((4000,))[:, 1, 0].numpy()
    assert stats.kstest((correlation + 1) / 2, stats.beta(1.7, 1.7).cdf).pvalue > 1e-3
    r = np.linspace(-0.9, 0.9, 5)
    factors = torch.tensor(np.array([[[1, 0], [c, math.sqrt(1 - c * c)]] for c in r]))
    # the factor's density is that of r times |dr / dr| = 1: only one element is free
    close(ours.log_prob(factors), stats.beta(1.7, 1.7).logpdf((r + 1) / 2) - math.log(2))
    assert constraints.corr_cholesky.check(D.LKJCholesky(5, 0.5).sample((20,))).all()


def test_categorical():
    p = torch.tensor([[0.2, 0.3, 0.5], [0.0, 0.9, 0.1]], dtype=torch.float64)
    ours = D.Categorical(p * 7)
    close(ours.probs, p.numpy())
    close(ours.log_prob(torch.tensor([2, 1])), np.log([0.5, 0.9]))
    close(ours.entropy(), [stats.entropy(row) for row in p.numpy()])
    assert ours.mode.tolist() == [2, 1]
    assert ours.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    close(D.OneHotCategorical(p).log_prob(torch.eye(3, dtype=torch.float64)[torch.tensor([2, 1])]), np.log([0.5, 0.9]))
    torch.manual_seed(0)
    close(D.OneHotCategorical(p).sample((5000,)).mean(0), p.numpy(), atol=0.04)
    logits = torch.randn(4, 3, requires_grad=True)
    D.OneHotCategoricalStraightThrough(logits=logits).rsample()[:, 0].sum().backward()
    close(logits.grad[:, 0], (D.Categorical(logits=logits).probs[:, 0] * (1 - D.Categorical(logits=logits).probs[:, 0])).detach(), 1e-5)


def test_mixture():
    torch.manual_seed(0)
    parts = D.Normal(double(-2.0, 0.0, 3.0), double(0.5, 1.0, 2.0))
    mixture = D.MixtureSameFamily(D.Categorical(double(0.2, 0.5, 0.3)), parts)
    x = mixture.sample((40000,))
    close(mixture.mean, x.mean().item(), atol=0.05)
    close(mixture.variance, x.var().item(), rtol=0.05)
    at = double(-1.0, 0.5)
    weights = np.array([0.2, 0.5, 0.3])
    each = stats.norm([-2, 0, 3], [0.5, 1, 2])
    close(mixture.log_prob(at), [np.log((weights * each.pdf(v)).sum()) for v in at.tolist()])
    close(mixture.cdf(at), [(weights * each.cdf(v)).sum() for v in at.tolist()])
    assert mixture.expand((2, 3)).sample((4,)).shape == (4, 2, 3)
    vectors = D.MixtureSameFamily(D.Categorical(torch.ones(5, 3)), D.Independent(D.Normal(torch.zeros(5, 3, 2), 1.0), 1))
    assert vectors.sample((4,)).shape == (4, 5, 2) and vectors.mean.shape == (5, 2)
    assert vectors.log_prob(torch.zeros(5, 2)).shape == (5,)
