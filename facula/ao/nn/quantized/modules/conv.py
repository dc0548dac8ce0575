"""Define convolutions with a weight of qint8."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import facula
from facula import nn
from facula.ao.nn.quantized import _products

from .utils import WeightedQuantizedModule, observed_weight, output_levels, quantize_weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


def _tuple(value, dims):
    return tuple(value) if isinstance(value, (list, tuple)) else (value,) * dims


class _Conv(WeightedQuantizedModule):
    _DIMS = 0
    _FLOAT: type = nn.Module
    _TRANSPOSED = False
    _RELU = False
    in_channels: int
    out_channels: int
    groups: int
    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    output_padding: Any
    scale: float
    zero_point: int

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", output_padding: int | Sequence[int] = 0) -> None:  # fmt: skip
        super().__init__()
        dims = self._DIMS
        if in_channels % groups or out_channels % groups:
            channels = f"in_channels={in_channels}, out_channels={out_channels}, groups={groups}"
            raise ValueError(f"{type(self).__name__}: channels must be divisible by groups, got {channels}")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular") or self._TRANSPOSED and padding_mode != "zeros":
            raise NotImplementedError(f"{type(self).__name__}: this padding_mode is not supported, got {padding_mode!r}")
        if isinstance(padding, str):
            raise NotImplementedError(f"{type(self).__name__}: padding is given in numbers, got {padding!r}")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, padding_mode
        self.kernel_size, self.stride, self.padding, self.dilation, self.output_padding = (
            _tuple(v, dims) for v in (kernel_size, stride, padding, dilation, output_padding)
        )
        self.transposed = self._TRANSPOSED
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = [first, second // groups, *self.kernel_size]
        weight = facula._empty_affine_quantized(shape, scale=1, zero_point=0, dtype=facula.qint8)
        self.set_weight_bias(weight, facula.zeros(out_channels) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self):
        return f"Quantized{self._FLOAT.__name__}"

    def extra_repr(self) -> str:
        """Return what printing shows."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"scale={self.scale}, zero_point={self.zero_point}"
        )
        none = (0,) * self._DIMS
        text += f", padding={self.padding}" if self.padding != none else ""
        text += f", dilation={self.dilation}" if self.dilation != (1,) * self._DIMS else ""
        text += f", output_padding={self.output_padding}" if self.output_padding != none else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        return text + (", bias=False" if self.bias() is None else "")

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Put a weight and a bias, which are not copied.

        Args:
            w: of qint8.
            b: of float32, or None.

        Errors: RuntimeError for a weight of another dtype.

        >>> layer = torch.ao.nn.quantized.Conv1d(1, 1, 2)
        >>> layer.set_weight_bias(torch.quantize_per_tensor(torch.ones(1, 1, 2), 1.0, 0, torch.qint8), None)
        >>> layer(torch.quantize_per_tensor(torch.ones(1, 1, 3), 1.0, 0, torch.quint8)).dequantize()
        tensor([[[2., 2.]]])
        """
        if not w.is_quantized or w.dtype is not facula.qint8:
            raise RuntimeError(f"set_weight_bias: expected a weight of qint8, got {w.dtype}")
        object.__setattr__(self, "_weight", w.detach())
        object.__setattr__(self, "_bias", None if b is None else b.detach())

    def _weight_bias(self):
        return self._weight, self._bias

    def weight(self) -> Tensor:
        """Return the weight, quantized.

        >>> torch.ao.nn.quantized.Conv1d(1, 1, 2).weight().dtype
        torch.qint8
        """
        return self._weight

    def bias(self) -> Tensor:
        """Return the bias, float32, or None.

        >>> torch.ao.nn.quantized.Conv1d(1, 1, 2).bias()
        tensor([0.])
        """
        return self._bias

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized outputs of quantized inputs.

        Errors: ValueError for inputs of another number of dimensions.
        """
        if input.dim() != self._DIMS + 2:
            raise ValueError(f"{self._get_name()}: expected {self._DIMS + 2} dimensions, got shape {tuple(input.shape)}")
        return _products.conv(
            input, self._weight, self._bias, self.stride, self.padding, self.dilation, self.groups, self.scale,
            self.zero_point, self._RELU, self.padding_mode, self.transposed, self.output_padding,
        )  # fmt: skip

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        destination[prefix + "scale"] = facula.tensor(self.scale)
        destination[prefix + "zero_point"] = facula.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        names = ("weight", "bias", "scale", "zero_point")
        missing = [prefix + name for name in names if prefix + name not in state_dict]
        if missing:
            missing_keys.extend(missing)
            return
        weight, bias, scale, zero_point = (state_dict.pop(prefix + name) for name in names)
        self.set_weight_bias(weight, bias)
        self.scale, self.zero_point = float(scale), int(zero_point)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of a float layer that has been observed (`prepare`), or trained so (`prepare_qat`);
        `convert` calls it.

        Args:
            mod: the layer.
            use_precomputed_fake_quant: whether a `weight_fake_quant` (of `prepare_qat`) has seen enough, and is not shown the
                weight again.

        Errors: AssertionError for a module without an observer, or weights of another dtype than qint8.

        >>> layer = nn.Conv1d(1, 1, 2)
        >>> layer.activation_post_process = torch.ao.quantization.default_observer()
        >>> _ = layer.activation_post_process(layer(torch.ones(1, 1, 3)))
        >>> type(torch.ao.nn.quantized.Conv1d.from_float(layer)).__name__
        'Conv1d'
        """
        from facula.ao.quantization.qconfig import default_weight_observer

        if hasattr(mod, "bn") and hasattr(mod, "weight_fake_quant"):  # a convolution that was trained with its batch norm
            from facula.nn.utils.fusion import fuse_conv_bn_weights

            bn = mod.bn
            mod.weight, mod.bias = fuse_conv_bn_weights(
                mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, cls._TRANSPOSED
            )
        observer = observed_weight(mod, default_weight_observer, use_precomputed_fake_quant)
        if observer.dtype is not facula.qint8:
            raise AssertionError(f"{cls.__name__}.from_float: expected a weight observed as qint8, got {observer.dtype}")
        scale, zero_point = output_levels(mod, cls.__name__)
        more = {"output_padding": mod.output_padding} if cls._TRANSPOSED else {}
        made = cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, stride=mod.stride, padding=mod.padding,
            dilation=mod.dilation, groups=mod.groups, bias=mod.bias is not None, padding_mode=mod.padding_mode, **more,
        )  # fmt: skip
        made.set_weight_bias(quantize_weight(mod.weight.detach(), observer), mod.bias)
        made.scale, made.zero_point = scale, zero_point
        return made


class _Plain(_Conv):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: Device = None, dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)


class _Transposed(_Conv):
    _TRANSPOSED = True

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, bias: bool = True,
                 dilation: int | Sequence[int] = 1, padding_mode: str = "zeros", device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, output_padding
        )


class Conv1d(_Plain):
    """Convolve quantized inputs, on levels of eight bits, and quantize the result.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv1d; padding
            is given in numbers.
        device, dtype: accepted without effect.

    Shapes: as for nn.Conv1d. Attributes: `scale` and `zero_point` of the outputs; `weight()`, of qint8, and `bias()`,
    of float32.

    >>> layer = torch.ao.nn.quantized.Conv1d(2, 3, 3)
    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 5), 1.0, 0, torch.quint8)
    >>> tuple(layer(x).shape)
    (1, 3, 3)
    """

    _DIMS = 1
    _FLOAT = _FLOAT_MODULE = nn.Conv1d


class Conv2d(_Plain):
    """Convolve quantized inputs, on levels of eight bits, and quantize the result.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv2d; padding
            is given in numbers.
        device, dtype: accepted without effect.

    Shapes: as for nn.Conv2d. Attributes: `scale` and `zero_point` of the outputs; `weight()`, of qint8, and `bias()`,
    of float32.

    >>> layer = torch.ao.nn.quantized.Conv2d(2, 3, 3)
    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 5, 5), 1.0, 0, torch.quint8)
    >>> tuple(layer(x).shape)
    (1, 3, 3, 3)
    """

    _DIMS = 2
    _FLOAT = _FLOAT_MODULE = nn.Conv2d


class Conv3d(_Plain):
    """Convolve quantized inputs, on levels of eight bits, and quantize the result.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv3d; padding
            is given in numbers.
        device, dtype: accepted without effect.

    Shapes: as for nn.Conv3d. Attributes: `scale` and `zero_point` of the outputs; `weight()`, of qint8, and `bias()`,
    of float32.

    >>> layer = torch.ao.nn.quantized.Conv3d(2, 3, 3)
    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 5, 5, 5), 1.0, 0, torch.quint8)
    >>> tuple(layer(x).shape)
    (1, 3, 3, 3, 3)
    """

    _DIMS = 3
    _FLOAT = _FLOAT_MODULE = nn.Conv3d


class ConvTranspose1d(_Transposed):
    """Convolve quantized inputs by the transpose of a convolution, on levels of eight bits, and quantize the result.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, output_padding: as for
            nn.ConvTranspose1d; padding is given in numbers.
        device, dtype: accepted without effect.

    Shapes: as for nn.ConvTranspose1d. Attributes: `scale` and `zero_point` of the outputs; `weight()`, of qint8, and `bias()`,
    of float32.

    >>> layer = torch.ao.nn.quantized.ConvTranspose1d(2, 3, 3)
    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 5), 1.0, 0, torch.quint8)
    >>> tuple(layer(x).shape)
    (1, 3, 7)
    """

    _DIMS = 1
    _FLOAT = _FLOAT_MODULE = nn.ConvTranspose1d


class ConvTranspose2d(_Transposed):
    """Convolve quantized inputs by the transpose of a convolution, on levels of eight bits, and quantize the result.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, output_padding: as for
            nn.ConvTranspose2d; padding is given in numbers.
        device, dtype: accepted without effect.

    Shapes: as for nn.ConvTranspose2d. Attributes: `scale` and `zero_point` of the outputs; `weight()`, of qint8, and `bias()`,
    of float32.

    >>> layer = torch.ao.nn.quantized.ConvTranspose2d(2, 3, 3)
    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 5, 5), 1.0, 0, torch.quint8)
    >>> tuple(layer(x).shape)
    (1, 3, 7, 7)
    """

    _DIMS = 2
    _FLOAT = _FLOAT_MODULE = nn.ConvTranspose2d


class ConvTranspose3d(_Transposed):
    """Convolve quantized inputs by the transpose of a convolution, on levels of eight bits, and quantize the result.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, output_padding: as for
            nn.ConvTranspose3d; padding is given in numbers.
        device, dtype: accepted without effect.

    Shapes: as for nn.ConvTranspose3d. Attributes: `scale` and `zero_point` of the outputs; `weight()`, of qint8, and `bias()`,
    of float32.

    >>> layer = torch.ao.nn.quantized.ConvTranspose3d(2, 3, 3)
    >>> x = torch.quantize_per_tensor(torch.ones(1, 2, 5, 5, 5), 1.0, 0, torch.quint8)
    >>> tuple(layer(x).shape)
    (1, 3, 7, 7, 7)
    """

    _DIMS = 3
    _FLOAT = _FLOAT_MODULE = nn.ConvTranspose3d
