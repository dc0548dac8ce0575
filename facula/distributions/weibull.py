"""Define the Weibull distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Represent positive numbers, such as lifetimes under a risk that grows or falls with a power of time.

    Formula:
        z = x / scale
        p = concentration / scale * z ** (concentration - 1) * exp(-z ** concentration)

    Args:
        scale: a positive number or tensor.
        concentration: the shape, positive; 1 is the exponential distribution.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a parameter that is not positive.

    >>> d = torch.distributions.Weibull(torch.tensor(1.0), torch.tensor([1.0, 2.0]))
    >>> d.mean, d.cdf(torch.tensor(1.0))
    (tensor([1.0000, 0.8862]), tensor([0.6321, 0.6321]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Constraint = constraints.positive
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(facula.ones_like(self.scale), validate_args=validate_args)
        steps = [PowerTransform(exponent=self.concentration.reciprocal()), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n):
        """Return E[(x / scale)^n]."""
        return facula.exp(facula.lgamma(1 + n / self.concentration))

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Any:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2))

    def entropy(self) -> Tensor:
        k = self.concentration
        return euler_constant * (1 - k.reciprocal()) + facula.log(self.scale / k) + 1
