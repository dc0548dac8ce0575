"""Define the logistic-normal distribution."""

from __future__ import annotations

from typing import ClassVar

from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Represent points of the simplex of n + 1 components, which StickBreakingTransform makes from n normal values.

    Args:
        loc: the means of the normal values, (..., n).
        scale: their standard deviations, positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: loc and scale (*batch_shape, n), which broadcast; the event shape is (n + 1,), so a sample is (*sample_shape,
    *batch_shape, n + 1).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.LogisticNormal(torch.zeros(2), torch.ones(2))
    >>> d.event_shape, d.sample().sum().round(decimals=4)
    (torch.Size([3]), tensor(1.))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support: Constraint = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the Normal distribution."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the Normal distribution."""
        return self.base_dist.base_dist.scale
