"""Define the categorical distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Size, Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from ._shared import ProbsOrLogits
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits, Distribution):
    """Represent the numbers 0 to K - 1 (int64) with the probabilities in the last dimension, of size K.

    Formula: p = probs[x]

    Args:
        probs: weights (..., K), not negative, which need not sum to one; the attribute does. Or
        logits: logarithms of such weights; the attribute's exponentials sum to one.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: probs and logits (*batch_shape, K); the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError where not exactly one of probs and logits is given, for one without dimensions, and for negative weights.

    >>> d = torch.distributions.Categorical(torch.tensor([1.0, 1.0, 2.0]))
    >>> d.probs
    tensor([0.2500, 0.2500, 0.5000])
    >>> d.log_prob(torch.tensor(2)).exp()
    tensor(0.5000)
    >>> d.sample((5,)).shape, d.enumerate_support()
    (torch.Size([5]), tensor([0, 1, 2]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _kept = ("_given", "_num_events")

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        shape = self._set_categories(probs, logits)
        self._num_events = shape[-1]
        super().__init__(shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return facula.full(self._batch_shape, facula.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        samples = facula.multinomial(rows, sample_shape.numel(), True).T
        return samples.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, logits = facula.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=facula.finfo(self.logits.dtype).min)  # 0 * -inf is 0
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = facula.arange(self._num_events, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
