"""Define convolutions fused with the layers that follow them, which round their weights in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import nn
from facula.ao.nn import intrinsic as nni
from facula.ao.nn import qat as nnqat
from facula.ao.nn.intrinsic.modules.fused import _FusedModule
from facula.ao.nn.intrinsic.qat._folded import Folded, freeze_bn_stats, update_bn_stats
from facula.ao.nn.qat._base import as_parameter, conv_arguments, qconfig_of, weight_rounding
from facula.nn import functional as F
from facula.nn.utils import fuse_conv_bn_weights

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.conv import Conv2d
    from facula.nn.modules.module import Module

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "freeze_bn_stats", "update_bn_stats",
]  # fmt: skip

#: names of entries in files of the first version
_FIRST_NAMES = {
    "gamma": "bn.weight", "beta": "bn.bias", "running_mean": "bn.running_mean", "running_var": "bn.running_var",
    "num_batches_tracked": "bn.num_batches_tracked",
}  # fmt: skip


class _ConvBnNd(Folded, nn.modules.conv._ConvNd, _FusedModule):
    """Convolve and normalize; a subclass names the layers that it consists of."""

    _version = 2
    _FLOAT_MODULE: type
    _FLOAT_CONV_MODULE: type
    _FLOAT_BN_MODULE: type
    _FLOAT_RELU_MODULE: type | None = None
    _FUSED_FLOAT_MODULE: type

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool | None = None,
                 padding_mode: str = "zeros", eps: float = 1e-05, momentum: float = 0.1, freeze_bn: bool = False,
                 qconfig: Any = None) -> None:  # fmt: skip
        rounding = weight_rounding(type(self).__name__, qconfig)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bool(bias), padding_mode
        )
        self._with_bn(self._FLOAT_BN_MODULE(out_channels, eps, momentum, True, True), rounding, qconfig, freeze_bn)

    def _product(self, input, weight, bias):
        return self._conv_forward(input, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution with the rounded weight, normalized."""
        result = self._folded(input)
        return result if self._FLOAT_RELU_MODULE is None else F.relu(result)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if local_metadata.get("version") in (None, 1):
            for old, new in _FIRST_NAMES.items():
                if prefix + old in state_dict:
                    state_dict[prefix + new] = state_dict.pop(prefix + old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the layer made of a container with a qconfig, whose parameters and statistics it takes over; `prepare_qat`
        calls it.

        Args:
            mod: the container, such as `nn.intrinsic.ConvBn1d`.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for another class, or without a qconfig.

        >>> from torch.ao.nn import intrinsic
        >>> container = intrinsic.ConvBn1d(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1))
        >>> container.qconfig = torch.ao.quantization.default_qat_qconfig
        >>> layer = intrinsic.qat.ConvBn1d.from_float(container)
        >>> layer.weight is container[0].weight
        True
        """
        qconfig = qconfig_of(cls, mod)
        conv, bn = mod[0], mod[1]
        made = cls(**conv_arguments(conv), eps=bn.eps, momentum=bn.momentum, freeze_bn=False, qconfig=qconfig)
        return made._take(conv, bn)

    def to_float(self) -> Conv2d | ConvReLU2d:
        """Return the convolution with the normalization in its weight, with its ReLU where it has one.

        >>> from torch.ao.nn.intrinsic import qat
        >>> qat.ConvBn1d(1, 1, 1, qconfig=torch.ao.quantization.default_qat_qconfig).to_float()
        Conv1d(1, 1, kernel_size=(1,), stride=(1,))
        """
        bn = self.bn
        conv = self._FLOAT_CONV_MODULE(**{**conv_arguments(self), "bias": True})
        conv.weight, conv.bias = fuse_conv_bn_weights(
            as_parameter(self.weight), as_parameter(self.bias), bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        made = conv if self._FLOAT_RELU_MODULE is None else self._FUSED_FLOAT_MODULE(conv, self._FLOAT_RELU_MODULE())
        return made.train(self.training)



class ConvBn1d(_ConvBnNd, nn.Conv1d):
    """Convolve and normalize with a weight rounded as `convert` will round that of both in one.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv1d.
        eps, momentum: as for nn.BatchNorm1d.
        freeze_bn: if True, normalize with the statistics as they are.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv1d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvBn1d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvBn1d
    _FLOAT_CONV_MODULE = nn.Conv1d
    _FLOAT_BN_MODULE = nn.BatchNorm1d


