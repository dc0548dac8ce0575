"""Dropout layers: in training they set elements (or whole channels) to zero at random; in evaluation they do
nothing.
"""

from __future__ import annotations

from .. import functional as F
from . import _docs
from ._docs import described
from .module import Module

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """What all dropout layers share.

    Args:
        p: probability of an element (or channel) to be dropped, in [0, 1].
        inplace: write into the input.
    """

    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0.0 or p > 1.0:
            raise ValueError(f"{type(self).__name__}: p must be between 0 and 1, got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Drops single elements and scales the others by 1 / (1 - p).

    Args:
        inplace: whether the input itself is changed, and returned.
    """

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)


@described(_docs.CHANNEL_DROPOUT, 1, shapes="(N, C, L) or (C, L)")
class Dropout1d(_DropoutNd):
    def forward(self, input):
        return F.dropout1d(input, self.p, self.training, self.inplace)


@described(_docs.CHANNEL_DROPOUT, 2, shapes="(N, C, H, W)")
class Dropout2d(_DropoutNd):
    def forward(self, input):
        return F.dropout2d(input, self.p, self.training, self.inplace)


@described(_docs.CHANNEL_DROPOUT, 3, shapes="(N, C, D, H, W) or (C, D, H, W)")
class Dropout3d(_DropoutNd):
    def forward(self, input):
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance behind SELU; dropped elements take SELU's lower limit.

    Args:
        p: the probability of dropping, in [0, 1].
        inplace: whether the input itself is changed, and returned.
    """

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels of (N, C, ...).

    Args:
        p: the probability of dropping, in [0, 1].
        inplace: whether the input itself is changed, and returned.
    """

    def forward(self, input):
        return F.feature_alpha_dropout(input, self.p, self.training)
