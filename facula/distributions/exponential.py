"""Define the exponential distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .exp_family import ExponentialFamily

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """Represent times between events that come at a constant rate.

    Formula: p = rate * exp(-rate * x)

    Args:
        rate: a positive number or tensor; the mean is 1 / rate.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a rate that is not positive.

    >>> d = torch.distributions.Exponential(torch.tensor([0.5, 2.0]))
    >>> d.mean, d.cdf(torch.tensor(1.0))
    (tensor([2.0000, 0.5000]), tensor([0.3935, 0.8647]))
    """

    rate: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.positive}
    support: Constraint = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return facula.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - facula.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -facula.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - facula.log(self.rate)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -facula.log(-x)
