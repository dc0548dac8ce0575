"""Define the multivariate normal distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import SymmetricAroundLoc
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MultivariateNormal"]


def _batch_mv(matrix, vector):
    """Return matrix times vector, both with batch dimensions."""
    return facula.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(scale_tril, x):
    """Return x' (L L')^-1 x for factors (..., n, n) and vectors (..., n).

    Leading dimensions that only x has become columns of one triangular solution.
    """
    n, dims = x.shape[-1], scale_tril.dim() - 1
    lead = x.shape[:-dims]
    columns = x.reshape((-1,) + x.shape[-dims:]).movedim(0, -1)
    solved = facula.linalg.solve_triangular(scale_tril, columns.reshape(x.shape[len(lead) : -1] + (n, -1)), upper=False)
    squares = solved.square().sum(-2).movedim(-1, 0)
    return squares.reshape(lead + squares.shape[1:])


def _log_diagonal(scale_tril):
    """Return half the logarithm of the determinant of L L'."""
    return scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _precision_to_scale_tril(precision):
    """Return the factor L of the inverse: with the order of the axes reversed, P = U U' and L = U'^-1."""
    reversed_factor = facula.linalg.cholesky(facula.flip(precision, (-2, -1)))
    upper = facula.flip(reversed_factor, (-2, -1)).mT
    identity = facula.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return facula.linalg.solve_triangular(upper, identity, upper=False)


class GivenScale:
    """Hold a covariance given by itself, by its inverse or by its Cholesky factor; the others are computed when they are read.

    `_unbroadcasted_scale_tril` is the factor with the batch dimensions that the argument had.
    """

    def _set_scale(self, covariance_matrix, precision_matrix, scale_tril):
        """Note which one is given; return its name and the tensor."""
        given = {
            name: value
            for name, value in (
                ("covariance_matrix", covariance_matrix),
                ("precision_matrix", precision_matrix),
                ("scale_tril", scale_tril),
            )
            if value is not None
        }
        what = type(self).__name__
        if len(given) != 1:
            raise ValueError(
                f"{what}: expected exactly one of covariance_matrix, precision_matrix and scale_tril, got {list(given)}"
            )
        ((name, value),) = given.items()
        if value.dim() < 2:
            raise ValueError(f"{what}: {name} must have at least two dimensions, got shape {tuple(value.shape)}")
        return name, value

    def _factor_scale(self, name, value):
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = value
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = facula.linalg.cholesky(value)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(value)

    def _over_batch(self, matrix):
        return matrix.expand(self._batch_shape + self._unbroadcasted_scale_tril.shape[-2:])

    @lazy_property
    def scale_tril(self):
        return self._over_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_scale_tril
        return self._over_batch(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self):
        return self._over_batch(facula.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(SymmetricAroundLoc, GivenScale, Distribution):
    """Represent normal vectors of mean ``loc`` and of a covariance given in one of three ways.

    Formula:
        d = x - loc
        p = exp(-d @ inv(Sigma) @ d / 2) / sqrt((2 * pi) ** n * det(Sigma))  # Sigma: covariance_matrix

    Args:
        loc: the mean, (..., n).
        covariance_matrix: (..., n, n), symmetric and positive definite; or
        precision_matrix: its inverse; or
        scale_tril: its lower Cholesky factor, which saves a decomposition.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: loc (*batch_shape, n) and the matrix (*batch_shape, n, n), whose batch dimensions broadcast; the event shape is
    (n,), so a sample is (*sample_shape, *batch_shape, n).

    Errors: ValueError where not exactly one of the three is given, for too few dimensions, and for a matrix that does not meet
    its constraint.

    >>> d = torch.distributions.MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> d.variance, d.precision_matrix
    (tensor([2.0000, 2.0000]), tensor([[ 0.6667, -0.3333],
            [-0.3333,  0.6667]]))
    >>> d.log_prob(torch.zeros(2)), d.rsample((5,)).shape
    (tensor(-2.3872), torch.Size([5, 2]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Constraint = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("MultivariateNormal: loc must have at least one dimension, got none")
        name, value = self._set_scale(covariance_matrix, precision_matrix, scale_tril)
        batch = facula.broadcast_shapes(value.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = value.expand(batch + (-1, -1))
        self.loc: Tensor = loc.expand(batch + (-1,))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._factor_scale(name, value)

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        distance = _batch_mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - _log_diagonal(factor)

    def entropy(self) -> Tensor:
        found = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + _log_diagonal(self._unbroadcasted_scale_tril)
        return found.expand(self._batch_shape)
