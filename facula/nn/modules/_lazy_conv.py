"""What lazy convolutions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..parameter import UninitializedParameter
from .lazy import LazyModuleMixin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import facula
    from facula import Tensor
    from facula.nn.parameter import Parameter
    from facula.types import Device


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution whose ``in_channels`` is that of its first input."""

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
