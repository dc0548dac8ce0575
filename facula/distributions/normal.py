"""Define the normal distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import SymmetricAroundLoc
from .exp_family import ExponentialFamily
from .utils import _standard_normal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Normal"]


class Normal(SymmetricAroundLoc, ExponentialFamily):
    """Represent the normal (Gaussian) distribution.

    Formula: p = exp(-((x - loc) / scale) ** 2 / 2) / (scale * sqrt(2 * pi))

    Args:
        loc: the mean, a number or a tensor.
        scale: the standard deviation, positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.Normal(torch.tensor([0.0, 1.0]), 2.0)
    >>> d.mean, d.variance
    (tensor([0., 1.]), tensor([4., 4.]))
    >>> d.log_prob(torch.tensor(0.0)), d.cdf(torch.tensor(0.0))
    (tensor([-1.6121, -1.7371]), tensor([0.5000, 0.3085]))
    >>> d.rsample((3,)).shape
    torch.Size([3, 2])
    """

    loc: Tensor
    scale: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support: Constraint = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, scale=scale)

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with facula.no_grad():
            return facula.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + facula.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * facula.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + facula.log(self.scale)

    @property
    def _natural_params(self):
        square = self.scale.pow(2)
        return self.loc / square, -0.5 * square.reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * facula.log(-math.pi / y)
