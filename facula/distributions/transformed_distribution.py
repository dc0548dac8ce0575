"""Define distributions of functions of random values."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula import Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Represent t(x) with x from another distribution; the density follows from the determinant of t's Jacobian.

    Args:
        base_distribution: the distribution of x.
        transforms: a Transform, or a list of them, applied in order.
        validate_args: if True, check values; None as `Distribution.set_default_validate_args` says.

    Shapes: the shapes are those that the transforms make of the batch and event shapes of base_distribution.

    Errors: ValueError for anything but transforms, and where they need more dimensions than the base has.

    >>> from torch import distributions
    >>> base = distributions.Normal(0.0, 1.0)
    >>> d = distributions.TransformedDistribution(base, [distributions.AffineTransform(loc=1.0, scale=2.0)])
    >>> d.log_prob(torch.tensor(1.0)), distributions.Normal(1.0, 2.0).log_prob(torch.tensor(1.0))
    (tensor(-1.6121), tensor(-1.6121))
    >>> d.cdf(torch.tensor(1.0)), d.sample((4,)).shape
    (tensor(0.5000), torch.Size([4]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}

    def __init__(self, base_distribution: Distribution, transforms: Sequence[Transform] | Transform,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        self.transforms: Sequence[Transform] = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"TransformedDistribution: expected a Transform or a list of them, got {transforms}")
        whole = ComposeTransform(self.transforms)
        base_batch, base_event = base_distribution.batch_shape, base_distribution.event_shape
        base_shape = base_batch + base_event
        taken = whole.domain.event_dim
        if len(base_shape) < taken:
            raise ValueError(
                f"TransformedDistribution: the base must have at least {taken} dimensions, got shape {tuple(base_shape)}"
            )
        shape = whole.forward_shape(base_shape)
        expanded = whole.inverse_shape(shape)
        if expanded != base_shape:  # the transforms' parameters have more dimensions
            base_distribution = base_distribution.expand(expanded[: len(expanded) - len(base_event)])
        if taken > len(base_event):
            base_distribution = Independent(base_distribution, taken - len(base_event))
        self.base_dist = base_distribution
        event_dim = max(whole.codomain.event_dim, len(base_event) + whole.codomain.event_dim - taken)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        new = super().expand(batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape(new._batch_shape + self._event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self._event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with facula.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self._event_shape)
        log_prob = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            log_det = transform.log_abs_det_jacobian(x, value)
            log_prob = log_prob - _sum_rightmost(log_det, event_dim - transform.domain.event_dim)
            value = x
        base = self.base_dist.log_prob(value)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value):
        """Return 1 - value where the transforms decrease."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function, for monotonic transforms."""
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function, for monotonic transforms."""
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
