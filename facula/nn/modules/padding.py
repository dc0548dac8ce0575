"""Padding layers: each adds elements at both ends of the last one, two or three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from . import _docs
from ._docs import described
from .module import Module
from .utils import _ntuple

if TYPE_CHECKING:
    from facula import Tensor

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


def _padding(how: str, n: int, has_value: bool = False):
    """Return the docstring of a padding layer."""
    value, example = (_docs.PAD_VALUE, "2, 0.5") if has_value else ("", "2")
    padded = ", ".join(["8"] * n)
    return described(_docs.PAD, n, how=how, ends=str(2 * n), value=value, example=example, padded=padded)


class _PadNd(Module):
    """What all padding layers share.

    Args:
        padding: one number for all ends, or (before, after) of the last dimension, then of the last but one,
            ...
    """

    __constants__: ClassVar[list[str]] = ["padding"]
    padding: Sequence[int]
    _ends = 2
    _mode = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = _ntuple(self._ends)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Padding with a given value."""

    __constants__: ClassVar[list[str]] = ["padding", "value"]
    value: float

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
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

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return super().forward(input)


@_padding("with a given value", 1, True)
class ConstantPad1d(_ConstantPadNd):
    _ends = 2


@_padding("with a given value", 2, True)
class ConstantPad2d(_ConstantPadNd):
    _ends = 4


@_padding("with a given value", 3, True)
class ConstantPad3d(_ConstantPadNd):
    _ends = 6


@_padding("with their mirror image, without the end elements", 1)
class ReflectionPad1d(_ReflectionPadNd):
    _ends = 2


@_padding("with their mirror image, without the end elements", 2)
class ReflectionPad2d(_ReflectionPadNd):
    _ends = 4


@_padding("with their mirror image, without the end elements", 3)
class ReflectionPad3d(_ReflectionPadNd):
    _ends = 6


@_padding("with their end elements", 1)
class ReplicationPad1d(_ReplicationPadNd):
    _ends = 2


@_padding("with their end elements", 2)
class ReplicationPad2d(_ReplicationPadNd):
    _ends = 4


@_padding("with their end elements", 3)
class ReplicationPad3d(_ReplicationPadNd):
    _ends = 6


@_padding("with the elements of the other end", 1)
class CircularPad1d(_CircularPadNd):
    _ends = 2


@_padding("with the elements of the other end", 2)
class CircularPad2d(_CircularPadNd):
    _ends = 4


@_padding("with the elements of the other end", 3)
class CircularPad3d(_CircularPadNd):
    _ends = 6


@_padding("with zeros", 1)
class ZeroPad1d(ConstantPad1d):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@_padding("with zeros", 2)
class ZeroPad2d(ConstantPad2d):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@_padding("with zeros", 3)
class ZeroPad3d(ConstantPad3d):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"
