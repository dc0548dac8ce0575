"""Define base classes that several families share besides those of distribution.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

if TYPE_CHECKING:
    from typing import Any

    from facula import Size


# ---- Distributions of the absolute value of one that is symmetric around zero


class Half(TransformedDistribution):
    """Represent |x| with x from `_base`(0, scale)."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": constraints.positive}
    support: Constraint = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(self._base(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return facula.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return facula.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -facula.inf)

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


# ---- What families share whose parameter is either `probs` or `logits`


class ProbsOrLogits:
    """Hold probs or logits, of which one is given and the other is computed when it is read."""

    _is_binary = True
    _kept = ("_given",)

    def _take(self, probs, logits):
        """Note which one is given and return it."""
        if (probs is None) == (logits is None):
            raise ValueError(
                f"{type(self).__name__}: expected either probs or logits, got {'neither' if probs is None else 'both'}"
            )
        self._given = "logits" if probs is None else "probs"
        return logits if probs is None else probs

    def _set_binary(self, probs, logits, **others):
        """Broadcast the one that is given, and others, to one shape; return it."""
        given = self._take(probs, logits)
        *values, value = broadcast_all(*others.values(), given)
        self.__dict__.update(zip(others, values, strict=True))
        self.__dict__[self._given] = value
        return value.size()

    def _set_categories(self, probs, logits):
        """Normalize the one that is given over the last dimension; return its shape."""
        value = self._take(probs, logits)
        if value.dim() < 1:
            raise ValueError(f"{type(self).__name__}: {self._given} must have at least one dimension, got none")
        if self._given == "probs":
            self.probs = value / value.sum(-1, keepdim=True)
        else:
            self.logits = value - value.logsumexp(dim=-1, keepdim=True)
        return value.size()

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, self._is_binary)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, self._is_binary)

    @property
    def _param(self):
        return self.__dict__[self._given]

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._param.size()


class SymmetricAroundLoc:
    """Derive moments of families whose density is highest at `loc` and symmetric around it."""

    @property
    def mean(self) -> Tensor:
        """The parameter `loc`."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The parameter `loc`."""
        return self.loc


class OverCategories:
    """Share the parameters of a `Categorical` among the families that have the same ones."""

    @property
    def probs(self) -> Tensor:
        """Probabilities of the categories."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Log-probabilities of the categories."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameters."""
        return self._categorical.param_shape


class Relaxed(TransformedDistribution):
    """Represent a relaxed family of discrete values, whose parameters are those of the base that is transformed."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        """Positive; the smaller, the nearer are samples to discrete values."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds of one, or log-probabilities of the categories."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probability of one, or probabilities of the categories."""
        return self.base_dist.probs
