"""Layers whose results sum to 1: softmax and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from ._activation_base import _PlainActivation
from .module import Module

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor


class _AlongDim(Module):
    """What the softmax family shares: the dimension, which files from before it existed lack."""

    __constants__: ClassVar[list[str]] = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """``exp(-x)`` divided by its sum along dim: positive numbers that sum to 1, the greatest where x is least.

    Args:
        dim: the dimension along which the numbers sum to 1; without it one is guessed, with a warning.

    Shapes: input and output of any one shape.

    >>> nn.Softmin(dim=0)(torch.tensor([0.0, 0.0, 1.0]))
    tensor([0.4223, 0.4223, 0.1554])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDim):
    """``exp(x)`` divided by its sum along dim: positive numbers that sum to 1. `NLLLoss` wants their logarithms:
    `LogSoftmax`, which is faster and more exact than the two in turn.

    Args:
        dim: the dimension along which the numbers sum to 1; without it one is guessed, with a warning.

    Shapes: input and output of any one shape.

    >>> nn.Softmax(dim=1)(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    tensor([[0.5000, 0.5000],
            [0.2689, 0.7311]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """``log(exp(x) / sum(exp(x)))`` along dim, computed without overflow.

    Args:
        dim: the dimension along which the probabilities sum to 1; without it one is guessed, with a warning.

    Shapes: input and output of any one shape.

    >>> nn.LogSoftmax(dim=1)(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    tensor([[-0.6931, -0.6931],
            [-1.3133, -0.3133]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(_PlainActivation):
    """Softmax over the channels at each position of an image.

    Shapes: input (N, C, H, W) or (C, H, W); output the same.

    Errors: ValueError, when called, for another number of dimensions.

    >>> nn.Softmax2d()(torch.randn(2, 3, 4, 4)).sum(1).allclose(torch.ones(2, 4, 4))
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: the input must have 3 or 4 dimensions, got {input.dim()}")
        return F.softmax(input, -3, _stacklevel=5)
