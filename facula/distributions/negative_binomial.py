"""Define the negative binomial distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint
from facula.nn.functional import logsigmoid

from . import constraints
from ._shared import ProbsOrLogits
from .distribution import Distribution
from .gamma import Gamma
from .utils import lazy_property

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits, Distribution):
    """Represent the number of successes of probability ``probs`` before ``total_count`` failures.

    Formula: p = comb(total_count + x - 1, x) * (1 - probs) ** total_count * probs ** x

    Args:
        total_count: the number of failures, not negative, a number or a tensor; it need not be whole.
        probs: the probability of success, in [0, 1), a number or a tensor; or
        logits: its log-odds.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError where not exactly one of probs and logits is given, and for parameters that do not meet their
    constraints.

    >>> d = torch.distributions.NegativeBinomial(3, torch.tensor(0.5))
    >>> d.mean, d.variance
    (tensor(3.), tensor(6.))
    >>> d.log_prob(torch.tensor(0.0)).exp()
    tensor(0.1250)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Constraint = constraints.nonnegative_integer

    def __init__(self, total_count: Tensor | int, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        shape = self._set_binary(probs, logits, total_count=total_count)
        self.total_count: Any = self.total_count.type_as(self._param)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * facula.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / facula.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self):
        # total_count 0 gives 0 always, which only a check would refuse
        return Gamma(self.total_count, facula.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with facula.no_grad():
            return facula.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        powers = n * logsigmoid(-logits) + value * logsigmoid(logits)
        choices = facula.lgamma(n + value) - facula.lgamma(1.0 + value) - facula.lgamma(n)
        return powers + facula.where(n + value == 0.0, 0.0, choices)
