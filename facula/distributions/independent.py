"""Define distributions whose last batch dimensions count as dimensions of the event."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from facula import Size, Tensor
from facula.distributions.constraints import Constraint

from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

__all__ = ["Independent"]


class Independent(Distribution):
    """Take the last batch dimensions of another distribution as dimensions of one value, whose log_prob is the sum of theirs.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: the number of its batch dimensions that become dimensions of the event.
        validate_args: if True, check values; None as `Distribution.set_default_validate_args` says.

    Shapes: the batch shape loses its last dimensions to the event shape; samples keep their shape.

    Errors: ValueError where there are not so many batch dimensions.

    >>> base = torch.distributions.Normal(torch.zeros(2, 3), 1.0)
    >>> d = torch.distributions.Independent(base, 1)
    >>> d.batch_shape, d.event_shape
    (torch.Size([2]), torch.Size([3]))
    >>> d.log_prob(torch.zeros(2, 3)).shape
    torch.Size([2])
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:  # fmt: skip
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                f"Independent: expected reinterpreted_batch_ndims of at most {len(batch)}, got {reinterpreted_batch_ndims}"
            )
        kept = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(batch[:kept], batch[kept:] + base_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = Size(batch_shape)
        new.base_dist = self.base_dist.expand(batch_shape + self._event_shape[: self.reinterpreted_batch_ndims])
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._finish_expanded(new, batch_shape, self._event_shape)

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        support = self.base_dist.support
        return constraints.independent(support, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else support

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all values, only of an Independent that takes no dimension."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Independent.enumerate_support: a cartesian product over the event's dimensions")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
