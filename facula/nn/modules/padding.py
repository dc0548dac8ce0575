"""Define padding layers; each adds elements at both ends of the last one, two or three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
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


class _PadNd(Module):
    """Hold the padding of all padding layers.

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
    """Pad with a given value."""

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
    """Pad with the input mirrored at its ends."""

    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    """Pad with the elements at the ends."""

    _mode = "replicate"


class _CircularPadNd(_PadNd):
    """Pad with the elements at the other end."""

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


class ConstantPad1d(_ConstantPadNd):
    """Pad the last dimension with a number.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension: 2 numbers. Negative
            numbers cut off.
        value: the number that is added.

    Shapes: input (N, C, L) or (C, L); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result with a negative size, and for fewer dimensions than are padded.

    >>> nn.ConstantPad1d(2, 0.5)(torch.randn(1, 1, 4)).shape
    torch.Size([1, 1, 8])
    """

    _ends = 2


class ConstantPad2d(_ConstantPadNd):
    """Pad the last 2 dimensions with a number.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 4 numbers. Negative numbers cut off.
        value: the number that is added.

    Shapes: input (N, C, H, W) or (C, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result with a negative size, and for fewer dimensions than are padded.

    >>> nn.ConstantPad2d(2, 0.5)(torch.randn(1, 1, 4, 4)).shape
    torch.Size([1, 1, 8, 8])
    """

    _ends = 4


class ConstantPad3d(_ConstantPadNd):
    """Pad the last 3 dimensions with a number.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 6 numbers. Negative numbers cut off.
        value: the number that is added.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result with a negative size, and for fewer dimensions than are padded.

    >>> nn.ConstantPad3d(2, 0.5)(torch.randn(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 8, 8, 8])
    """

    _ends = 6


class ReflectionPad1d(_ReflectionPadNd):
    """Pad the last dimension with their mirror image, which does not repeat the elements at the ends.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension: 2 numbers. Negative
            numbers cut off.

    Shapes: input (N, C, L) or (C, L); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension, and for numbers that are not smaller than
    the dimension.

    >>> nn.ReflectionPad1d(2)(torch.randn(1, 1, 4)).shape
    torch.Size([1, 1, 8])
    """

    _ends = 2


class ReflectionPad2d(_ReflectionPadNd):
    """Pad the last 2 dimensions with their mirror image, which does not repeat the elements at the ends.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 4 numbers. Negative numbers cut off.

    Shapes: input (N, C, H, W) or (C, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension, and for numbers that are not smaller than
    the dimension.

    >>> nn.ReflectionPad2d(2)(torch.randn(1, 1, 4, 4)).shape
    torch.Size([1, 1, 8, 8])
    """

    _ends = 4


class ReflectionPad3d(_ReflectionPadNd):
    """Pad the last 3 dimensions with their mirror image, which does not repeat the elements at the ends.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 6 numbers. Negative numbers cut off.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension, and for numbers that are not smaller than
    the dimension.

    >>> nn.ReflectionPad3d(2)(torch.randn(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 8, 8, 8])
    """

    _ends = 6


class ReplicationPad1d(_ReplicationPadNd):
    """Pad the last dimension by repeating the elements at the ends.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension: 2 numbers. Negative
            numbers cut off.

    Shapes: input (N, C, L) or (C, L); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension; NotImplementedError for another number of
    dimensions.

    >>> nn.ReplicationPad1d(2)(torch.randn(1, 1, 4)).shape
    torch.Size([1, 1, 8])
    """

    _ends = 2


class ReplicationPad2d(_ReplicationPadNd):
    """Pad the last 2 dimensions by repeating the elements at the ends.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 4 numbers. Negative numbers cut off.

    Shapes: input (N, C, H, W) or (C, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension; NotImplementedError for another number of
    dimensions.

    >>> nn.ReplicationPad2d(2)(torch.randn(1, 1, 4, 4)).shape
    torch.Size([1, 1, 8, 8])
    """

    _ends = 4


class ReplicationPad3d(_ReplicationPadNd):
    """Pad the last 3 dimensions by repeating the elements at the ends.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 6 numbers. Negative numbers cut off.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension; NotImplementedError for another number of
    dimensions.

    >>> nn.ReplicationPad3d(2)(torch.randn(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 8, 8, 8])
    """

    _ends = 6


class CircularPad1d(_CircularPadNd):
    """Pad the last dimension with the elements of the other end, as if they were circles.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension: 2 numbers. Negative
            numbers cut off.

    Shapes: input (N, C, L) or (C, L); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension, and for numbers larger than the dimension;
    ValueError for another number of dimensions.

    >>> nn.CircularPad1d(2)(torch.randn(1, 1, 4)).shape
    torch.Size([1, 1, 8])
    """

    _ends = 2


class CircularPad2d(_CircularPadNd):
    """Pad the last 2 dimensions with the elements of the other end, as if they were circles.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 4 numbers. Negative numbers cut off.

    Shapes: input (N, C, H, W) or (C, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension, and for numbers larger than the dimension;
    ValueError for another number of dimensions.

    >>> nn.CircularPad2d(2)(torch.randn(1, 1, 4, 4)).shape
    torch.Size([1, 1, 8, 8])
    """

    _ends = 4


class CircularPad3d(_CircularPadNd):
    """Pad the last 3 dimensions with the elements of the other end, as if they were circles.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 6 numbers. Negative numbers cut off.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result without elements in a dimension, and for numbers larger than the dimension;
    ValueError for another number of dimensions.

    >>> nn.CircularPad3d(2)(torch.randn(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 8, 8, 8])
    """

    _ends = 6


class ZeroPad1d(ConstantPad1d):
    """Pad the last dimension with zeros.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension: 2 numbers. Negative
            numbers cut off.

    Shapes: input (N, C, L) or (C, L); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result with a negative size, and for fewer dimensions than are padded.

    >>> nn.ZeroPad1d(2)(torch.randn(1, 1, 4)).shape
    torch.Size([1, 1, 8])
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pad the last 2 dimensions with zeros.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 4 numbers. Negative numbers cut off.

    Shapes: input (N, C, H, W) or (C, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result with a negative size, and for fewer dimensions than are padded.

    >>> nn.ZeroPad2d(2)(torch.randn(1, 1, 4, 4)).shape
    torch.Size([1, 1, 8, 8])
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pad the last 3 dimensions with zeros.

    Args:
        padding: the number of elements added at every end, or (before, after) for the last dimension, then for the last but
            one, and so on: 6 numbers. Negative numbers cut off.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same, each padded dimension longer by the sum of its two numbers.

    Errors: RuntimeError, when called, for a result with a negative size, and for fewer dimensions than are padded.

    >>> nn.ZeroPad3d(2)(torch.randn(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 8, 8, 8])
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"
