"""Padding layers: each adds elements at both ends of the last one, two or three dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from .. import functional as F
from .module import Module
from .utils import _ntuple

__all__ = [
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _PadNd(Module):
    """What all padding layers share.

    Args:
        padding: one number for all ends, or (before, after) of the last dimension, then of the last but one,
            ...
    """

    __constants__ = ["padding"]
    padding: Sequence[int]
    _ends = 2
    _mode = "constant"

    def __init__(self, padding) -> None:
        super().__init__()
        self.padding = _ntuple(self._ends)(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Padding with a given value."""

    __constants__ = ["padding", "value"]
    value: float

    def __init__(self, padding, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ReflectionPadNd(_PadNd):
    """Padding with the input mirrored at its ends."""

    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    """Padding with the elements at the ends."""

    _mode = "replicate"


class _CircularPadNd(_PadNd):
    """Padding with the elements at the other end."""

    _mode = "circular"

    def _check_input_dim(self, input) -> None:
        n = self._ends // 2
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(
                f"{type(self).__name__}: the input must have {n + 1} or {n + 2} dimensions, got {input.dim()}"
            )

    def forward(self, input):
        self._check_input_dim(input)
        return super().forward(input)


class ConstantPad1d(_ConstantPadNd):
    """Pads (N, C, L) or (C, L) with a given value."""

    _ends = 2


class ConstantPad2d(_ConstantPadNd):
    """Pads (N, C, H, W) or (C, H, W) with a given value."""

    _ends = 4


class ConstantPad3d(_ConstantPadNd):
    """Pads (N, C, D, H, W) or (C, D, H, W) with a given value."""

    _ends = 6


class ReflectionPad1d(_ReflectionPadNd):
    """Pads (N, C, L) or (C, L) with its mirror image at the ends."""

    _ends = 2


class ReflectionPad2d(_ReflectionPadNd):
    """Pads (N, C, H, W) or (C, H, W) with its mirror image at the ends."""

    _ends = 4


class ReflectionPad3d(_ReflectionPadNd):
    """Pads (N, C, D, H, W) or (C, D, H, W) with its mirror image at the ends."""

    _ends = 6


class ReplicationPad1d(_ReplicationPadNd):
    """Pads (N, C, L) or (C, L) with its end elements."""

    _ends = 2


class ReplicationPad2d(_ReplicationPadNd):
    """Pads (N, C, H, W) or (C, H, W) with its end elements."""

    _ends = 4


class ReplicationPad3d(_ReplicationPadNd):
    """Pads (N, C, D, H, W) or (C, D, H, W) with its end elements."""

    _ends = 6


class CircularPad1d(_CircularPadNd):
    """Pads (N, C, L) or (C, L) with the elements of its other end."""

    _ends = 2


class CircularPad2d(_CircularPadNd):
    """Pads (N, C, H, W) or (C, H, W) with the elements of its other end."""

    _ends = 4


class CircularPad3d(_CircularPadNd):
    """Pads (N, C, D, H, W) or (C, D, H, W) with the elements of its other end."""

    _ends = 6


class ZeroPad1d(ConstantPad1d):
    """Pads (N, C, L) or (C, L) with zeros."""

    def __init__(self, padding) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pads (N, C, H, W) or (C, H, W) with zeros."""

    def __init__(self, padding) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pads (N, C, D, H, W) or (C, D, H, W) with zeros."""

    def __init__(self, padding) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"
