"""Define mixtures of distributions of one family."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Size, Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Represent a value of one of K components of a family, which is chosen at random.

    Formula: p = sum(probs[k] * q[k] for k in all)  # q: the densities of the components

    Args:
        mixture_distribution: Categorical with K categories, which chooses.
        component_distribution: a distribution whose last batch dimension has size K.
        validate_args: if True, check values; None as `Distribution.set_default_validate_args` says.

    Shapes: mixture_distribution has the batch shape (*batch_shape), component_distribution (*batch_shape, K); the event shape
    is that of a component.

    Errors: ValueError for other classes and for shapes that do not fit each other.

    >>> from torch import distributions
    >>> choice = distributions.Categorical(torch.tensor([0.25, 0.75]))
    >>> d = distributions.MixtureSameFamily(choice, distributions.Normal(torch.tensor([0.0, 10.0]), 1.0))
    >>> d.mean, d.cdf(torch.tensor(5.0))
    (tensor(7.5000), tensor(0.2500))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    has_rsample = False

    def __init__(self, mixture_distribution: Distribution, component_distribution: Distribution,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        for given, expected in ((mixture_distribution, Categorical), (component_distribution, Distribution)):
            if not isinstance(given, expected):
                raise ValueError(f"MixtureSameFamily: expected a {expected.__name__}, got {type(given).__name__}")
        choices, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        fits = len(components) > 0 and components[-1] == mixture_distribution._num_events
        for a, b in zip(reversed(choices), reversed(components[:-1]), strict=False):
            fits = fits and a in (1, b)
        if not fits:
            raise ValueError(
                f"MixtureSameFamily: mixtures of batch shape {tuple(choices)} with {mixture_distribution._num_events} "
                f"categories do not fit components of batch shape {tuple(components)}"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = components[-1]
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(components[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return self._finish_expanded(new, batch_shape, self._event_shape)

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Distribution:
        """The Categorical that chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last batch dimension."""
        return self._component_distribution

    def _average(self, values):
        """Return the average of values of the components, weighted."""
        probs = self._mixture_distribution.probs
        probs = probs.reshape(probs.shape + (1,) * self._event_ndims)
        return (probs * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._average(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        apart = self._component_distribution.mean - self._pad(self.mean)
        return self._average(self._component_distribution.variance) + self._average(apart.pow(2))

    def cdf(self, value: Tensor) -> Tensor:
        found = self._component_distribution.cdf(self._pad(value))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        each = self._component_distribution.log_prob(self._pad(value))
        return facula.logsumexp(each + facula.log_softmax(self._mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with facula.no_grad():
            at = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            return values.gather(at, chosen.expand(chosen.shape[: at + 1] + self._event_shape)).squeeze(at)

    def _pad(self, values):
        return values.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
