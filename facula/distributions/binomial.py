"""Define the binomial distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import ProbsOrLogits
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Binomial"]


class Binomial(ProbsOrLogits, Distribution):
    """Represent the number of ``total_count`` trials that succeed, each with probability ``probs``.

    Formula: p = comb(total_count, x) * probs ** x * (1 - probs) ** (total_count - x)

    Args:
        total_count: the number of trials, a number or a tensor of whole numbers that are not negative.
        probs: the probability of success, in [0, 1]; or
        logits: its log-odds.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError where not exactly one of probs and logits is given, and for parameters that do not meet their
    constraints.

    >>> d = torch.distributions.Binomial(4, probs=torch.tensor(0.5))
    >>> d.log_prob(torch.tensor([0.0, 2.0])).exp()
    tensor([0.0625, 0.3750])
    >>> d.mean, d.variance
    (tensor(2.), tensor(1.))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(self, total_count: Tensor | int = 1, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        shape = self._set_binary(probs, logits, total_count=total_count)
        self.total_count: Any = self.total_count.type_as(self._param)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with facula.no_grad():
            return facula.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        log_choices = facula.lgamma(n + 1) - facula.lgamma(value + 1) - facula.lgamma(n - value + 1)
        # k logits - n log(1 + e^logits), without overflow
        return log_choices + value * logits - n * facula.nn.functional.softplus(logits, threshold=100)

    def entropy(self) -> Tensor:
        """Return the entropy, only for batches of one total_count."""
        log_prob = self.log_prob(self._all_counts("entropy", expand=False))
        return -(facula.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = self._all_counts("enumerate_support", expand)
        return values

    def _all_counts(self, what, expand):
        most = int(self.total_count.max())
        if not self.total_count.min() == most:
            raise NotImplementedError(f"Binomial.{what}: one value of total_count for all is expected, got {self.total_count}")
        values = facula.arange(1 + most, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
