"""Define the continuous Bernoulli distribution (Loaiza-Ganem and Cunningham 2019)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint
from facula.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._shared import ProbsOrLogits
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Represent numbers in [0, 1] whose density is that of a Bernoulli distribution between its two values.

    Formula:
        c = 2 * atanh(1 - 2 * probs) / (1 - 2 * probs)  # 2 where probs is 1/2
        p = c * probs ** x * (1 - probs) ** (1 - x)

    Args:
        probs: in (0, 1), a number or a tensor; or
        logits: its log-odds.
        lims: between these values of probs the formulas, which divide zero by zero at 1/2, are power series around it.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError where not exactly one of probs and logits is given, and for probs outside of [0, 1].

    >>> d = torch.distributions.ContinuousBernoulli(torch.tensor([0.25, 0.5]))
    >>> d.mean
    tensor([0.4102, 0.5000])
    >>> d.cdf(torch.tensor(0.5))
    tensor([0.6340, 0.5000])
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Constraint = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_given", "_lims")

    def __init__(self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 lims: Sequence[float] = (0.499, 0.501), validate_args: bool | None = None) -> None:  # fmt: skip
        self._lims = lims
        super().__init__(self._set_binary(probs, logits), validate_args=validate_args)
        if self._given == "probs":
            self.probs: Any = clamp_probs(self.probs)

    def _split(self, formula, series):
        """Return formula(probs) away from 1/2, and series(x, x^2) with x = probs - 1/2 near it.

        In float64: the formulas are differences of large numbers around there.
        """
        low, high = self._lims
        probs = self.probs.double()
        near = (probs >= low) & (probs <= high)
        safe = facula.where(near, low, probs)  # so that the formula's gradient is finite there
        x = probs - 0.5
        return facula.where(near, series(x, x * x), formula(safe)).to(self.probs.dtype)

    def _log_norm(self):
        def formula(p):
            slope = (1.0 - 2.0 * p).abs()
            return facula.log(2.0 * facula.atanh(slope)) - facula.log(slope)

        return self._split(formula, lambda x, square: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square)

    @property
    def mean(self) -> Tensor:
        return self._split(
            lambda p: p / (2.0 * p - 1.0) + 1.0 / (facula.log1p(-p) - facula.log(p)),
            lambda x, square: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * square) * x,
        )

    @property
    def variance(self) -> Tensor:
        return self._split(
            lambda p: p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + (facula.log1p(-p) - facula.log(p)).pow(-2),
            lambda x, square: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square,
        )

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(facula.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return self._log_norm() - binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        found = self._split(
            lambda p: (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0), lambda x, square: value + 0 * x
        )
        return found.clamp(0.0, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        return self._split(
            lambda p: (facula.log1p(-p + value * (2.0 * p - 1.0)) - facula.log1p(-p)) / (facula.log(p) - facula.log1p(-p)),
            lambda x, square: value + 0 * x,
        )

    def entropy(self) -> Tensor:
        log0, log1 = facula.log1p(-self.probs), facula.log(self.probs)
        return self.mean * (log0 - log1) - self._log_norm() - log0

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        low, high = self._lims
        near = (x >= low - 0.5) & (x <= high - 0.5)
        safe = facula.where(near, low - 0.5, x)
        # The Taylor series of log((exp(x) - 1) / x) at 0.
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return facula.where(near, series, facula.log(facula.expm1(safe).abs()) - facula.log(safe.abs()))
