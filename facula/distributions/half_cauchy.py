"""The half-Cauchy distribution."""

import facula

from ._half import Half
from .cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """The absolute value of a Cauchy value around 0; mean and variance are infinite."""

    _base = Cauchy

    def __init__(self, scale, validate_args=None):
        super().__init__(scale, validate_args)

    @property
    def mean(self):
        return facula.full_like(self.scale, facula.inf)

    @property
    def variance(self):
        return self.base_dist.variance
