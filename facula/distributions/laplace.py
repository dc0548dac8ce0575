"""Define the Laplace distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import SymmetricAroundLoc
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Laplace"]


class Laplace(SymmetricAroundLoc, Distribution):
    """Represent numbers whose density decreases exponentially with the distance from loc.

    Formula: p = exp(-abs(x - loc) / scale) / (2 * scale)

    Args:
        loc: the mean, a number or a tensor.
        scale: positive; the standard deviation is sqrt(2) times it.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.Laplace(0.0, torch.tensor([1.0, 2.0]))
    >>> d.variance, d.log_prob(torch.tensor(0.0)).exp()
    (tensor([2., 8.]), tensor([0.5000, 0.2500]))
    """

    loc: Tensor
    scale: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {"loc": constraints.real, "scale": constraints.positive}
    support: Constraint = constraints.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, scale=scale)

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = self.loc.new_empty(self._extended_shape(sample_shape))
        noise.uniform_(facula.finfo(noise.dtype).eps - 1, 1)
        return self.loc - self.scale * noise.sign() * facula.log1p(-noise.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -facula.log(2 * self.scale) - facula.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        from_loc = value - self.loc
        return 0.5 - 0.5 * from_loc.sign() * facula.expm1(-from_loc.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        from_half = value - 0.5
        return self.loc - self.scale * from_half.sign() * facula.log1p(-2 * from_half.abs())

    def entropy(self) -> Tensor:
        return 1 + facula.log(2 * self.scale)
