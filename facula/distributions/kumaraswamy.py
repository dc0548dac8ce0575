"""Define Kumaraswamy's distribution."""

from __future__ import annotations

from typing import ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Represent numbers in [0, 1], much as `Beta` does, with a simple distribution function.

    Formula: p = a * b * x ** (a - 1) * (1 - x ** a) ** (b - 1)  # a, b: concentration1, concentration0

    Args:
        concentration1: the first parameter, a positive number or tensor.
        concentration0: the second one.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a parameter that is not positive.

    >>> d = torch.distributions.Kumaraswamy(torch.tensor(2.0), torch.tensor(1.0))
    >>> d.cdf(torch.tensor(0.5)), d.mean
    (tensor(0.2500), tensor(0.6667))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Constraint = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Tensor | float, concentration0: Tensor | float,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            facula.zeros_like(self.concentration0), facula.ones_like(self.concentration0), validate_args=validate_args
        )
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n):
        """Return E[x^n] = b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        first = 1 + n / a
        return facula.exp(b.log() + first.lgamma() + b.lgamma() - (first + b).lgamma())

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """NaN where the density has no single peak."""
        a, b = self.concentration1, self.concentration0
        peaked = (a >= 1) & (b >= 1) & (a * b > 1)
        return facula.where(peaked, ((a - 1) / (a * b - 1)) ** a.reciprocal(), facula.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
