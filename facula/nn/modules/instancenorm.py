"""Define instance normalization layers, which normalize each channel of each sample over its positions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

if TYPE_CHECKING:
    import facula
    from facula import Tensor
    from facula.types import Device

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]



class _InstanceNorm(_NormBase):
    """Normalize each channel of each sample over its positions; the subclasses check the number of dimensions.

    Args:
        num_features: number of channels C.
        eps: a number added to the variance.
        momentum: share of a batch in the running statistics.
        affine: learn a scale (and, with ``bias``, a shift) per channel.
        track_running_stats: keep running statistics, and use them in evaluation.
    """

    # Dimensions of an input without the batch dimension.
    _unbatched_dims = 0

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: facula.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input) -> None:
        self._require_dims(input, (self._unbatched_dims, self._unbatched_dims + 1))

    def _get_no_batch_dim(self) -> int:
        return self._unbatched_dims

    def _apply_instance_norm(self, input):
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            # Entries without a version come from a time when statistics were always kept.
            stale = [key for key in (prefix + "running_mean", prefix + "running_var") if key in state_dict]
            if stale:
                error_msgs.append(
                    f"{type(self).__name__} keeps no running statistics (track_running_stats=False); remove "
                    "these "
                    f"entries or keep statistics: {', '.join(stale)}"
                )
            for key in stale:
                state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = self._get_no_batch_dim()
        channels = input.size(input.dim() - unbatched)
        if channels != self.num_features:
            text = (
                f"{type(self).__name__}: the input should have {self.num_features} channels, got {channels}"
            )
            if self.affine:
                raise ValueError(text)
            warnings.warn(text + " (num_features is not used without affine)", stacklevel=2)
        if input.dim() == unbatched:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """Normalize each channel of each sample to mean 0 and variance 1 over its positions (Ulyanov et al. 2016).

    Formula: y = (x - mean) / sqrt(var + eps) * weight + bias

    Args:
        num_features: C, the number of channels.
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics, which evaluation then uses.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: input (N, C, L) or (C, L); output the same. ``weight``, ``bias``, ``running_mean`` and ``running_var`` are (C,).

    Errors: ValueError, when called, for another number of dimensions, for other channels with affine or track_running_stats (a
    warning without), and in training for a single position.

    >>> y = nn.InstanceNorm1d(3)(torch.randn(2, 3, 4) * 5 + 1)
    >>> y[0, 0].mean().abs().item() < 1e-5
    True
    """

    _unbatched_dims = 2


class InstanceNorm2d(_InstanceNorm):
    """Normalize each channel of each sample to mean 0 and variance 1 over its positions (Ulyanov et al. 2016).

    Formula: y = (x - mean) / sqrt(var + eps) * weight + bias

    Args:
        num_features: C, the number of channels.
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics, which evaluation then uses.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: input (N, C, H, W) or (C, H, W); output the same. ``weight``, ``bias``, ``running_mean`` and ``running_var`` are
    (C,).

    Errors: ValueError, when called, for another number of dimensions, for other channels with affine or track_running_stats (a
    warning without), and in training for a single position.

    >>> y = nn.InstanceNorm2d(3)(torch.randn(2, 3, 4, 4) * 5 + 1)
    >>> y[0, 0].mean().abs().item() < 1e-5
    True
    """

    _unbatched_dims = 3


class InstanceNorm3d(_InstanceNorm):
    """Normalize each channel of each sample to mean 0 and variance 1 over its positions (Ulyanov et al. 2016).

    Formula: y = (x - mean) / sqrt(var + eps) * weight + bias

    Args:
        num_features: C, the number of channels.
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics, which evaluation then uses.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: input (N, C, D, H, W) or (C, D, H, W); output the same. ``weight``, ``bias``, ``running_mean`` and ``running_var``
    are (C,).

    Errors: ValueError, when called, for another number of dimensions, for other channels with affine or track_running_stats (a
    warning without), and in training for a single position.

    >>> y = nn.InstanceNorm3d(3)(torch.randn(2, 3, 4, 4, 4) * 5 + 1)
    >>> y[0, 0].mean().abs().item() < 1e-5
    True
    """

    _unbatched_dims = 4


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """Normalize as `InstanceNorm1d` does, which this module becomes at the first call; the input of that call
    determines num_features.

    Args:
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics, which evaluation then uses.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: those of `InstanceNorm1d`. The parameters have no shape before the first call: move and convert the module as usual,
    but make the optimizer afterwards.

    Errors: those of `InstanceNorm1d`.

    >>> layer = nn.LazyInstanceNorm1d()
    >>> _ = layer(torch.randn(2, 3, 8))
    >>> type(layer).__name__, layer.num_features
    ('InstanceNorm1d', 3)
    """

    cls_to_become = InstanceNorm1d
    _unbatched_dims = 2


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """Normalize as `InstanceNorm2d` does, which this module becomes at the first call; the input of that call
    determines num_features.

    Args:
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics, which evaluation then uses.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: those of `InstanceNorm2d`. The parameters have no shape before the first call: move and convert the module as usual,
    but make the optimizer afterwards.

    Errors: those of `InstanceNorm2d`.

    >>> layer = nn.LazyInstanceNorm2d()
    >>> _ = layer(torch.randn(2, 3, 8, 8))
    >>> type(layer).__name__, layer.num_features
    ('InstanceNorm2d', 3)
    """

    cls_to_become = InstanceNorm2d
    _unbatched_dims = 3


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """Normalize as `InstanceNorm3d` does, which this module becomes at the first call; the input of that call
    determines num_features.

    Args:
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics, which evaluation then uses.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: those of `InstanceNorm3d`. The parameters have no shape before the first call: move and convert the module as usual,
    but make the optimizer afterwards.

    Errors: those of `InstanceNorm3d`.

    >>> layer = nn.LazyInstanceNorm3d()
    >>> _ = layer(torch.randn(2, 3, 8, 8, 8))
    >>> type(layer).__name__, layer.num_features
    ('InstanceNorm3d', 3)
    """

    cls_to_become = InstanceNorm3d
    _unbatched_dims = 4
