"""Define the categorical distribution over one-hot vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Size, Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import OverCategories
from .categorical import Categorical
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OverCategories, Distribution):
    """Represent vectors with a single 1, whose place has the probabilities in the last dimension.

    Formula: p = prod(probs[k] ** x[k] for k in all)

    Args:
        probs: weights (..., K), not negative, which need not sum to one; the attribute does. Or
        logits: logarithms of such weights; the attribute's exponentials sum to one.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: probs and logits (*batch_shape, K); the event shape is (K,), so a sample is (*sample_shape, *batch_shape, K).

    Errors: ValueError where not exactly one of probs and logits is given, for one without dimensions, and for negative weights.

    >>> d = torch.distributions.OneHotCategorical(torch.tensor([1.0, 1.0, 2.0]))
    >>> d.enumerate_support()
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    >>> d.log_prob(torch.tensor([0.0, 0.0, 1.0])).exp()
    tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Constraint = constraints.one_hot
    has_enumerate_support = True
    _parts = ("_categorical",)

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def _param(self):
        return self._categorical._param

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self._categorical.mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _one_hot(self, index):
        return facula.nn.functional.one_hot(index, self._event_shape[0]).to(self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(Size(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = facula.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n,) + self._batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Represent a OneHotCategorical whose rsample has the gradient of the probabilities (Bengio, Leonard and Courville
    2013).

    Args:
        probs: weights (..., K), not negative, which need not sum to one; or
        logits: logarithms of such weights.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: probs and logits (*batch_shape, K); the event shape is (K,).

    Errors: those of `OneHotCategorical`.

    >>> probs = torch.tensor([0.25, 0.75], requires_grad=True)
    >>> sample = torch.distributions.OneHotCategoricalStraightThrough(probs).rsample()
    >>> sample.sum().round(decimals=4).item(), sample.requires_grad
    (1.0, True)
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
