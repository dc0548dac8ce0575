"""The half-normal distribution."""

import math

from ._half import Half
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """The absolute value of a normal value of mean 0 and standard deviation `scale`."""

    _base = Normal

    def __init__(self, scale, validate_args=None):
        super().__init__(scale, validate_args)

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)
