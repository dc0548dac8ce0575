"""Define the Bernoulli distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint
from facula.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._shared import ProbsOrLogits
from .exp_family import ExponentialFamily
from .utils import broadcast_all

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Bernoulli"]


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """Represent a value that is 1 with probability ``probs``, else 0. The mode is NaN at probability one half.

    Formula: p = probs ** x * (1 - probs) ** (1 - x)

    Args:
        probs: the probability of 1, in [0, 1], a number or a tensor; or
        logits: its log-odds ``log(probs / (1 - probs))``.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError where not exactly one of probs and logits is given, and for probs outside of [0, 1].

    >>> d = torch.distributions.Bernoulli(probs=torch.tensor([0.25, 0.5]))
    >>> d.sample((3,)).shape
    torch.Size([3, 2])
    >>> d.log_prob(torch.tensor([1.0, 0.0])).exp()
    tensor([0.2500, 0.5000])
    >>> d.mean, d.variance
    (tensor([0.2500, 0.5000]), tensor([0.1875, 0.2500]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Constraint = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        super().__init__(self._set_binary(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        probs = self.probs
        return facula.where(probs == 0.5, facula.nan, (probs >= 0.5).to(probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with facula.no_grad():
            return facula.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = facula.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    @property
    def _natural_params(self):
        return (facula.logit(self.probs),)

    def _log_normalizer(self, x):
        return facula.nn.functional.softplus(x)
