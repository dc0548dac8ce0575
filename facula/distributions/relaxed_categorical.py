"""Define the relaxed categorical distribution (Maddison, Mnih and Teh 2017; Jang, Gu and Poole 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import OverCategories, Relaxed
from .categorical import Categorical
from .distribution import Distribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OverCategories, Distribution):
    """Represent logarithms of RelaxedOneHotCategorical values: log-softmax of Gumbel values around logits over
    temperature.

    Args:
        temperature: a positive tensor; the smaller, the nearer are exponentials of values to corners of the simplex.
        probs: weights (..., K), not negative, which need not sum to one; or
        logits: logarithms of such weights.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: probs or logits (*batch_shape, K), temperature a number or (); the event shape is (K,).

    Errors: ValueError where not exactly one of probs and logits is given.

    >>> from torch.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> d = ExpRelaxedCategorical(torch.tensor(0.5), probs=torch.tensor([0.25, 0.75]))
    >>> d.rsample().exp().sum().round(decimals=4)
    tensor(1.)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Constraint = constraints.real_vector  # of those whose exponentials sum to 1, which is not checked
    has_rsample = True
    _parts = ("_categorical",)
    _kept = ("temperature",)

    def __init__(self, temperature: Tensor | float, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = clamp_probs(facula.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-(noise.log())).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        score = logits - value * self.temperature
        score = (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1)
        return score + facula.full_like(self.temperature, k).lgamma() + (k - 1) * self.temperature.log()


class RelaxedOneHotCategorical(Relaxed):
    """Represent points of the simplex that are near its corners for a small ``temperature``; differentiable, unlike
    OneHotCategorical.

    Args:
        temperature: a positive tensor.
        probs: weights (..., K), not negative, which need not sum to one; or
        logits: logarithms of such weights.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: probs or logits (*batch_shape, K), temperature a number or (); the event shape is (K,).

    Errors: ValueError where not exactly one of probs and logits is given.

    >>> probs = torch.tensor([0.25, 0.75], requires_grad=True)
    >>> sample = torch.distributions.RelaxedOneHotCategorical(torch.tensor(0.5), probs).rsample()
    >>> sample.sum().round(decimals=4).item(), sample.requires_grad
    (1.0, True)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Constraint = constraints.simplex

    def __init__(self, temperature: Tensor | float, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
