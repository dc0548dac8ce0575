"""Define the Poisson distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Represent counts of independent events of which ``rate`` are expected.

    Formula: p = rate ** x * exp(-rate) / factorial(x)

    Args:
        rate: a number or a tensor, not negative.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a negative rate.

    >>> d = torch.distributions.Poisson(torch.tensor([1.0, 4.0]))
    >>> d.mean, d.variance
    (tensor([1., 4.]), tensor([1., 4.]))
    >>> d.log_prob(torch.tensor(0.0)).exp()
    tensor([0.3679, 0.0183])
    """

    rate: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraints.nonnegative}
    support: Constraint = constraints.nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with facula.no_grad():
            return facula.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (facula.log(self.rate),)

    def _log_normalizer(self, x):
        return facula.exp(x)
