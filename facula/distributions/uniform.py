"""Define the uniform distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Represent values that are uniform over [low, high).

    Formula: p = 1 / (high - low)

    Args:
        low: the lower end, a number or a tensor.
        high: the upper end, greater than low.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError where low is not less than high.

    >>> d = torch.distributions.Uniform(torch.tensor([0.0, 2.0]), 4.0)
    >>> d.mean, d.variance
    (tensor([2., 3.]), tensor([1.3333, 0.3333]))
    >>> d.log_prob(torch.tensor(3.0)).exp()
    tensor([0.2500, 0.5000])
    """

    low: Tensor
    high: Tensor
    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        """NaN: all values are equally likely."""
        return facula.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = facula.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + noise * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)
        return facula.where(inside, 0.0, -facula.inf).to(self.low.dtype) - facula.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return facula.log(self.high - self.low)