class ConvBn2d(_ConvBnNd, nn.Conv2d):
    """Convolve and normalize with a weight rounded as `convert` will round that of both in one.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv2d.
        eps, momentum: as for nn.BatchNorm2d.
        freeze_bn: if True, normalize with the statistics as they are.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv2d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvBn2d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvBn2d
    _FLOAT_CONV_MODULE = nn.Conv2d
    _FLOAT_BN_MODULE = nn.BatchNorm2d


class ConvBn3d(_ConvBnNd, nn.Conv3d):
    """Convolve and normalize with a weight rounded as `convert` will round that of both in one.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv3d.
        eps, momentum: as for nn.BatchNorm3d.
        freeze_bn: if True, normalize with the statistics as they are.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv3d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvBn3d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3, 3, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvBn3d
    _FLOAT_CONV_MODULE = nn.Conv3d
    _FLOAT_BN_MODULE = nn.BatchNorm3d


class ConvBnReLU1d(ConvBn1d):
    """Convolve and normalize, and set what is negative to zero, with a weight rounded as `convert` will round that of both.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv1d.
        eps, momentum: as for nn.BatchNorm1d.
        freeze_bn: if True, normalize with the statistics as they are.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv1d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvBnReLU1d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvBnReLU1d
    _FLOAT_RELU_MODULE = nn.ReLU
    _FUSED_FLOAT_MODULE = nni.ConvReLU1d


class ConvBnReLU2d(ConvBn2d):
    """Convolve and normalize, and set what is negative to zero, with a weight rounded as `convert` will round that of both.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv2d.
        eps, momentum: as for nn.BatchNorm2d.
        freeze_bn: if True, normalize with the statistics as they are.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv2d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvBnReLU2d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvBnReLU2d
    _FLOAT_RELU_MODULE = nn.ReLU
    _FUSED_FLOAT_MODULE = nni.ConvReLU2d


class ConvBnReLU3d(ConvBn3d):
    """Convolve and normalize, and set what is negative to zero, with a weight rounded as `convert` will round that of both.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as for nn.Conv3d.
        eps, momentum: as for nn.BatchNorm3d.
        freeze_bn: if True, normalize with the statistics as they are.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv3d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvBnReLU3d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3, 3, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvBnReLU3d
    _FLOAT_RELU_MODULE = nn.ReLU
    _FUSED_FLOAT_MODULE = nni.ConvReLU3d


class _ConvReLU:
    """Convolve and apply a ReLU; the base class of such convolutions."""

    _FLOAT_BN_MODULE = None
    _FLOAT_RELU_MODULE = nn.ReLU

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution with the rounded weight, and zero for what is negative."""
        return F.relu(self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias))


class ConvReLU1d(_ConvReLU, nnqat.Conv1d, _FusedModule):
    """Convolve, and set what is negative to zero, with a weight rounded as `convert` will round it.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            nn.Conv1d.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv1d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvReLU1d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvReLU1d
    _FLOAT_CONV_MODULE = nn.Conv1d


class ConvReLU2d(_ConvReLU, nnqat.Conv2d, _FusedModule):
    """Convolve, and set what is negative to zero, with a weight rounded as `convert` will round it.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            nn.Conv2d.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv2d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvReLU2d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvReLU2d
    _FLOAT_CONV_MODULE = nn.Conv2d


class ConvReLU3d(_ConvReLU, nnqat.Conv3d, _FusedModule):
    """Convolve, and set what is negative to zero, with a weight rounded as `convert` will round it.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype: as for
            nn.Conv3d.
        qconfig: its `weight` says how the weight is rounded.

    Shapes: as for nn.Conv3d.

    Errors: AssertionError without a qconfig.

    >>> from torch.ao.quantization import default_qat_qconfig
    >>> layer = torch.ao.nn.intrinsic.qat.ConvReLU3d(1, 2, 3, qconfig=default_qat_qconfig)
    >>> layer(torch.ones(4, 1, 3, 3, 3)).flatten().shape
    torch.Size([8])
    """

    _FLOAT_MODULE = nni.ConvReLU3d
    _FLOAT_CONV_MODULE = nn.Conv3d
