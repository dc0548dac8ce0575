"""Pooling layers; each calls the function of the same name in nn.functional."""

from __future__ import annotations

from .. import functional as F
from .module import Module
from .utils import _pair, _single, _triple

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

    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
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


class MaxPool1d(_MaxPoolNd):
    """Maximum over windows of (N, C, L) or (C, L); see `functional.max_pool1d`."""

    def forward(self, input):
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """Maximum over windows of (N, C, H, W) or (C, H, W); see `functional.max_pool2d`."""

    def forward(self, input):
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """Maximum over windows of (N, C, D, H, W) or (C, D, H, W); see `functional.max_pool3d`."""

    def forward(self, input):
        return self._pool(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    """Partial inverse of max pooling: values go where ``indices`` says, zeros elsewhere."""

    _tuple = None
    _function = None

    def __init__(self, kernel_size, stride=None, padding=0) -> None:
        super().__init__()
        self.kernel_size = self._tuple(kernel_size)
        self.stride = self._tuple(stride if stride is not None else kernel_size)
        self.padding = self._tuple(padding)

    def forward(self, input, indices, output_size=None):
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Inverse of `MaxPool1d`, given its indices."""

    _tuple = staticmethod(_single)
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Inverse of `MaxPool2d`, given its indices."""

    _tuple = staticmethod(_pair)
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Inverse of `MaxPool3d`, given its indices."""

    _tuple = staticmethod(_triple)
    _function = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    """What the average pooling layers share."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Average over windows of (N, C, L) or (C, L).

    Args:
        kernel_size, stride, padding: as in `MaxPool1d`, with zeros for padding.
        ceil_mode: round output sizes up.
        count_include_pad: padding counts in the divisor.
    """

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input):
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPoolWithDivisor(_AvgPoolNd):
    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]
    _function = None

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return self._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolWithDivisor):
    """Average over windows of (N, C, H, W) or (C, H, W); as `AvgPool1d`, and ``divisor_override`` replaces
    the count.
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolWithDivisor):
    """Average over windows of (N, C, D, H, W) or (C, D, H, W); arguments as in `AvgPool2d`."""

    _function = staticmethod(F.avg_pool3d)

    def __setstate__(self, state) -> None:
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

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _tuple = None
    _function = None

    def __init__(
        self,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices: bool = False,
        _random_samples=None,
    ) -> None:
        super().__init__()
        self.kernel_size = self._tuple(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = self._tuple(output_size) if output_size is not None else None
        self.output_ratio = self._tuple(output_ratio) if output_ratio is not None else None
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name}: give either output_size or output_ratio, got {output_size} and {output_ratio}"
            )
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1, got {output_ratio}")

    def forward(self, input):
        return self._function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max pooling of (N, C, H, W) or (C, H, W)."""

    _tuple = staticmethod(_pair)
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max pooling of (N, C, D, H, W) or (C, D, H, W)."""

    _tuple = staticmethod(_triple)
    _function = staticmethod(F.fractional_max_pool3d)


class _LPPoolNd(Module):
    """Power-average pooling: the ``norm_type``-norm of each window."""

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    norm_type: float
    ceil_mode: bool
    _function = None

    def __init__(self, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return self._function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """Power-average pooling of (N, C, L) or (C, L)."""

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """Power-average pooling of (N, C, H, W) or (C, H, W)."""

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """Power-average pooling of (N, C, D, H, W) or (C, D, H, W)."""

    _function = staticmethod(F.lp_pool3d)


class _AdaptiveMaxPoolNd(Module):
    """Maximum pooling to a given output size, one number or one per dimension (None: as the input).

    Args:
        output_size: the spatial size of the output.
        return_indices: also return where the maxima were.
    """

    __constants__ = ["output_size", "return_indices"]
    return_indices: bool
    _function = None

    def __init__(self, output_size, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input):
        return self._function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maximum pooling of (N, C, L) or (C, L) to a given length."""

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum pooling of (N, C, H, W) or (C, H, W) to a given size."""

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum pooling of (N, C, D, H, W) or (C, D, H, W) to a given size."""

    _function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(Module):
    """Average pooling to a given output size, one number or one per dimension (None: as the input)."""

    __constants__ = ["output_size"]
    _function = None

    def __init__(self, output_size) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return self._function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, L) or (C, L) to a given length."""

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, H, W) or (C, H, W) to a given size."""

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, D, H, W) or (C, D, H, W) to a given size."""

    _function = staticmethod(F.adaptive_avg_pool3d)
