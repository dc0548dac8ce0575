"""Define the Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import facula
from facula import Size, Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import GivenScale, _log_diagonal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from facula.distributions.distribution import Distribution

__all__ = ["Wishart"]


def _mvdigamma(x, p):
    """Return the derivative of mvlgamma."""
    steps = facula.arange(p, dtype=x.dtype, device=x.device) / 2
    return facula.digamma(x.unsqueeze(-1) - steps).sum(-1)


class Wishart(GivenScale, ExponentialFamily):
    """Represent sums of outer products of ``df`` normal vectors of the covariance; positive definite (..., n, n).

    Args:
        df: degrees of freedom, a number or a tensor greater than n - 1, which need not be whole.
        covariance_matrix: of the normal vectors, (..., n, n), symmetric and positive definite; or
        precision_matrix: its inverse; or
        scale_tril: its lower Cholesky factor, which saves a decomposition.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: df (*batch_shape), the matrix (*batch_shape, n, n); the event shape is (n, n), so a sample is (*sample_shape,
    *batch_shape, n, n).

    Errors: ValueError where df is not greater than n - 1, and where not exactly one of the three is given.

    >>> d = torch.distributions.Wishart(torch.tensor(3.0), covariance_matrix=torch.eye(2))
    >>> d.mean
    tensor([[3., 0.],
            [0., 3.]])
    >>> d.log_prob(torch.eye(2)), d.event_shape
    (tensor(-3.5310), torch.Size([2, 2]))
    """

    support: Constraint = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(self, df: Tensor | float, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:  # fmt: skip
        name, value = self._set_scale(covariance_matrix, precision_matrix, scale_tril)
        if not isinstance(df, facula.Tensor):
            df = value.new_tensor(df)
        batch, event = facula.broadcast_shapes(value.shape[:-2], df.shape), value.shape[-2:]
        if (df <= event[0] - 1).any():
            raise ValueError(f"Wishart: expected df greater than {event[0] - 1}, got {df}")
        self.df: Any = df.expand(batch)
        self.__dict__[name] = value.expand(batch + event)
        super().__init__(batch, event, validate_args=validate_args)
        if (self.df < event[0]).any():
            warnings.warn(f"Wishart: samples of df below {event[0]} are likely to be singular", stacklevel=2)
        self._factor_scale(name, value)
        self._set_chi2()

    def _set_chi2(self):
        n = self._event_shape[0]
        less = facula.arange(n, dtype=self.df.dtype, device=self.df.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - less, validate_args=False)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._set_chi2()
        return new

    @property
    def mean(self) -> Tensor:
        return self.df.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """NaN for df < n + 1."""
        factor = self.df - self._event_shape[0] - 1
        factor = facula.where(factor > 0, factor, facula.nan)
        return factor.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.reshape(self._batch_shape + (1, 1)) * (covariance.pow(2) + outer)

    def _bartlett_sampling(self, sample_shape):
        """Return L A A' L' with chi values on the diagonal of A and normal ones below (Bartlett's decomposition)."""
        n = self._event_shape[0]
        eps = facula.finfo(self.df.dtype).eps
        noise = self._dist_chi2.rsample(sample_shape).sqrt().clamp(min=eps).diag_embed()
        rows, columns = facula.tril_indices(n, n, offset=-1, device=noise.device)
        shape = Size(sample_shape) + self._batch_shape + (n * (n - 1) // 2,)
        noise[..., rows, columns] = facula.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: Any = None) -> Tensor:
        """Draw samples; those that rounding has made singular are drawn again, `max_try_correction` times at most (3; 10 for n
        > 1)."""
        tries = max_try_correction if max_try_correction is not None else 3 if self._event_shape[0] > 1 else 10
        sample_shape = Size(sample_shape)
        self._bartlett_sampling(sample_shape)  # dropped: PyTorch's seeds give the second ones
        sample = self._bartlett_sampling(sample_shape)
        good = self.support.check(sample)
        for _ in range(tries):
            if good.all():
                return sample
            again = self._bartlett_sampling(sample_shape)
            sample = facula.where(good[..., None, None], sample, again)
            good = self.support.check(sample)
        if not good.all():
            warnings.warn("Wishart: a sample is singular", stacklevel=2)
        return sample

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, n = self.df, self._event_shape[0]
        factor = self._unbroadcasted_scale_tril
        trace = facula.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        normalizer = nu * (n * math.log(2) / 2 + _log_diagonal(factor)) + facula.mvlgamma(nu / 2, p=n)
        return (nu - n - 1) / 2 * facula.linalg.slogdet(value).logabsdet - trace / 2 - normalizer

    def entropy(self) -> Tensor:
        nu, n = self.df, self._event_shape[0]
        log_scale = _log_diagonal(self._unbroadcasted_scale_tril)
        return (
            (n + 1) * (n * math.log(2) / 2 + log_scale)
            + facula.mvlgamma(nu / 2, p=n)
            - (nu - n - 1) / 2 * _mvdigamma(nu / 2, p=n)
            + nu * n / 2
        )

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[0] - 1) / 2

    def _log_normalizer(self, x, y):
        n = self._event_shape[0]
        nu = 2 * y + n + 1
        return nu / 2 * (-facula.linalg.slogdet(-2 * x).logabsdet + n * math.log(2)) + facula.mvlgamma(nu / 2, p=n)
