"""Define the geometric distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint
from facula.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._shared import ProbsOrLogits
from .distribution import Distribution
from .utils import broadcast_all

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Geometric"]


class Geometric(ProbsOrLogits, Distribution):
    """Represent the number of failures before the first success.

    Formula: p = (1 - probs) ** x * probs

    Args:
        probs: the probability of success, in (0, 1], a number or a tensor; or
        logits: its log-odds.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError where not exactly one of probs and logits is given, and for probs outside of (0, 1].

    >>> d = torch.distributions.Geometric(torch.tensor([0.25, 0.5]))
    >>> d.mean
    tensor([3., 1.])
    >>> d.log_prob(torch.tensor(1.0)).exp()
    tensor([0.1875, 0.2500])
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Constraint = constraints.nonnegative_integer

    def __init__(self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        super().__init__(self._set_binary(probs, logits), validate_args=validate_args)
        if self._validate_args and self._given == "probs" and not (self.probs > 0).all():
            raise ValueError(f"Geometric: expected parameter probs to be greater than 0, got {self.probs}")

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return facula.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with facula.no_grad():
            noise = self.probs.new_empty(self._extended_shape(sample_shape))
            noise.uniform_(facula.finfo(noise.dtype).tiny, 1)
            return (noise.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        failures = facula.where(value == 0, 0.0, value * facula.log1p(-facula.where(value == 0, 0.0, probs)))
        return failures + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
