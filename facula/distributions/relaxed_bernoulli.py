"""Define the relaxed Bernoulli distribution (Maddison, Mnih and Teh 2017; Jang, Gu and Poole 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint
from facula.nn.functional import softplus

from . import constraints
from ._shared import ProbsOrLogits, Relaxed
from .distribution import Distribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """Represent the log-odds of RelaxedBernoulli: a logistic value around ``logits``, divided by ``temperature``.

    Formula:
        d = logits - temperature * x
        p = temperature * exp(d) / (1 + exp(d)) ** 2

    Args:
        temperature: a positive tensor; the smaller, the nearer are sigmoids of values to 0 and 1.
        probs: the probability of 1 of the Bernoulli distribution, in [0, 1]; or
        logits: its log-odds.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: probs or logits (*batch_shape), temperature a number or (); the event shape is ().

    Errors: ValueError where not exactly one of probs and logits is given, and for probs outside of [0, 1].

    >>> from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> d = LogitRelaxedBernoulli(torch.tensor(0.5), logits=torch.tensor([0.0, 1.0]))
    >>> d.rsample().shape, d.log_prob(torch.tensor(0.0))
    (torch.Size([2]), tensor([-2.0794, -2.3197]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Constraint = constraints.real
    has_rsample = True
    _kept = ("_given", "temperature")

    def __init__(self, temperature: Tensor | float, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.temperature = temperature
        super().__init__(self._set_binary(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        noise = clamp_probs(facula.rand(shape, dtype=probs.dtype, device=probs.device))
        return (noise.log() - (-noise).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value * self.temperature
        return self.temperature.log() + apart - 2 * softplus(apart, threshold=100)


class RelaxedBernoulli(Relaxed):
    """Represent values in (0, 1) that are near 0 and 1 for a small ``temperature``: a differentiable replacement of
    Bernoulli.

    Args:
        temperature: a positive tensor.
        probs: the probability of 1 of the Bernoulli distribution, in [0, 1]; or
        logits: its log-odds.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: probs or logits (*batch_shape), temperature a number or (); the event shape is ().

    Errors: ValueError where not exactly one of probs and logits is given, and for probs outside of [0, 1].

    >>> probs = torch.tensor([0.25, 0.75], requires_grad=True)
    >>> sample = torch.distributions.RelaxedBernoulli(torch.tensor(0.5), probs).rsample()
    >>> bool((sample > 0).all() and (sample < 1).all()), sample.requires_grad
    (True, True)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Constraint = constraints.unit_interval

    def __init__(self, temperature: Tensor | float, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args)
