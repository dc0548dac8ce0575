"""Define the log-normal distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform

if TYPE_CHECKING:
    from typing import Any

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """Represent exp(x) with x normal of mean ``loc`` and standard deviation ``scale``.

    Formula: p = exp(-((log(x) - loc) / scale) ** 2 / 2) / (x * scale * sqrt(2 * pi))

    Args:
        loc: the mean of the logarithm, a number or a tensor.
        scale: the standard deviation of the logarithm, positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.LogNormal(torch.tensor(0.0), 0.5)
    >>> d.mean, d.mode, d.cdf(torch.tensor(1.0))
    (tensor(1.1331), tensor(0.7788), tensor(0.5000))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support: Constraint = constraints.positive
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.pow(2)).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
