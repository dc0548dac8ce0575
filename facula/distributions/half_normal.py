"""Define the half-normal distribution."""

from __future__ import annotations

import math

from facula import Tensor

from ._shared import Half
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """Represent the absolute value of a normal value of mean 0 and standard deviation ``scale``.

    Formula: p = sqrt(2 / pi) * exp(-(x / scale) ** 2 / 2) / scale

    Args:
        scale: a positive number or tensor.
        validate_args: if True, check parameters and values; None as `Distribution.set_default_validate_args` says.

    Shapes: the parameters broadcast to the batch shape; the event shape is (), so a sample is (*sample_shape, *batch_shape).

    Errors: ValueError for a scale that is not positive.

    >>> d = torch.distributions.HalfNormal(torch.tensor([1.0, 2.0]))
    >>> d.mean, d.mode
    (tensor([0.7979, 1.5958]), tensor([0., 0.]))
    """

    _base = Normal

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
