"""What loss layers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from .. import _reduction
from .module import Module

if TYPE_CHECKING:
    from facula import Tensor


class _Loss(Module):
    """A loss with a reduction: 'mean', 'sum' or 'none'; ``size_average`` and ``reduce`` are its older
    flags.
    """

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _reduction.resolve(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight tensor, kept as a buffer."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: facula.Tensor | None
