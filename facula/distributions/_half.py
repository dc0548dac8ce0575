"""Distributions of the absolute value of one that is symmetric around zero."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

if TYPE_CHECKING:
    from typing import Any


class Half(TransformedDistribution):
    """|x| with x from `_base`(0, scale)."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": constraints.positive}
    support: Constraint = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(self._base(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return facula.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return facula.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -facula.inf)

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
