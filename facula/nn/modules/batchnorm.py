"""Define the batch normalization layers, and the base class that they share with instance normalization.

Long because PyTorch has all of these layers in one file of this name, and each class stands there with its docstring and
example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula
from facula.autograd.function import Function

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

if TYPE_CHECKING:
    from facula import Tensor
    from facula.distributed._group import ProcessGroup
    from facula.types import Device

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]



class _NormBase(Module):
    """Hold the affine parameters and running statistics of batch and instance normalization."""

    _version = 2
    __constants__: ClassVar[list[str]] = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(facula.empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        if track_running_stats:
            self.register_buffer("running_mean", facula.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", facula.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", facula.tensor(0, dtype=facula.int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set mean 0, variance 1 and no batches seen; do nothing without running statistics.

        >>> layer = nn.BatchNorm1d(2)
        >>> _ = layer(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> layer.reset_running_stats()
        >>> layer.running_mean, layer.running_var, layer.num_batches_tracked
        (tensor([0., 0.]), tensor([1., 1.]), tensor(0))
        """
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set factors to 1 and shifts to 0, and call `reset_running_stats`.

        >>> layer = nn.BatchNorm1d(2)
        >>> _ = nn.init.constant_(layer.weight, 3.0)
        >>> layer.reset_parameters()
        >>> layer.weight.tolist(), layer.bias.tolist()
        ([1.0, 1.0], [0.0, 0.0])
        """
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input) -> None:
        raise NotImplementedError(
            f"{type(self).__name__}: the class must define _check_input_dim, got a call without it"
        )

    def _require_dims(self, input, allowed: tuple[int, ...]) -> None:
        if input.dim() not in allowed:
            wanted = " or ".join(str(n) for n in allowed)
            raise ValueError(
                f"{type(self).__name__}: the input must have {wanted} dimensions, got shape "
                f"{tuple(input.shape)}"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        # Version 2 added num_batches_tracked; older entries start from the module's own count.
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            own = self.num_batches_tracked
            usable = own is not None and not own.is_meta
            state_dict[key] = own if usable else facula.tensor(0, dtype=facula.int64)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    """Normalize each channel of (N, C, ...) over the batch and the positions.

    Args:
        num_features: number of channels C.
        eps: a number added to the variance.
        momentum: share of a batch in the running statistics; None: all batches count the same.
        affine: learn a scale (and, with ``bias``, a shift) per channel.
        track_running_stats: keep running statistics for evaluation; otherwise batches always use their own.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _average_factor(self) -> float:
        """Share of this batch in the running statistics; counts the batch when statistics are kept."""
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        return factor

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = self._average_factor()
        mean, var = self.running_mean, self.running_var
        use_batch = self.training or (mean is None and var is None)
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(input, mean, var, self.weight, self.bias, use_batch, factor, self.eps)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Take ``num_features`` of a normalization from the channel dimension of its first input."""

    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: facula.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        # No affine parameters and statistics yet: nothing is allocated before the shape is known.
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=bias)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean: Tensor = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var: Tensor = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked: Tensor = facula.tensor(0, dtype=facula.int64, device=device)

    def reset_parameters(self) -> None:
        """Set factors to 1 and shifts to 0 once the number of channels is known; before, do nothing.

        >>> layer = nn.LazyBatchNorm1d()
        >>> layer.reset_parameters()
        >>> layer.has_uninitialized_params()
        True
        """
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features: int = input.shape[1]
        waiting = [self.weight, self.bias] if self.affine else []
        if self.track_running_stats:
            waiting += [self.running_mean, self.running_var]
        for tensor in waiting:
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class BatchNorm1d(_BatchNorm):
    """Normalize each channel to mean 0 and variance 1 over the batch and the positions (Ioffe, Szegedy 2015).

    Formula:
        y = (x - mean) / sqrt(var + eps) * weight + bias
        running_mean = (1 - momentum) * running_mean + momentum * mean  # in training

    In training mean and variance are those of the batch (the biased variance), in evaluation running ones.

    Args:
        num_features: C, the number of channels.
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics; None takes the mean over all batches.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics for evaluation; otherwise batches always use their own.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: input (N, C) or (N, C, L); output the same. ``weight``, ``bias``, ``running_mean`` and ``running_var`` are (C,).

    Errors: ValueError, when called, for another number of dimensions, and in training for a single value per channel.

    >>> y = nn.BatchNorm1d(3)(torch.randn(16, 3, 4) * 5 + 1)
    >>> y.mean().abs().item() < 1e-5, round(y.std().item(), 1)
    (True, 1.0)
    """

    def _check_input_dim(self, input) -> None:
        self._require_dims(input, (2, 3))


class BatchNorm2d(_BatchNorm):
    """Normalize each channel to mean 0 and variance 1 over the batch and the positions (Ioffe, Szegedy 2015).

    Formula:
        y = (x - mean) / sqrt(var + eps) * weight + bias
        running_mean = (1 - momentum) * running_mean + momentum * mean  # in training

    In training mean and variance are those of the batch (the biased variance), in evaluation running ones.

    Args:
        num_features: C, the number of channels.
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics; None takes the mean over all batches.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics for evaluation; otherwise batches always use their own.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: input (N, C, H, W); output the same. ``weight``, ``bias``, ``running_mean`` and ``running_var`` are (C,).

    Errors: ValueError, when called, for another number of dimensions, and in training for a single value per channel.

    >>> y = nn.BatchNorm2d(3)(torch.randn(16, 3, 4, 4) * 5 + 1)
    >>> y.mean().abs().item() < 1e-5, round(y.std().item(), 1)
    (True, 1.0)
    """

    def _check_input_dim(self, input) -> None:
        self._require_dims(input, (4,))


class BatchNorm3d(_BatchNorm):
    """Normalize each channel to mean 0 and variance 1 over the batch and the positions (Ioffe, Szegedy 2015).

    Formula:
        y = (x - mean) / sqrt(var + eps) * weight + bias
        running_mean = (1 - momentum) * running_mean + momentum * mean  # in training

    In training mean and variance are those of the batch (the biased variance), in evaluation running ones.

    Args:
        num_features: C, the number of channels.
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics; None takes the mean over all batches.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics for evaluation; otherwise batches always use their own.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: input (N, C, D, H, W); output the same. ``weight``, ``bias``, ``running_mean`` and ``running_var`` are (C,).

    Errors: ValueError, when called, for another number of dimensions, and in training for a single value per channel.

    >>> y = nn.BatchNorm3d(3)(torch.randn(16, 3, 4, 4, 4) * 5 + 1)
    >>> y.mean().abs().item() < 1e-5, round(y.std().item(), 1)
    (True, 1.0)
    """

    def _check_input_dim(self, input) -> None:
        self._require_dims(input, (5,))


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """Normalize as `BatchNorm1d` does, which this module becomes at the first call; the input of that call determines
    num_features.

    Args:
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics; None takes the mean over all batches.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics for evaluation; otherwise batches always use their own.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: those of `BatchNorm1d`. The parameters have no shape before the first call: move and convert the module as usual,
    but make the optimizer afterwards.

    Errors: those of `BatchNorm1d`.

    >>> layer = nn.LazyBatchNorm1d()
    >>> _ = layer(torch.randn(2, 3, 8))
    >>> type(layer).__name__, layer.num_features
    ('BatchNorm1d', 3)
    """

    cls_to_become = BatchNorm1d

    def _check_input_dim(self, input) -> None:
        self._require_dims(input, (2, 3))


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """Normalize as `BatchNorm2d` does, which this module becomes at the first call; the input of that call determines
    num_features.

    Args:
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics; None takes the mean over all batches.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics for evaluation; otherwise batches always use their own.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: those of `BatchNorm2d`. The parameters have no shape before the first call: move and convert the module as usual,
    but make the optimizer afterwards.

    Errors: those of `BatchNorm2d`.

    >>> layer = nn.LazyBatchNorm2d()
    >>> _ = layer(torch.randn(2, 3, 8, 8))
    >>> type(layer).__name__, layer.num_features
    ('BatchNorm2d', 3)
    """

    cls_to_become = BatchNorm2d

    def _check_input_dim(self, input) -> None:
        self._require_dims(input, (4,))


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """Normalize as `BatchNorm3d` does, which this module becomes at the first call; the input of that call determines
    num_features.

    Args:
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics; None takes the mean over all batches.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics for evaluation; otherwise batches always use their own.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: those of `BatchNorm3d`. The parameters have no shape before the first call: move and convert the module as usual,
    but make the optimizer afterwards.

    Errors: those of `BatchNorm3d`.

    >>> layer = nn.LazyBatchNorm3d()
    >>> _ = layer(torch.randn(2, 3, 8, 8, 8))
    >>> type(layer).__name__, layer.num_features
    ('BatchNorm3d', 3)
    """

    cls_to_become = BatchNorm3d

    def _check_input_dim(self, input) -> None:
        self._require_dims(input, (5,))


class SyncBatchNorm(_BatchNorm):
    """Apply batch normalization with the statistics of all processes of a group together; with one process it is `BatchNorm1d`,
    `2d` or `3d`.

    Args:
        num_features: C, the number of channels.
        eps: a number added to the variance.
        momentum: the share of a new batch in the running statistics; None for the mean over all batches.
        affine: if True, learn a weight and a bias for each channel.
        track_running_stats: if True, keep running statistics for evaluation.
        process_group: the processes that compute together. Default: all.
        device, dtype: the device and the dtype of parameters and statistics.
        bias: if False, learn the weight only.

    Shapes: input (N, C, ...); output the same.

    Errors: ValueError, when called, for fewer than two dimensions, and in training for a single value per channel in all
    processes.

    >>> y = nn.SyncBatchNorm(3)(torch.randn(16, 3, 4) * 5 + 1)
    >>> y.shape
    torch.Size([16, 3, 4])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | None = None,
        device: Device = None,
        dtype: facula.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm: the input needs at least 2 dimensions, got {input.dim()}")

    def _check_non_zero_input_channels(self, input) -> None:
        if input.size(1) == 0:
            raise ValueError(f"SyncBatchNorm: the input needs channels, got shape {tuple(input.shape)}")

    def forward(self, input: Tensor) -> Tensor:
        self._check_non_zero_input_channels(input)
        uses_batch = self.training or self.running_mean is None
        if not uses_batch or _world_size(self.process_group) == 1:
            return super().forward(input)
        from facula import distributed as dist

        self._check_input_dim(input)
        momentum = self._average_factor()
        keep = self.training and self.track_running_stats
        return _SyncedBatchNorm.apply(
            input, self.weight, self.bias, self.running_mean if keep else None, self.running_var if keep else None, momentum,
            self.eps, self.process_group if self.process_group is not None else dist.group.WORLD,
        )  # fmt: skip

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> SyncBatchNorm | Module:
        """Replace every batch normalization in a module by a `SyncBatchNorm` that has its parameters and statistics.

        Args:
            module: the module; changed in place, unless it is a batch normalization itself.
            process_group: the processes that compute together. Default: all.

        Returns: the module, or what replaces it.

        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        >>> nn.SyncBatchNorm.convert_sync_batchnorm(net)
        Sequential(
          (0): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
          (1): SyncBatchNorm(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        )
        """
        result = module
        if isinstance(module, _BatchNorm):
            result = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                with facula.no_grad():
                    result.weight = module.weight
                    result.bias = module.bias
            result.running_mean = module.running_mean
            result.running_var = module.running_var
            result.num_batches_tracked = module.num_batches_tracked
            result.training = module.training
            if hasattr(module, "qconfig"):
                result.qconfig = module.qconfig
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


