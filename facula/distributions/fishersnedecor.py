"""Define the F distribution of Fisher and Snedecor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .distribution import Distribution
from .gamma import Gamma

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """Represent the quotient of two independent chi-squared values, each divided by its degrees of freedom.

    Formula: p = sqrt((a * x) ** a * b ** b / (a * x + b) ** (a + b)) / (x * B(a / 2, b / 2))  # a, b: df1, df2

    The mean is NaN for df2 <= 2, the variance for df2 <= 4.

    Args:
        df1: degrees of freedom of the numerator, a positive number or tensor.
        df2: those of the denominator.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for degrees that are not positive.

    >>> d = torch.distributions.FisherSnedecor(torch.tensor(2.0), torch.tensor([2.0, 6.0]))
    >>> d.mean
    tensor([   nan, 1.5000])
    >>> d.log_prob(torch.tensor(1.0)).exp()
    tensor([0.2500, 0.3164])
    """

    df1: Tensor
    df2: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {"df1": constraints.positive, "df2": constraints.positive}
    support: Constraint = constraints.positive
    has_rsample = True
    _parts = ("_gamma1", "_gamma2")

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, df1=df1, df2=df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1 * 0.5, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2 * 0.5, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return facula.where(self.df2 > 2, self.df2 / (self.df2 - 2), facula.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return facula.where(self.df1 > 2, mode, facula.nan)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, self.df2
        variance = 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))
        return facula.where(df2 > 4, variance, facula.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        above, below = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        tiny = facula.finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        normalizer = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return normalizer + a * ratio.log() + (a - 1) * value.log() - (a + b) * facula.log1p(ratio * value)
