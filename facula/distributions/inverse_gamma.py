"""Define the inverse gamma distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

if TYPE_CHECKING:
    from typing import Any

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """Represent 1 / x with x from Gamma(concentration, rate); the moments that do not exist are infinite.

    Formula: p = rate ** a * x ** (-a - 1) * exp(-rate / x) / Gamma(a)  # a: concentration

    Args:
        concentration: the shape, a positive number or tensor.
        rate: the rate of the Gamma distribution, positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a parameter that is not positive.

    >>> d = torch.distributions.InverseGamma(torch.tensor([1.0, 3.0]), 2.0)
    >>> d.mean, d.mode
    (tensor([inf, 1.]), tensor([1.0000, 0.5000]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Constraint = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Concentration of the Gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Rate of the Gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return facula.where(a > 1, self.rate / (a - 1), facula.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return facula.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), facula.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