def _world_size(process_group) -> int:
    """Return the number of processes that train together; 1 when `facula.distributed` has not been set up."""
    import sys

    distributed = sys.modules.get("facula.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return distributed.get_world_size(process_group)


class _SyncedBatchNorm(Function):
    """Normalize with statistics over several processes: `apply(input, weight, bias, mean, var, momentum, eps, group)`.

    Forward: every process sends the mean, the variance and the number of its elements of each channel; means and variances of
    all are combined by Chan's formula, which has no cancellation. Backward: two sums for each channel travel.
    """

    @staticmethod
    def forward(ctx, input, weight, bias, running_mean, running_var, momentum, eps, group):
        from facula import distributed as dist

        dims = [d for d in range(input.dim()) if d != 1]
        kind = facula.float64 if input.dtype == facula.float64 else facula.float32
        x = input.to(kind)
        count = input.numel() // input.shape[1]
        mine = facula.zeros(2 * input.shape[1] + 1, dtype=kind, device=input.device)
        # A process may have an empty batch; it still takes part in the collective.
        if count:
            variance, mean = facula.var_mean(x, dims, correction=0)
            # One message instead of three.
            mine = facula.cat([mean, variance, mean.new_full((1,), count)])
        everybody = mine.new_empty(dist.get_world_size(group) * mine.numel())
        dist.all_gather_into_tensor(everybody, mine, group=group)
        means, variances, counts = everybody.view(-1, mine.numel()).split([input.shape[1], input.shape[1], 1], dim=1)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        variance = ((variances + (means - mean).square()) * counts).sum(0) / total
        if int(total.item()) < 2:
            raise ValueError(f"SyncBatchNorm: expected more than 1 value per channel in all, got {tuple(input.shape)}")
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            # The running variance is the unbiased one, the batch is normalized by the biased one.
            running_var.lerp_((variance * (total / (total - 1))).to(running_var.dtype), momentum)
        ctx.save_for_backward(input, weight, mean, variance, total)
        ctx.eps, ctx.group = eps, group
        weight, bias = (None if t is None else t.to(kind) for t in (weight, bias))
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, eps).to(input.dtype)

    @staticmethod
    def backward(ctx, grad):
        from facula import distributed as dist

        input, weight, mean, variance, total = ctx.saved_tensors
        shape = [1, -1] + [1] * (input.dim() - 2)
        dims = [d for d in range(input.dim()) if d != 1]
        dy = grad.to(mean.dtype)
        inverse = (variance + ctx.eps).rsqrt()
        normal = (input.to(mean.dtype) - mean.view(shape)) * inverse.view(shape)
        sums = facula.stack([dy.sum(dims), (dy * normal).sum(dims)])
        # The gradients of parameters stay this process's own; DistributedDataParallel averages them. all_reduce
        # overwrites `sums`.
        grad_bias, grad_weight = sums.clone()
        dist.all_reduce(sums, group=ctx.group)
        average, projection = sums / total
        scale = inverse if weight is None else inverse * weight.to(mean.dtype)
        result = (dy - average.view(shape) - normal * projection.view(shape)) * scale.view(shape)
        needs = ctx.needs_input_grad
        return (
            result.to(input.dtype) if needs[0] else None,
            grad_weight.to(weight.dtype) if needs[1] else None,
            grad_bias.to(weight.dtype) if needs[2] else None,
            *[None] * 5,
        )
