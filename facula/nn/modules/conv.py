"""Define convolutions and transposed convolutions in one, two and three dimensions.

Long because PyTorch has all convolutions in one file of this name, and each class stands there with its docstring and
example.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import facula
from facula import _C

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single, _triple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.types import Device

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]


# ---- What lazy convolutions share


class _LazyConvXdMixin(LazyModuleMixin):
    """Take ``in_channels`` of a convolution from its first input."""

    def __init__(self, out_channels: int, kernel_size: int | Sequence[int], *args: Any, bias: bool = True,
                 device: Device = None, dtype: facula.dtype | None = None, **kwargs: Any) -> None:  # fmt: skip
        # No channels and no bias: nothing is allocated or drawn before the shape is known.
        super().__init__(0, 0, kernel_size, *args, bias=False, **kwargs)
        self.weight: Parameter = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias: Parameter = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels: int = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise ValueError(
                f"{type(self).__name__}: in_channels must be divisible by groups {self.groups}, got "
                f"{self.in_channels}"
            )
        channels = (self.in_channels, self.out_channels // self.groups)
        if not self.transposed:
            channels = (self.out_channels, self.in_channels // self.groups)
        self.weight.materialize((*channels, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input) -> int:
        unbatched = self._get_num_spatial_dims() + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"{type(self).__name__}: the input must have {unbatched} or {unbatched + 1} dimensions, "
                f"got shape {tuple(input.shape)}"
            )
        return input.shape[-unbatched]

    def _get_num_spatial_dims(self) -> int:
        return len(self.kernel_size)


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__(
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__(
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias=bias,
            dilation=dilation,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )


_PADDING_STRINGS = ("same", "valid")
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Hold the parameters of all convolutions, check the arguments, initialize the weights and print the repr."""

    __constants__: ClassVar[list[str]] = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    in_channels: int
    _reversed_padding_repeated_twice: list[int]
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: facula.Tensor
    bias: facula.Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: str | int | Sequence[int],
        dilation: int | Sequence[int],
        transposed: bool,
        output_padding: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if groups <= 0:
            raise ValueError(f"{name}: groups must be positive, got {groups}")
        if in_channels % groups:
            raise ValueError(f"{name}: in_channels must be divisible by groups {groups}, got {in_channels}")
        if out_channels % groups:
            raise ValueError(f"{name}: out_channels must be divisible by groups {groups}, got {out_channels}")
        if isinstance(padding, str):
            if padding not in _PADDING_STRINGS:
                raise ValueError(f"{name}: padding must be numbers, {_C._one_of(padding, ('same', 'valid'))}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError(f"{name}: padding 'same' needs stride 1, got {tuple(stride)}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"{name}: padding_mode must be {_C._one_of(padding_mode, _PADDING_MODES)}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_for_pad()
        channels = (
            (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        )
        self.weight = Parameter(facula.empty((*channels, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(facula.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _padding_for_pad(self) -> list[int]:
        """Return the padding as `functional.pad` wants it: last dimension first, both ends; used unless mode is
        'zeros'.
        """
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        result = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            for i, (d, k) in enumerate(zip(reversed(self.dilation), reversed(self.kernel_size))):
                total = d * (k - 1)
                result[2 * i] = total // 2
                result[2 * i + 1] = total - total // 2
        return result

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniformly within 1 / sqrt(in_channels / groups * elements of the kernel).

        >>> layer = nn.Conv2d(4, 2, 3)
        >>> layer.reset_parameters()
        >>> layer.weight.abs().max().item() <= 1 / 6
        True
        """
        # With a = sqrt(5) the Kaiming bound is 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        ]
        n = len(self.kernel_size)
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * n:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    """Call the kernel of a convolution. Subclasses name the kernel and convert one number to a tuple."""

    _function = None
    _tuple = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        as_tuple = self._tuple
        super().__init__(
            in_channels,
            out_channels,
            as_tuple(kernel_size),
            as_tuple(stride),
            padding if isinstance(padding, str) else as_tuple(padding),
            as_tuple(dilation),
            False,
            as_tuple(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolve (cross-correlate) the input with learned kernels over 1 dimension.

    Formula:
        y[o, i] = bias[o] + sum(weight[o, c, k] * x[c, stride * i + dilation * k - padding] for c in channels for k in window)
        L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

    Args:
        in_channels: C_in, the number of channels of the input.
        out_channels: C_out, the number of channels of the output, each computed with a kernel of its own.
        kernel_size: the size of the window.
        stride: the step of the window.
        padding: the number of elements added at both ends of each dimension; 'valid' adds none, 'same' adds as many as keep the
            size (with stride 1).
        dilation: the step between the elements of a window.
        groups: the number of blocks into which the channels are cut, which are convolved separately; it must divide both
            numbers of channels.
        bias: if True, add a learned number to each output channel.
        padding_mode: which values are added, 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: the device and the dtype of the parameters.

    Shapes: input (N, C_in, L) or (C_in, L); output (N, C_out, L_out) or (C_out, L_out), where a dimension of size L becomes
    L_out. ``weight`` is (C_out, C_in / groups, *kernel_size)
    and ``bias`` (C_out,); both are drawn uniformly within 1 / sqrt(C_in / groups * number of elements of a window).

    Errors: ValueError for channels that groups does not divide, for 'same' with a stride, and for unknown words; RuntimeError,
    when called, for an input of other channels or dimensions.

    >>> conv = nn.Conv1d(3, 16, kernel_size=3, padding=1)
    >>> conv(torch.randn(2, 3, 8)).shape
    torch.Size([2, 16, 8])
    """

    _function = staticmethod(F.conv1d)
    _tuple = staticmethod(_single)


class Conv2d(_Conv):
    """Convolve (cross-correlate) the input with learned kernels over 2 dimensions.

    Formula:
        y[o, i] = bias[o] + sum(weight[o, c, k] * x[c, stride * i + dilation * k - padding] for c in channels for k in window)
        L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

    Args:
        in_channels: C_in, the number of channels of the input.
        out_channels: C_out, the number of channels of the output, each computed with a kernel of its own.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension.
        padding: the number of elements added at both ends of each dimension, a number or one for each dimension; 'valid' adds
            none, 'same' adds as many as keep the size (with stride 1).
        dilation: the step between the elements of a window, a number or one for each dimension.
        groups: the number of blocks into which the channels are cut, which are convolved separately; it must divide both
            numbers of channels.
        bias: if True, add a learned number to each output channel.
        padding_mode: which values are added, 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: the device and the dtype of the parameters.

    Shapes: input (N, C_in, H, W) or (C_in, H, W); output (N, C_out, H_out, W_out) or (C_out, H_out, W_out), where a dimension
    of size L becomes L_out. ``weight`` is
    (C_out, C_in / groups, *kernel_size) and ``bias`` (C_out,); both are drawn uniformly within 1 /
    sqrt(C_in / groups * number of elements of a window).

    Errors: ValueError for channels that groups does not divide, for 'same' with a stride, and for unknown words; RuntimeError,
    when called, for an input of other channels or dimensions.

    >>> conv = nn.Conv2d(3, 16, kernel_size=3, padding=1)
    >>> conv(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 16, 8, 8])
    """

    _function = staticmethod(F.conv2d)
    _tuple = staticmethod(_pair)


class Conv3d(_Conv):
    """Convolve (cross-correlate) the input with learned kernels over 3 dimensions.

    Formula:
        y[o, i] = bias[o] + sum(weight[o, c, k] * x[c, stride * i + dilation * k - padding] for c in channels for k in window)
        L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

    Args:
        in_channels: C_in, the number of channels of the input.
        out_channels: C_out, the number of channels of the output, each computed with a kernel of its own.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension.
        padding: the number of elements added at both ends of each dimension, a number or one for each dimension; 'valid' adds
            none, 'same' adds as many as keep the size (with stride 1).
        dilation: the step between the elements of a window, a number or one for each dimension.
        groups: the number of blocks into which the channels are cut, which are convolved separately; it must divide both
            numbers of channels.
        bias: if True, add a learned number to each output channel.
        padding_mode: which values are added, 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: the device and the dtype of the parameters.

    Shapes: input (N, C_in, D, H, W) or (C_in, D, H, W); output (N, C_out, D_out, H_out, W_out) or (C_out, D_out, H_out, W_out),
    where a dimension of size L becomes L_out. ``weight`` is
    (C_out, C_in / groups, *kernel_size) and ``bias`` (C_out,); both are drawn uniformly within 1 /
    sqrt(C_in / groups * number of elements of a window).

    Errors: ValueError for channels that groups does not divide, for 'same' with a stride, and for unknown words; RuntimeError,
    when called, for an input of other channels or dimensions.

    >>> conv = nn.Conv3d(3, 16, kernel_size=3, padding=1)
    >>> conv(torch.randn(2, 3, 8, 8, 8)).shape
    torch.Size([2, 16, 8, 8, 8])
    """

    _function = staticmethod(F.conv3d)
    _tuple = staticmethod(_triple)


class _ConvTransposeNd(_ConvNd):
    """Compute what all transposed convolutions need, such as the output padding for a requested size."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int],
        dilation: int | Sequence[int],
        transposed: bool,
        output_padding: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: padding_mode must be 'zeros', got {padding_mode!r}")
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None
    ):
        """Return the output padding that gives ``output_size``; the module's own when that is None."""
        if output_size is None:
            return _single(self.output_padding)
        n = num_spatial_dims
        wanted = list(output_size)
        if len(wanted) == n + (2 if input.dim() == n + 2 else 1):
            wanted = wanted[-n:]
        if len(wanted) != n:
            raise ValueError(
                f"{type(self).__name__}: output_size must have {n} or {input.dim()} entries, got "
                f"{tuple(output_size)}"
            )
        result = []
        for d in range(n):
            reach = (dilation[d] if dilation is not None else 1) * (kernel_size[d] - 1) + 1
            smallest = (input.size(d + input.dim() - n) - 1) * stride[d] - 2 * padding[d] + reach
            if not smallest <= wanted[d] <= smallest + stride[d] - 1:
                raise ValueError(
                    f"{type(self).__name__}: output_size[{d}] must be between {smallest} and "
                    f"{smallest + stride[d] - 1} for input {tuple(input.shape)}, got {tuple(output_size)}"
                )
            result.append(wanted[d] - smallest)
        return result


class _ConvTranspose(_ConvTransposeNd):
    """Call the kernel of a transposed convolution. Subclasses name the kernel and convert one number to a tuple."""

    _function = None
    _tuple = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        as_tuple = self._tuple
        super().__init__(
            in_channels,
            out_channels,
            as_tuple(kernel_size),
            as_tuple(stride),
            as_tuple(padding),
            as_tuple(dilation),
            True,
            as_tuple(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        output_padding = self._output_padding(
            input,
            output_size,
            self.stride,
            self.padding,
            self.kernel_size,
            len(self.kernel_size),
            self.dilation,
        )
        return self._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose):
    """Apply the transpose of a convolution over 1 dimension: the map that `Conv1d` applies to gradients, not its inverse.

    Formula: L_out = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1

    Args:
        in_channels: C_in, the number of channels of the input.
        out_channels: C_out, the number of channels of the output.
        kernel_size: the size of the window of the convolution whose transpose this is.
        stride: the step of that window.
        padding: the padding of that convolution; it is cut off the output.
        output_padding: the number of elements added at one end of each dimension of the output, smaller than the stride or the
            dilation. A strided convolution maps several sizes to one; this chooses among them.
        groups: the number of blocks into which the channels are cut; it must divide both numbers of channels.
        bias: if True, add a learned number to each output channel.
        dilation: the step between the elements of a window.
        padding_mode: 'zeros' only.
        device, dtype: the device and the dtype of the parameters.

    Shapes: input (N, C_in, L) or (C_in, L); output (N, C_out, L_out) or (C_out, L_out), where a dimension of size L becomes
    L_out. A call may give the sizes as
    ``output_size`` instead of an output_padding. ``weight`` is (C_in, C_out / groups, *kernel_size) and ``bias`` (C_out,).

    Errors: ValueError for channels that groups does not divide, for another padding_mode, and, when called, for an
    ``output_size`` that no output padding gives; RuntimeError, when called, for an input of other channels or dimensions.

    >>> up = nn.ConvTranspose1d(16, 3, kernel_size=2, stride=2)
    >>> up(torch.randn(2, 16, 4)).shape
    torch.Size([2, 3, 8])
    """

    _function = staticmethod(F.conv_transpose1d)
    _tuple = staticmethod(_single)


class ConvTranspose2d(_ConvTranspose):
    """Apply the transpose of a convolution over 2 dimensions: the map that `Conv2d` applies to gradients, not its inverse.

    Formula: L_out = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1

    Args:
        in_channels: C_in, the number of channels of the input.
        out_channels: C_out, the number of channels of the output.
        kernel_size: the size of the window of the convolution whose transpose this is, a number or one for each dimension.
        stride: the step of that window, a number or one for each dimension.
        padding: the padding of that convolution, a number or one for each dimension; it is cut off the output.
        output_padding: the number of elements added at one end of each dimension of the output, a number or one for each
            dimension, smaller than the stride or the dilation. A strided convolution maps several sizes to one; this chooses
            among them.
        groups: the number of blocks into which the channels are cut; it must divide both numbers of channels.
        bias: if True, add a learned number to each output channel.
        dilation: the step between the elements of a window, a number or one for each dimension.
        padding_mode: 'zeros' only.
        device, dtype: the device and the dtype of the parameters.

    Shapes: input (N, C_in, H, W) or (C_in, H, W); output (N, C_out, H_out, W_out) or (C_out, H_out, W_out), where a dimension
    of size L becomes L_out. A call may give
    the sizes as ``output_size`` instead of an output_padding. ``weight`` is (C_in, C_out / groups, *kernel_size) and ``bias``
    (C_out,).

    Errors: ValueError for channels that groups does not divide, for another padding_mode, and, when called, for an
    ``output_size`` that no output padding gives; RuntimeError, when called, for an input of other channels or dimensions.

    >>> up = nn.ConvTranspose2d(16, 3, kernel_size=2, stride=2)
    >>> up(torch.randn(2, 16, 4, 4)).shape
    torch.Size([2, 3, 8, 8])
    """

    _function = staticmethod(F.conv_transpose2d)
    _tuple = staticmethod(_pair)


class ConvTranspose3d(_ConvTranspose):
    """Apply the transpose of a convolution over 3 dimensions: the map that `Conv3d` applies to gradients, not its inverse.

    Formula: L_out = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1

    Args:
        in_channels: C_in, the number of channels of the input.
        out_channels: C_out, the number of channels of the output.
        kernel_size: the size of the window of the convolution whose transpose this is, a number or one for each dimension.
        stride: the step of that window, a number or one for each dimension.
        padding: the padding of that convolution, a number or one for each dimension; it is cut off the output.
        output_padding: the number of elements added at one end of each dimension of the output, a number or one for each
            dimension, smaller than the stride or the dilation. A strided convolution maps several sizes to one; this chooses
            among them.
        groups: the number of blocks into which the channels are cut; it must divide both numbers of channels.
        bias: if True, add a learned number to each output channel.
        dilation: the step between the elements of a window, a number or one for each dimension.
        padding_mode: 'zeros' only.
        device, dtype: the device and the dtype of the parameters.

    Shapes: input (N, C_in, D, H, W) or (C_in, D, H, W); output (N, C_out, D_out, H_out, W_out) or (C_out, D_out, H_out, W_out),
    where a dimension of size L becomes L_out.
    A call may give the sizes as ``output_size`` instead of an output_padding. ``weight`` is
    (C_in, C_out / groups, *kernel_size) and ``bias`` (C_out,).

    Errors: ValueError for channels that groups does not divide, for another padding_mode, and, when called, for an
    ``output_size`` that no output padding gives; RuntimeError, when called, for an input of other channels or dimensions.

    >>> up = nn.ConvTranspose3d(16, 3, kernel_size=2, stride=2)
    >>> up(torch.randn(2, 16, 4, 4, 4)).shape
    torch.Size([2, 3, 8, 8, 8])
    """

    _function = staticmethod(F.conv_transpose3d)
    _tuple = staticmethod(_triple)


class LazyConv1d(_LazyConv, Conv1d):
    """Convolve as `Conv1d` does, which this module becomes at the first call; the input of that call determines
    in_channels.

    Args:
        out_channels: C_out, the number of channels of the output, each computed with a kernel of its own.
        kernel_size: the size of the window.
        stride: the step of the window.
        padding: the number of elements added at both ends of each dimension; 'valid' adds none, 'same' adds as many as keep the
            size (with stride 1).
        dilation: the step between the elements of a window.
        groups: the number of blocks into which the channels are cut, which are convolved separately; it must divide both
            numbers of channels.
        bias: if True, add a learned number to each output channel.
        padding_mode: which values are added, 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: the device and the dtype of the parameters.

    Shapes: those of `Conv1d`. The parameters have no shape before the first call: move and convert the module as usual, but
    make the optimizer afterwards.

    Errors: those of `Conv1d`.

    >>> layer = nn.LazyConv1d(16, kernel_size=3)
    >>> _ = layer(torch.randn(2, 3, 8))
    >>> type(layer).__name__, layer.in_channels
    ('Conv1d', 3)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """Convolve as `Conv2d` does, which this module becomes at the first call; the input of that call determines
    in_channels.

    Args:
        out_channels: C_out, the number of channels of the output, each computed with a kernel of its own.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension.
        padding: the number of elements added at both ends of each dimension, a number or one for each dimension; 'valid' adds
            none, 'same' adds as many as keep the size (with stride 1).
        dilation: the step between the elements of a window, a number or one for each dimension.
        groups: the number of blocks into which the channels are cut, which are convolved separately; it must divide both
            numbers of channels.
        bias: if True, add a learned number to each output channel.
        padding_mode: which values are added, 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: the device and the dtype of the parameters.

    Shapes: those of `Conv2d`. The parameters have no shape before the first call: move and convert the module as usual, but
    make the optimizer afterwards.

    Errors: those of `Conv2d`.

    >>> layer = nn.LazyConv2d(16, kernel_size=3)
    >>> _ = layer(torch.randn(2, 3, 8, 8))
    >>> type(layer).__name__, layer.in_channels
    ('Conv2d', 3)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """Convolve as `Conv3d` does, which this module becomes at the first call; the input of that call determines
    in_channels.

    Args:
        out_channels: C_out, the number of channels of the output, each computed with a kernel of its own.
        kernel_size: the size of the window, a number or one for each dimension.
        stride: the step of the window, a number or one for each dimension.
        padding: the number of elements added at both ends of each dimension, a number or one for each dimension; 'valid' adds
            none, 'same' adds as many as keep the size (with stride 1).
        dilation: the step between the elements of a window, a number or one for each dimension.
        groups: the number of blocks into which the channels are cut, which are convolved separately; it must divide both
            numbers of channels.
        bias: if True, add a learned number to each output channel.
        padding_mode: which values are added, 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: the device and the dtype of the parameters.

    Shapes: those of `Conv3d`. The parameters have no shape before the first call: move and convert the module as usual, but
    make the optimizer afterwards.

    Errors: those of `Conv3d`.

    >>> layer = nn.LazyConv3d(16, kernel_size=3)
    >>> _ = layer(torch.randn(2, 3, 8, 8, 8))
    >>> type(layer).__name__, layer.in_channels
    ('Conv3d', 3)
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """Apply a `ConvTranspose1d`, which this module becomes at the first call; the input of that call determines
    in_channels.

    Args:
        out_channels: C_out, the number of channels of the output.
        kernel_size: the size of the window of the convolution whose transpose this is.
        stride: the step of that window.
        padding: the padding of that convolution; it is cut off the output.
        output_padding: the number of elements added at one end of each dimension of the output, smaller than the stride or the
            dilation. A strided convolution maps several sizes to one; this chooses among them.
        groups: the number of blocks into which the channels are cut; it must divide both numbers of channels.
        bias: if True, add a learned number to each output channel.
        dilation: the step between the elements of a window.
        padding_mode: 'zeros' only.
        device, dtype: the device and the dtype of the parameters.

    Shapes: those of `ConvTranspose1d`. The parameters have no shape before the first call: move and convert the module as
    usual, but make the optimizer afterwards.

    Errors: those of `ConvTranspose1d`.

    >>> layer = nn.LazyConvTranspose1d(8, kernel_size=2, stride=2)
    >>> _ = layer(torch.randn(2, 3, 8))
    >>> type(layer).__name__, layer.in_channels
    ('ConvTranspose1d', 3)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """Apply a `ConvTranspose2d`, which this module becomes at the first call; the input of that call determines
    in_channels.

    Args:
        out_channels: C_out, the number of channels of the output.
        kernel_size: the size of the window of the convolution whose transpose this is, a number or one for each dimension.
        stride: the step of that window, a number or one for each dimension.
        padding: the padding of that convolution, a number or one for each dimension; it is cut off the output.
        output_padding: the number of elements added at one end of each dimension of the output, a number or one for each
            dimension, smaller than the stride or the dilation. A strided convolution maps several sizes to one; this chooses
            among them.
        groups: the number of blocks into which the channels are cut; it must divide both numbers of channels.
        bias: if True, add a learned number to each output channel.
        dilation: the step between the elements of a window, a number or one for each dimension.
        padding_mode: 'zeros' only.
        device, dtype: the device and the dtype of the parameters.

    Shapes: those of `ConvTranspose2d`. The parameters have no shape before the first call: move and convert the module as
    usual, but make the optimizer afterwards.

    Errors: those of `ConvTranspose2d`.

    >>> layer = nn.LazyConvTranspose2d(8, kernel_size=2, stride=2)
    >>> _ = layer(torch.randn(2, 3, 8, 8))
    >>> type(layer).__name__, layer.in_channels
    ('ConvTranspose2d', 3)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """Apply a `ConvTranspose3d`, which this module becomes at the first call; the input of that call determines
    in_channels.

    Args:
        out_channels: C_out, the number of channels of the output.
        kernel_size: the size of the window of the convolution whose transpose this is, a number or one for each dimension.
        stride: the step of that window, a number or one for each dimension.
        padding: the padding of that convolution, a number or one for each dimension; it is cut off the output.
        output_padding: the number of elements added at one end of each dimension of the output, a number or one for each
            dimension, smaller than the stride or the dilation. A strided convolution maps several sizes to one; this chooses
            among them.
        groups: the number of blocks into which the channels are cut; it must divide both numbers of channels.
        bias: if True, add a learned number to each output channel.
        dilation: the step between the elements of a window, a number or one for each dimension.
        padding_mode: 'zeros' only.
        device, dtype: the device and the dtype of the parameters.

    Shapes: those of `ConvTranspose3d`. The parameters have no shape before the first call: move and convert the module as
    usual, but make the optimizer afterwards.

    Errors: those of `ConvTranspose3d`.

    >>> layer = nn.LazyConvTranspose3d(8, kernel_size=2, stride=2)
    >>> _ = layer(torch.randn(2, 3, 8, 8, 8))
    >>> type(layer).__name__, layer.in_channels
    ('ConvTranspose3d', 3)
    """

    cls_to_become = ConvTranspose3d
