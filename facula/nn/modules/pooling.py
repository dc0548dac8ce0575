"""Define pooling layers; each calls the function of the same name in nn.functional.

Long because PyTorch has all pooling layers in one file of this name, and each class stands there with its docstring and
example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .. import functional as F
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
    """Compute the maximum of windows.

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


class MaxPool1d(_MaxPoolNd):
    """Compute the maximum of each window over the last dimension.

    Formula: L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

    Args:
        kernel_size: the size of the window.
        stride: the step of the window. Default: kernel_size.
        padding: the number of elements, minus infinity, added at both ends; at most half the window.
        dilation: the step between the elements of a window.
        return_indices: if True, also return where the maxima were, for `MaxUnpool1d`.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: input (N, C, L) or (C, L); output (N, C, L_out) or (C, L_out), where a dimension of size L becomes
    L_out; with return_indices a pair of such tensors.

    Errors: RuntimeError, when called, for another number of dimensions, and for a padding of more than half the window.

    >>> nn.MaxPool1d(2)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 4])
    """

    def forward(self, input: Tensor) -> Tensor | Any:
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """Compute the maximum of each window over the last 2 dimensions.

    Formula: L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

    Args:
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of elements, minus infinity, added at both ends; at most half the window.
        dilation: the step between the elements of a window, a number or one for each dimension.
        return_indices: if True, also return where the maxima were, for `MaxUnpool2d`.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out) or (C, H_out, W_out), where a dimension of size L
    becomes L_out; with return_indices a pair of such tensors.

    Errors: RuntimeError, when called, for another number of dimensions, and for a padding of more than half the window.

    >>> nn.MaxPool2d(2)(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 3, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor | Any:
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """Compute the maximum of each window over the last 3 dimensions.

    Formula: L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

    Args:
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of elements, minus infinity, added at both ends; at most half the window.
        dilation: the step between the elements of a window, a number or one for each dimension.
        return_indices: if True, also return where the maxima were, for `MaxUnpool3d`.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), where a
    dimension of size L becomes L_out; with return_indices a
    pair of such tensors.

    Errors: RuntimeError, when called, for another number of dimensions, and for a padding of more than half the window.

    >>> nn.MaxPool3d(2)(torch.randn(2, 3, 8, 8, 8)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor | Any:
        return self._pool(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    """Invert max pooling in part: values go to the places in ``indices``, and all other places become zero."""

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


class MaxUnpool1d(_MaxUnpoolNd):
    """Put pooled values back where the maxima were, with zeros everywhere else: a partial inverse of `MaxPool1d`.

    Args:
        kernel_size: the size of the window of the pooling.
        stride: its step. Default: kernel_size.
        padding: its padding.

    Shapes: called with the pooled values (N, C, L) or (C, L), the indices of the same shape that came with them, and, where
    several sizes are pooled to the same one, the wanted ``output_size``. In the output a dimension of size L becomes
    ``(L - 1) * stride - 2 * padding + kernel_size``, or what output_size says.

    Errors: ValueError, when called, for an output_size that the pooling does not give; RuntimeError for indices of another
    shape or outside the output.

    >>> pooled, indices = nn.MaxPool1d(2, return_indices=True)(torch.randn(2, 3, 8))
    >>> nn.MaxUnpool1d(2)(pooled, indices).shape
    torch.Size([2, 3, 8])
    """

    _tuple = staticmethod(_single)
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Put pooled values back where the maxima were, with zeros everywhere else: a partial inverse of `MaxPool2d`.

    Args:
        kernel_size: the size of the window of the pooling, a number or one for each dimension.
        stride: its step, a number or one for each dimension. Default: kernel_size.
        padding: its padding, a number or one for each dimension.

    Shapes: called with the pooled values (N, C, H, W) or (C, H, W), the indices of the same shape that came with them, and,
    where several sizes are pooled to the same one, the wanted ``output_size``. In the output a dimension of size L becomes
    ``(L - 1) * stride - 2 * padding + kernel_size``, or what output_size says.

    Errors: ValueError, when called, for an output_size that the pooling does not give; RuntimeError for indices of another
    shape or outside the output.

    >>> pooled, indices = nn.MaxPool2d(2, return_indices=True)(torch.randn(2, 3, 8, 8))
    >>> nn.MaxUnpool2d(2)(pooled, indices).shape
    torch.Size([2, 3, 8, 8])
    """

    _tuple = staticmethod(_pair)
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Put pooled values back where the maxima were, with zeros everywhere else: a partial inverse of `MaxPool3d`.

    Args:
        kernel_size: the size of the window of the pooling, a number or one for each dimension.
        stride: its step, a number or one for each dimension. Default: kernel_size.
        padding: its padding, a number or one for each dimension.

    Shapes: called with the pooled values (N, C, D, H, W) or (C, D, H, W), the indices of the same shape that came with them,
    and, where several sizes are pooled to the same one, the wanted ``output_size``. In the output a dimension of size L becomes
    ``(L - 1) * stride - 2 * padding + kernel_size``, or what output_size says.

    Errors: ValueError, when called, for an output_size that the pooling does not give; RuntimeError for indices of another
    shape or outside the output.

    >>> pooled, indices = nn.MaxPool3d(2, return_indices=True)(torch.randn(2, 3, 8, 8, 8))
    >>> nn.MaxUnpool3d(2)(pooled, indices).shape
    torch.Size([2, 3, 8, 8, 8])
    """

    _tuple = staticmethod(_triple)
    _function = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    """Print the options of the average pooling layers."""

    __constants__: ClassVar[list[str]] = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Compute the average of each window over the last dimension.

    Formula: L_out = (L + 2 * padding - kernel_size) // stride + 1

    Args:
        kernel_size: the size of the window.
        stride: the step of the window. Default: kernel_size.
        padding: the number of zeros added at both ends; at most half the window.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        count_include_pad: if True, count the added zeros in the divisor.

    Shapes: input (N, C, L) or (C, L); output (N, C, L_out) or (C, L_out), where a dimension of size L becomes
    L_out.

    Errors: RuntimeError, when called, for another number of dimensions, and for a padding of more than half the window.

    >>> nn.AvgPool1d(2)(torch.ones(1, 1, 4)).unique()
    tensor([1.])
    """

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


class AvgPool2d(_AvgPoolWithDivisor):
    """Compute the average of each window over the last 2 dimensions.

    Formula: L_out = (L + 2 * padding - kernel_size) // stride + 1

    Args:
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of zeros added at both ends; at most half the window.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        count_include_pad: if True, count the added zeros in the divisor.
        divisor_override: the number to divide by instead of the number of elements.

    Shapes: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out) or (C, H_out, W_out), where a dimension of size L
    becomes L_out.

    Errors: RuntimeError, when called, for another number of dimensions, and for a padding of more than half the window.

    >>> nn.AvgPool2d(2)(torch.ones(1, 1, 4, 4)).unique()
    tensor([1.])
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolWithDivisor):
    """Compute the average of each window over the last 3 dimensions.

    Formula: L_out = (L + 2 * padding - kernel_size) // stride + 1

    Args:
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        padding: the number of zeros added at both ends; at most half the window.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.
        count_include_pad: if True, count the added zeros in the divisor.
        divisor_override: the number to divide by instead of the number of elements.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), where a
    dimension of size L becomes L_out.

    Errors: RuntimeError, when called, for another number of dimensions, and for a padding of more than half the window.

    >>> nn.AvgPool3d(2)(torch.ones(1, 1, 4, 4, 4)).unique()
    tensor([1.])
    """

    _function = staticmethod(F.avg_pool3d)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, default in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, default)


