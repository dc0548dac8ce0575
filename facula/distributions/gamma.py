"""Define the gamma distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .exp_family import ExponentialFamily

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Represent positive numbers; for a whole concentration, the time until that many events of a rate.

    Formula: p = rate ** a * x ** (a - 1) * exp(-rate * x) / Gamma(a)  # a: concentration

    Args:
        concentration: the shape, a positive number or tensor.
        rate: the inverse of the scale, positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a parameter that is not positive.

    >>> d = torch.distributions.Gamma(torch.tensor([1.0, 3.0]), 2.0)
    >>> d.mean, d.variance
    (tensor([0.5000, 1.5000]), tensor([0.2500, 0.7500]))
    >>> d.cdf(torch.tensor(1.0))
    tensor([0.8647, 0.3233])
    """

    concentration: Tensor
    rate: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Constraint = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = facula._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return value.clamp(min=facula.finfo(value.dtype).tiny)  # log_prob of a sample is finite

    def log_prob(self, value: Tensor) -> Tensor:
        a, rate = self.concentration, self.rate
        value = facula.as_tensor(value, dtype=rate.dtype, device=rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return facula.xlogy(a, rate) + facula.xlogy(a - 1, value) - rate * value - facula.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return facula.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - facula.log(self.rate) + facula.lgamma(a) + (1.0 - a) * facula.digamma(a)

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return facula.lgamma(x + 1) + (x + 1) * facula.log(-y.reciprocal())
