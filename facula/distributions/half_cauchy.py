"""Define the half-Cauchy distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import Tensor

from ._shared import Half
from .cauchy import Cauchy

if TYPE_CHECKING:
    from typing import Any

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """Represent the absolute value of a Cauchy value around 0; mean and variance are infinite.

    Formula: p = 2 / (pi * scale * (1 + (x / scale) ** 2))

    Args:
        scale: the median, a positive number or tensor.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.HalfCauchy(2.0)
    >>> d.cdf(torch.tensor(2.0)), d.mean
    (tensor(0.5000), tensor(inf))
    """

    _base = Cauchy

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return facula.full_like(self.scale, facula.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance
