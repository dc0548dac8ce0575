"""Define dropout layers. In training they set elements, or whole channels, to zero at random; in evaluation they do
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """Hold the probability of all dropout layers, and whether they write into their input.

    Args:
        p: probability of an element (or channel) to be dropped, in [0, 1].
        inplace: write into the input.
    """

    __constants__: ClassVar[list[str]] = ["p", "inplace"]
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
    """Set elements to zero in training, with probability p, and multiply the others by 1 / (1 - p) (Hinton et al. 2012).

    So the expected value stays. In evaluation the input is returned.

    Args:
        p: the probability that an element is dropped, in [0, 1].
        inplace: if True, change the input itself and return it.

    Shapes: input of any shape; output the same.

    Errors: ValueError for p outside [0, 1].

    >>> y = nn.Dropout(0.5)(torch.ones(100))
    >>> set(y.tolist()) == {0.0, 2.0}
    True
    >>> nn.Dropout(0.5).eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Set whole channels to zero in training, with probability p, and multiply the others by 1 / (1 - p).

    Args:
        p: the probability that a channel is dropped, in [0, 1].
        inplace: if True, change the input itself.

    Shapes: input (N, C, L) or (C, L); output the same.

    Errors: ValueError for p outside [0, 1]; RuntimeError, when called, for another number of dimensions.

    >>> y = nn.Dropout1d(0.5)(torch.ones(4, 8, 4))
    >>> sorted(set(y.amax(dim=tuple(range(2, y.dim()))).flatten().tolist()) | {0.0, 2.0})
    [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Set whole channels to zero in training, with probability p, and multiply the others by 1 / (1 - p).

    Args:
        p: the probability that a channel is dropped, in [0, 1].
        inplace: if True, change the input itself.

    Shapes: input (N, C, H, W) (others with a warning); output the same.

    Errors: ValueError for p outside [0, 1].

    >>> y = nn.Dropout2d(0.5)(torch.ones(4, 8, 4, 4))
    >>> sorted(set(y.amax(dim=tuple(range(2, y.dim()))).flatten().tolist()) | {0.0, 2.0})
    [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Set whole channels to zero in training, with probability p, and multiply the others by 1 / (1 - p).

    Args:
        p: the probability that a channel is dropped, in [0, 1].
        inplace: if True, change the input itself.

    Shapes: input (N, C, D, H, W) or (C, D, H, W) (others with a warning); output the same.

    Errors: ValueError for p outside [0, 1].

    >>> y = nn.Dropout3d(0.5)(torch.ones(4, 8, 4, 4, 4))
    >>> sorted(set(y.amax(dim=tuple(range(2, y.dim()))).flatten().tolist()) | {0.0, 2.0})
    [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Apply dropout that goes with `SELU` (Klambauer et al. 2017).

    Dropped elements take SELU's lower limit, and all are scaled and shifted so that mean and variance stay.

    Args:
        p: the probability that an element is dropped, in [0, 1].
        inplace: accepted without effect: the input is never changed.

    Shapes: input of any shape; output the same.

    Errors: ValueError for p outside [0, 1].

    >>> y = nn.AlphaDropout(0.2)(torch.randn(10000))
    >>> abs(y.mean().item()) < 0.1, abs(y.var().item() - 1) < 0.1
    (True, True)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """Apply `AlphaDropout` to whole channels.

    Args:
        p: the probability that a channel is dropped, in [0, 1].
        inplace: accepted without effect: the input is never changed.

    Shapes: input (N, C, ...) and output the same.

    Errors: ValueError for p outside [0, 1]; RuntimeError, when called, for fewer than two dimensions.

    >>> y = nn.FeatureAlphaDropout(0.5)(torch.zeros(2, 3, 4))
    >>> bool((y == y[:, :, :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
