"""Define Student's t distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Represent a normal value divided by the root of a chi-squared one over its degrees of freedom, shifted and
    scaled.

    Formula:
        z = (x - loc) / scale
        p = Gamma((df + 1) / 2) / (Gamma(df / 2) * sqrt(pi * df) * scale) * (1 + z ** 2 / df) ** (-(df + 1) / 2)

    The mean is NaN for df <= 1; the variance is infinite for 1 < df <= 2 and NaN below.

    Args:
        df: degrees of freedom, a positive number or tensor.
        loc: what is added, a number or a tensor.
        scale: the factor, positive.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a df or a scale that is not positive.

    >>> d = torch.distributions.StudentT(torch.tensor([1.0, 3.0]), loc=2.0)
    >>> d.mean, d.variance
    (tensor([nan, 2.]), tensor([nan, 3.]))
    >>> d.log_prob(torch.tensor(2.0)).exp()
    tensor([0.3183, 0.3676])
    """

    df: Tensor
    loc: Tensor
    scale: Tensor
    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support: Constraint = constraints.real
    has_rsample = True
    _parts = ("_chi2",)

    def __init__(self, df: Tensor | float, loc: Tensor | float = 0.0, scale: Tensor | float = 1.0,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._set_parameters(validate_args, df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return facula.where(self.df <= 1, facula.nan, self.loc)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = self.df
        finite = self.scale.pow(2) * df / (df - 2)
        return facula.where(df > 2, finite, facula.where(df > 1, facula.inf, facula.nan).to(finite.dtype))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        return self.loc + self.scale * (noise * facula.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df = self.df
        y = (value - self.loc) / self.scale
        normalizer = self.scale.log() + 0.5 * (df.log() + math.log(math.pi)) + facula.lgamma(0.5 * df)
        return facula.lgamma(0.5 * (df + 1.0)) - 0.5 * (df + 1.0) * facula.log1p(y**2 / df) - normalizer

    def entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = facula.lgamma(half) + math.lgamma(0.5) - facula.lgamma(more)
        return self.scale.log() + more * (facula.digamma(more) - facula.digamma(half)) + 0.5 * self.df.log() + log_beta
