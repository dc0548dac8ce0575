"""Define the Gumbel distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """Represent the distribution of maxima: ``loc - scale log(-log(u))`` with u uniform over (0, 1).

    Formula:
        z = (x - loc) / scale
        p = exp(-z - exp(-z)) / scale

    Args:
        loc: the mode, a number or a tensor.
        scale: positive; the standard deviation is pi / sqrt(6) times it.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.Gumbel(torch.tensor(1.0), 2.0)
    >>> d.mean, d.stddev, d.mode
    (tensor(2.1544), tensor(2.5651), tensor(1.))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support: Constraint = constraints.real
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = facula.finfo(self.loc.dtype)
        base = Uniform(
            facula.full_like(self.loc, limits.tiny), facula.full_like(self.loc, 1 - limits.eps), validate_args=validate_args
        )
        log = ExpTransform().inv
        minus = AffineTransform(loc=0, scale=-facula.ones_like(self.scale))
        super().__init__(base, [log, minus, log, AffineTransform(self.loc, -self.scale)], validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
