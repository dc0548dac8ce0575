"""Define the Pareto distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """Represent numbers of at least scale with heavy tails; the moments that do not exist are infinite.

    Formula: p = alpha * scale ** alpha / x ** (alpha + 1)  # for x >= scale

    Args:
        scale: the smallest value, positive, a number or a tensor.
        alpha: how quickly the density falls, positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a parameter that is not positive.

    >>> d = torch.distributions.Pareto(torch.tensor(1.0), torch.tensor([1.0, 3.0]))
    >>> d.mean, d.cdf(torch.tensor(2.0))
    (tensor([   inf, 1.5000]), tensor([0.5000, 0.8750]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"alpha": constraints.positive, "scale": constraints.positive}
    scale: Tensor
    alpha: Tensor

    def __init__(self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return facula.where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), facula.inf)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        return facula.where(a > 2, self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2)), facula.inf)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