class _FractionalMaxPoolNd(Module):
    """Compute the maximum of windows at pseudo-random places.

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


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Compute the maximum of windows over the last 2 dimensions whose places are drawn at random (Graham 2014).

    Args:
        kernel_size: the size of the windows, a number or one for each dimension.
        output_size: the sizes of the output, a number or one for each dimension; or
        output_ratio: output sizes over input sizes, in (0, 1). Give one of the two.
        return_indices: if True, also return where the maxima were.
        _random_samples: the places of the windows, (N, C, 2) numbers in [0, 1); None draws them at each call.

    Shapes: input (N, C, H, W) or (C, H, W); output the same with output_size in the last 2 dimensions; with return_indices a
    pair of such tensors.

    Errors: ValueError for both or neither of output_size and output_ratio, and for a ratio outside (0, 1).

    >>> nn.FractionalMaxPool2d(2, output_ratio=0.5)(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 3, 4, 4])
    """

    _tuple = staticmethod(_pair)
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Compute the maximum of windows over the last 3 dimensions whose places are drawn at random (Graham 2014).

    Args:
        kernel_size: the size of the windows, a number or one for each dimension.
        output_size: the sizes of the output, a number or one for each dimension; or
        output_ratio: output sizes over input sizes, in (0, 1). Give one of the two.
        return_indices: if True, also return where the maxima were.
        _random_samples: the places of the windows, (N, C, 3) numbers in [0, 1); None draws them at each call.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same with output_size in the last 3 dimensions; with
    return_indices a pair of such tensors.

    Errors: ValueError for both or neither of output_size and output_ratio, and for a ratio outside (0, 1).

    >>> nn.FractionalMaxPool3d(2, output_ratio=0.5)(torch.randn(2, 3, 8, 8, 8)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    _tuple = staticmethod(_triple)
    _function = staticmethod(F.fractional_max_pool3d)


class _LPPoolNd(Module):
    """Compute the ``norm_type``-norm of each window (power-average pooling)."""

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


class LPPool1d(_LPPoolNd):
    """Compute the norm of each window over the last dimension (power-average pooling).

    Formula:
        y = sum(x[k] ** norm_type for k in window) ** (1 / norm_type)
        L_out = (L - kernel_size) // stride + 1

    Args:
        norm_type: the power; 1 gives sums, and large numbers come near the maximum.
        kernel_size: the size of the window.
        stride: the step of the window. Default: kernel_size.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: input (N, C, L) or (C, L); output (N, C, L_out) or (C, L_out), where a dimension of size L becomes
    L_out.

    Errors: RuntimeError, when called, for another number of dimensions.

    >>> nn.LPPool1d(1, 2)(torch.ones(1, 1, 4)).unique().item() == 2 ** 1
    True
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """Compute the norm of each window over the last 2 dimensions (power-average pooling).

    Formula:
        y = sum(x[k] ** norm_type for k in window) ** (1 / norm_type)
        L_out = (L - kernel_size) // stride + 1

    Args:
        norm_type: the power; 1 gives sums, and large numbers come near the maximum.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out) or (C, H_out, W_out), where a dimension of size L
    becomes L_out.

    Errors: RuntimeError, when called, for another number of dimensions.

    >>> nn.LPPool2d(1, 2)(torch.ones(1, 1, 4, 4)).unique().item() == 2 ** 2
    True
    """

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """Compute the norm of each window over the last 3 dimensions (power-average pooling).

    Formula:
        y = sum(x[k] ** norm_type for k in window) ** (1 / norm_type)
        L_out = (L - kernel_size) // stride + 1

    Args:
        norm_type: the power; 1 gives sums, and large numbers come near the maximum.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension. Default: kernel_size.
        ceil_mode: if True, round sizes up, so that a last window may reach beyond the end.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out), where a
    dimension of size L becomes L_out.

    Errors: RuntimeError, when called, for another number of dimensions.

    >>> nn.LPPool3d(1, 2)(torch.ones(1, 1, 4, 4, 4)).unique().item() == 2 ** 3
    True
    """

    _function = staticmethod(F.lp_pool3d)


class _AdaptiveMaxPoolNd(Module):
    """Compute maxima of windows for a given output size: one number, or one per dimension, where None means the size of
    the input.

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


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Compute the maximum of windows over the last dimension, chosen so that the output has a given size.

    Args:
        output_size: the size of the output; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Shapes: input (N, C, L) or (C, L); output the same with output_size in the last dimension; with return_indices a pair of
    such tensors.

    Errors: RuntimeError, when called, for another number of dimensions, and for a negative size.

    >>> nn.AdaptiveMaxPool1d(4)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 4])
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Compute the maximum of windows over the last 2 dimensions, chosen so that the output has a given size.

    Args:
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Shapes: input (N, C, H, W) or (C, H, W); output the same with output_size in the last 2 dimensions; with return_indices a
    pair of such tensors.

    Errors: RuntimeError, when called, for another number of dimensions, and for a negative size.

    >>> nn.AdaptiveMaxPool2d(4)(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 3, 4, 4])
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Compute the maximum of windows over the last 3 dimensions, chosen so that the output has a given size.

    Args:
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.
        return_indices: if True, also return where the maxima were.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same with output_size in the last 3 dimensions; with
    return_indices a pair of such tensors.

    Errors: RuntimeError, when called, for another number of dimensions, and for a negative size.

    >>> nn.AdaptiveMaxPool3d(4)(torch.randn(2, 3, 8, 8, 8)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    _function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(Module):
    """Compute means of windows for a given output size: one number, or one per dimension, where None means the size of
    the input.
    """

    __constants__: ClassVar[list[str]] = ["output_size"]
    _function = None

    def __init__(self, output_size: int | Sequence[int | None]) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Compute the average of windows over the last dimension, chosen so that the output has a given size.

    Args:
        output_size: the size of the output; None keeps that of the input.

    Shapes: input (N, C, L) or (C, L); output the same with output_size in the last dimension.

    Errors: RuntimeError, when called, for another number of dimensions, and for a negative size.

    >>> nn.AdaptiveAvgPool1d(4)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 4])
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Compute the average of windows over the last 2 dimensions, chosen so that the output has a given size.

    Args:
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.

    Shapes: input (N, C, H, W) or (C, H, W); output the same with output_size in the last 2 dimensions.

    Errors: RuntimeError, when called, for another number of dimensions, and for a negative size.

    >>> nn.AdaptiveAvgPool2d(4)(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 3, 4, 4])
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Compute the average of windows over the last 3 dimensions, chosen so that the output has a given size.

    Args:
        output_size: the sizes of the output, a number or one for each dimension; None keeps that of the input.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same with output_size in the last 3 dimensions.

    Errors: RuntimeError, when called, for another number of dimensions, and for a negative size.

    >>> nn.AdaptiveAvgPool3d(4)(torch.randn(2, 3, 8, 8, 8)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    _function = staticmethod(F.adaptive_avg_pool3d)
