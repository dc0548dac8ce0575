"""Pooling layers; each calls the function of the same name in nn.functional."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
from . import _docs
from ._docs import described
from .module import Module
from .utils import _pair, _single, _triple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

__all__ = [
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
]


class _MaxPoolNd(Module):
    """Maximum over windows.

    Args:
        kernel_size: of the window, one number or one per dimension.
        stride: of the window. Default: kernel_size.
        padding: minus infinity added at both ends, at most half the window.
        dilation: step between the elements of a window.
        return_indices: also return where the maxima were, for `MaxUnpool2d` and others.
        ceil_mode: round output sizes up.
    """

    __constants__: ClassVar[list[str]] = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: int | Sequence[int] = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )

    def _pool(self, function, input):
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


@described(_docs.MAX_POOL, 1)
class MaxPool1d(_MaxPoolNd):
    def forward(self, input: Tensor) -> Tensor | Any:
        return self._pool(F.max_pool1d, input)


@described(_docs.MAX_POOL, 2)
class MaxPool2d(_MaxPoolNd):
    def forward(self, input: Tensor) -> Tensor | Any:
        return self._pool(F.max_pool2d, input)


@described(_docs.MAX_POOL, 3)
class MaxPool3d(_MaxPoolNd):
    def forward(self, input: Tensor) -> Tensor | Any:
        return self._pool(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    """Partial inverse of max pooling: values go where ``indices`` says, zeros elsewhere."""

    _tuple = None
    _function = None

    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size: Any = self._tuple(kernel_size)
        self.stride: Any = self._tuple(stride if stride is not None else kernel_size)
        self.padding: Any = self._tuple(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor:
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@described(_docs.MAX_UNPOOL, 1)
class MaxUnpool1d(_MaxUnpoolNd):
    _tuple = staticmethod(_single)
    _function = staticmethod(F.max_unpool1d)


@described(_docs.MAX_UNPOOL, 2)
class MaxUnpool2d(_MaxUnpoolNd):
    _tuple = staticmethod(_pair)
    _function = staticmethod(F.max_unpool2d)


@described(_docs.MAX_UNPOOL, 3)
class MaxUnpool3d(_MaxUnpoolNd):
    _tuple = staticmethod(_triple)
    _function = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    """What the average pooling layers share."""

    __constants__: ClassVar[list[str]] = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@described(_docs.AVG_POOL, 1, divisor="")
class AvgPool1d(_AvgPoolNd):
    def __init__(self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        super().__init__()
        self.kernel_size: tuple[Any, ...] = _single(kernel_size)
        self.stride: tuple[Any, ...] = _single(stride if stride is not None else kernel_size)
        self.padding: tuple[Any, ...] = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPoolWithDivisor(_AvgPoolNd):
    __constants__: ClassVar[list[str]] = [*_AvgPoolNd.__constants__, "divisor_override"]
    _function = None

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: int | Sequence[int] = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


@described(_docs.AVG_POOL, 2, divisor=_docs.AVG_POOL_DIVISOR)
class AvgPool2d(_AvgPoolWithDivisor):
    _function = staticmethod(F.avg_pool2d)


@described(_docs.AVG_POOL, 3, divisor=_docs.AVG_POOL_DIVISOR)
class AvgPool3d(_AvgPoolWithDivisor):
    _function = staticmethod(F.avg_pool3d)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, default in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, default)


class _FractionalMaxPoolNd(Module):
    """Maximum over windows at pseudo-random places.

    Args:
        kernel_size: of the windows.
        output_size: the spatial size of the output; or
        output_ratio: output size over input size, in (0, 1).
        return_indices: also return where the maxima were.
    """

    __constants__: ClassVar[list[str]] = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _tuple = None
    _function = None

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size: Any = self._tuple(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size: Any = self._tuple(output_size) if output_size is not None else None
        self.output_ratio: Any = self._tuple(output_ratio) if output_ratio is not None else None
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name}: give either output_size or output_ratio, got {output_size} and {output_ratio}"
            )
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1, got {output_ratio}")

    def forward(self, input: Tensor) -> Tensor:
        return self._function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


@described(_docs.FRACTIONAL_POOL, 2)
class FractionalMaxPool2d(_FractionalMaxPoolNd):
    _tuple = staticmethod(_pair)
    _function = staticmethod(F.fractional_max_pool2d)


@described(_docs.FRACTIONAL_POOL, 3)
class FractionalMaxPool3d(_FractionalMaxPoolNd):
    _tuple = staticmethod(_triple)
    _function = staticmethod(F.fractional_max_pool3d)


class _LPPoolNd(Module):
    """Power-average pooling: the ``norm_type``-norm of each window."""

    __constants__: ClassVar[list[str]] = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    norm_type: float
    ceil_mode: bool
    _function = None

    def __init__(self, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 ceil_mode: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


@described(_docs.LP_POOL, 1)
class LPPool1d(_LPPoolNd):
    _function = staticmethod(F.lp_pool1d)


@described(_docs.LP_POOL, 2)
class LPPool2d(_LPPoolNd):
    _function = staticmethod(F.lp_pool2d)


@described(_docs.LP_POOL, 3)
class LPPool3d(_LPPoolNd):
    _function = staticmethod(F.lp_pool3d)


class _AdaptiveMaxPoolNd(Module):
    """Maximum pooling to a given output size, one number or one per dimension (None: as the input).

    Args:
        output_size: the spatial size of the output.
        return_indices: also return where the maxima were.
    """

    __constants__: ClassVar[list[str]] = ["output_size", "return_indices"]
    return_indices: bool
    _function = None

    def __init__(self, output_size: int | Sequence[int | None], return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


@described(_docs.ADAPTIVE_POOL, 1, what="maximum", indices=_docs.ADAPTIVE_INDICES)
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    _function = staticmethod(F.adaptive_max_pool1d)


@described(_docs.ADAPTIVE_POOL, 2, what="maximum", indices=_docs.ADAPTIVE_INDICES)
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    _function = staticmethod(F.adaptive_max_pool2d)


@described(_docs.ADAPTIVE_POOL, 3, what="maximum", indices=_docs.ADAPTIVE_INDICES)
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    _function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(Module):
    """Average pooling to a given output size, one number or one per dimension (None: as the input)."""

    __constants__: ClassVar[list[str]] = ["output_size"]
    _function = None

    def __init__(self, output_size: int | Sequence[int | None]) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


@described(_docs.ADAPTIVE_POOL, 1, what="average", indices="")
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    _function = staticmethod(F.adaptive_avg_pool1d)


@described(_docs.ADAPTIVE_POOL, 2, what="average", indices="")
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    _function = staticmethod(F.adaptive_avg_pool2d)


@described(_docs.ADAPTIVE_POOL, 3, what="average", indices="")
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    _function = staticmethod(F.adaptive_avg_pool3d)
