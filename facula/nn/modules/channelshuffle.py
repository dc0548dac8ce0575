"""Define ChannelShuffle, which mixes the groups of a grouped convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from facula import Tensor

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Split the channels into groups, and put the first of each group first, then the second of each, and so on
    (Zhang et al. 2018).

    It swaps the two middle dimensions of ``(N, groups, C / groups, ...)``.

    Args:
        groups: the number of groups; it must divide C.

    Shapes: input (N, C, ...); output the same.

    Errors: RuntimeError, when called, for a C that groups does not divide.

    >>> nn.ChannelShuffle(2)(torch.arange(4.0).reshape(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    __constants__: ClassVar[list[str]] = ["groups"]
    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
