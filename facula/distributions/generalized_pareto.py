"""Define the generalized Pareto distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Represent exceedances over a threshold loc.

    Formula:
        z = (x - loc) / scale
        p = (1 + concentration * z) ** (-1 / concentration - 1) / scale  # exp(-z) / scale for concentration 0

    Concentration 0 is the exponential distribution; a negative one ends at loc - scale / concentration. The mean is
    NaN for a concentration of at least 1, the variance of at least 1/2.

    Args:
        loc: the threshold, a number or a tensor.
        scale: positive.
        concentration: the weight of the tail, any number.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.GeneralizedPareto(0.0, 1.0, torch.tensor([0.0, 0.25]))
    >>> d.mean
    tensor([1.0000, 1.3333])
    >>> d.log_survival_function(torch.tensor(1.0)).exp(), d.log_cdf(torch.tensor(1.0)).exp()
    (tensor([0.3679, 0.4096]), tensor([0.6321, 0.5904]))
    """

    loc: Tensor
    scale: Tensor
    concentration: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, concentration: Tensor | float,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._set_parameters(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = facula.where(self.concentration < 0, self.loc - self.scale / self.concentration, facula.inf)
        return constraints.interval(self.loc, end)

    def _split(self, formula, limit):
        """Return formula(concentration), and `limit` where that is zero."""
        zero = facula.isclose(self.concentration, facula.zeros_like(self.concentration))
        return facula.where(zero, limit, formula(facula.where(zero, 1.0, self.concentration)))

    def _z(self, value):
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(facula.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        return self._split(lambda c: -(1 + 1 / c) * facula.log1p(c * z), -z) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of values above `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        return self._split(lambda c: -facula.log1p(c * z) / c, -z)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of values up to `value`."""
        return facula.log1p(-facula.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return -facula.expm1(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        log_survival = facula.log1p(-value)
        return self.loc + self.scale * self._split(lambda c: facula.expm1(-c * log_survival) / c, -log_survival)

    @property
    def mean(self) -> Tensor:
        return facula.where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), facula.nan)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        return facula.where(c < 0.5, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), facula.nan)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Any:
        return self.loc
