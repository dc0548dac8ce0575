"""Define the Dirichlet distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .exp_family import ExponentialFamily

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Represent points x of the simplex: numbers that are not negative and sum to 1.

    Formula: p = Gamma(sum(a[i] for i in all)) * prod(x[i] ** (a[i] - 1) / Gamma(a[i]) for i in all)  # a: concentration

    Args:
        concentration: a positive tensor (..., K), one for each component.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: concentration (*batch_shape, K); the event shape is (K,), so a sample is (*sample_shape, *batch_shape, K).

    Errors: ValueError for a concentration without dimensions and for one that is not positive.

    >>> d = torch.distributions.Dirichlet(torch.tensor([1.0, 1.0, 2.0]))
    >>> d.mean
    tensor([0.2500, 0.2500, 0.5000])
    >>> d.sample().sum().round(decimals=4), d.event_shape
    (tensor(1.), torch.Size([3]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"concentration": constraints.independent(constraints.positive, 1)}
    support: Constraint = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: concentration must have at least one dimension, got none")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return facula._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return facula.xlogy(a - 1.0, value).sum(-1) + facula.lgamma(a.sum(-1)) - facula.lgamma(a).sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """Where all concentrations are below 1 and every corner is a peak, the first one."""
        over = (self.concentration - 1).clamp(min=0.0)
        corner = facula.zeros_like(over)
        corner[..., 0] = 1
        return facula.where((self.concentration < 1).all(-1, keepdim=True), corner, over / over.sum(-1, keepdim=True))

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1)
        log_normalizer = facula.lgamma(a).sum(-1) - facula.lgamma(total)
        mean_log = (a - 1.0) * facula.digamma(a)
        return log_normalizer - (a.shape[-1] - total) * facula.digamma(total) - mean_log.sum(-1)

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
