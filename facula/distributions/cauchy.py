"""Define the Cauchy distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """Represent numbers around loc with heavy tails: mean (NaN) and variance (infinity) do not exist.

    Formula: p = 1 / (pi * scale * (1 + ((x - loc) / scale) ** 2))

    Args:
        loc: the median, a number or a tensor.
        scale: half of the width at half of the height, positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.Cauchy(0.0, 1.0)
    >>> d.cdf(torch.tensor([0.0, 1.0])), d.mean
    (tensor([0.5000, 0.7500]), tensor(nan))
    """

    loc: Tensor
    scale: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support: Constraint = constraints.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return facula.full_like(self.loc, facula.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return facula.full_like(self.loc, facula.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return facula.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return facula.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
