"""Define the multivariate normal distribution of a covariance of low rank plus a diagonal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import SymmetricAroundLoc
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv, _log_diagonal
from .utils import _standard_normal, lazy_property

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W, D):
    """Return the Cholesky factor of I + W' D^-1 W."""
    scaled = W.mT / D.unsqueeze(-2)
    return facula.linalg.cholesky(scaled @ W + facula.eye(W.shape[-1], dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(W, D, capacitance_tril):
    """Return log det(W W' + D), by the matrix determinant lemma."""
    return 2 * _log_diagonal(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W, D, x, capacitance_tril):
    """Return x' (W W' + D)^-1 x, by Woodbury's identity."""
    scaled = W.mT / D.unsqueeze(-2)
    return (x.square() / D).sum(-1) - _batch_mahalanobis(capacitance_tril, _batch_mv(scaled, x))


class LowRankMultivariateNormal(SymmetricAroundLoc, Distribution):
    """Represent normal vectors of covariance ``cov_factor @ cov_factor.mT + diag(cov_diag)``, whose cost grows with n
    m**2.

    Args:
        loc: the mean, (..., n).
        cov_factor: (..., n, m) with m much smaller than n.
        cov_diag: (..., n), positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: loc and cov_diag (*batch_shape, n), cov_factor (*batch_shape, n, m); the event shape is (n,), so a sample is
    (*sample_shape, *batch_shape, n).

    Errors: ValueError for shapes that do not fit each other and for a cov_diag that is not positive.

    >>> d = torch.distributions.LowRankMultivariateNormal(torch.zeros(2), torch.tensor([[1.0], [2.0]]), torch.ones(2))
    >>> d.covariance_matrix
    tensor([[2., 2.],
            [2., 5.]])
    >>> d.sample((4,)).shape
    torch.Size([4, 2])
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Constraint = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("LowRankMultivariateNormal: loc must have at least one dimension, got none")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2 or cov_factor.shape[-2:-1] != event:
            raise ValueError(
                f"LowRankMultivariateNormal: expected cov_factor of shape (..., {event[0]}, m), got {tuple(cov_factor.shape)}"
            )
        if cov_diag.shape[-1:] != event:
            raise ValueError(
                f"LowRankMultivariateNormal: expected cov_diag of shape (..., {event[0]}), got {tuple(cov_diag.shape)}"
            )
        try:
            batch = facula.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                "LowRankMultivariateNormal: batch dimensions do not broadcast, got shapes "
                f"{tuple(loc.shape)}, {tuple(cov_factor.shape)} and {tuple(cov_diag.shape)}"
            ) from error
        self.loc: Tensor = loc.expand(batch + event)
        self.cov_factor: Tensor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self.cov_diag: Tensor = cov_diag.expand(batch + event)
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)

    def _over_batch(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self):
        variance = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        # D^1/2 chol(I + D^-1/2 W W' D^-1/2): better conditioned than the covariance itself
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = facula.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        return self._over_batch(root * facula.linalg.cholesky(scaled @ scaled.mT + identity))

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_cov_factor
        return self._over_batch(factor @ factor.mT + facula.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self):
        inverse = self._unbroadcasted_cov_diag.reciprocal()
        scaled = self._unbroadcasted_cov_factor.mT * inverse.unsqueeze(-2)
        solved = facula.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._over_batch(facula.diag_embed(inverse) - solved.mT @ solved)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1:]
        along = _standard_normal(shape[:-1] + rank, self.loc.dtype, self.loc.device)
        each = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, along) + self._unbroadcasted_cov_diag.sqrt() * each

    def _logdet(self):
        return _batch_lowrank_logdet(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc, self._capacitance_tril
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._logdet() + distance)

    def entropy(self) -> Tensor:
        found = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._logdet())
        return found.expand(self._batch_shape)
