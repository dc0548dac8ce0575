"""Define the multinomial distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Size, Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import OverCategories
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Multinomial"]


class Multinomial(OverCategories, Distribution):
    """Represent how often each of K categories occurs in ``total_count`` independent draws.

    Formula: p = factorial(total_count) * prod(probs[k] ** x[k] / factorial(x[k]) for k in all)

    Args:
        total_count: the number of draws, an int, the same for the batch.
        probs: weights (..., K), not negative, which need not sum to one; or
        logits: their logarithms.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: probs and logits (*batch_shape, K); the event shape is (K,), so a sample is (*sample_shape, *batch_shape, K).

    Errors: NotImplementedError for a total_count that is no int, ValueError where not exactly one of probs and logits is given.

    >>> d = torch.distributions.Multinomial(4, torch.tensor([0.25, 0.75]))
    >>> d.mean, d.sample().sum()
    (tensor([1., 3.]), tensor(4.))
    >>> d.log_prob(torch.tensor([1.0, 3.0])).exp()
    tensor(0.4219)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _parts = ("_categorical",)
    _kept = ("total_count",)

    def __init__(self, total_count: Tensor | int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError(f"Multinomial: total_count that is no int, got {type(total_count).__name__}")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        draws = self._categorical.sample(Size((self.total_count,)) + Size(sample_shape)).movedim(0, -1)
        counts = self.probs.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, draws, facula.ones_like(draws).to(counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        powers = facula.where((value == 0) & (logits == -facula.inf), 0.0, logits) * value
        return facula.lgamma(value.sum(-1) + 1) - facula.lgamma(value + 1).sum(-1) + powers.sum(-1)

    def entropy(self) -> Tensor:
        # n H(categories) - log n! + sum over categories of E[log count!]
        n = self.total_count
        counts = self.probs.new_tensor(range(1, n + 1)).reshape((-1,) + (1,) * self.probs.dim())
        probabilities = facula.exp(Binomial(n, probs=self.probs, validate_args=False).log_prob(counts))
        log_factorial = facula.lgamma(self.probs.new_tensor(n + 1))
        return n * self._categorical.entropy() - log_factorial + (probabilities * facula.lgamma(counts + 1)).sum((0, -1))
