"""Fold a batch normalization in evaluation mode into the layer before it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import facula

from ..parameter import Parameter

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _check_eval(name: str, layer, bn) -> None:
    if layer.training or bn.training:
        raise AssertionError(f"{name}: both modules must be in evaluation mode, got one in training mode")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(f"{name}: the batch normalization must have running statistics, got none")


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """Return a copy of a convolution that computes ``bn(conv(x))``.

    Args:
        conv: a convolution in evaluation mode.
        bn: a batch normalization in evaluation mode, with running statistics.
        transpose: if True, it is a transposed convolution.

    Errors: AssertionError for a module in training mode, or a normalization without running statistics.

    >>> conv, bn = nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval()
    >>> x = torch.randn(1, 3, 5, 5)
    >>> bool(torch.allclose(nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6))
    True
    """
    _check_eval("fuse_conv_bn_eval", conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor,
                         bn_b: Tensor, transpose: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return (weight, bias) of a convolution with a batch normalization folded in, two parameters.

    Args:
        conv_w: the weight of the convolution, (C_out, C_in / groups, *kernel).
        conv_b: its bias, (C_out,), or None.
        bn_rm, bn_rv: the running mean and variance, (C_out,).
        bn_eps: the number added to the variance.
        bn_w: the factors of the normalization, (C_out,), or None for 1.
        bn_b: the numbers that it adds, (C_out,), or None for 0.
        transpose: if True, it is a transposed convolution, whose channels of the output are dimension 1 of the weight.

    Returns: a pair of parameters of the shapes of conv_w and (C_out,).

    Errors: RuntimeError for shapes that do not fit.

    >>> one = torch.ones(1)
    >>> nn.utils.fuse_conv_bn_weights(torch.ones(1, 1, 2), None, one, one * 4, 0.0, one * 6, one)
    (Parameter containing:
    tensor([[[3., 3.]]]), Parameter containing:
    tensor([-2.]))
    """
    weight_dtype = conv_w.dtype
    bias_dtype = conv_b.dtype if conv_b is not None else weight_dtype
    bias_grad = conv_b.requires_grad if conv_b is not None else False
    conv_b = facula.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = facula.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = facula.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(weight_dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(bias_dtype)
    return Parameter(weight.detach(), conv_w.requires_grad), Parameter(bias.detach(), bias_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a copy of a linear layer that computes ``bn(linear(x))``.

    Args:
        linear: a linear layer in evaluation mode.
        bn: a batch normalization in evaluation mode, with running statistics, of the layer's out_features (or 1).

    Errors: AssertionError for a module in training mode, a normalization without running statistics, or of another size.

    >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    >>> x = torch.randn(2, 3)
    >>> bool(torch.allclose(nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-6))
    True
    """
    _check_eval("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"fuse_linear_bn_eval: bn.num_features must be {linear.out_features} or 1, got {bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor,
                           bn_b: Tensor) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return (weight, bias) of a linear layer with a batch normalization folded in, two parameters.

    Args:
        linear_w: the weight of the linear layer, (out_features, in_features).
        linear_b: its bias, (out_features,), or None.
        bn_rm, bn_rv: the running mean and variance, (out_features,).
        bn_eps: the number added to the variance.
        bn_w: the factors of the normalization.
        bn_b: the numbers that it adds.

    Returns: a pair of parameters of the shapes of linear_w and (out_features,).

    Errors: RuntimeError for shapes that do not fit.

    >>> one = torch.ones(1)
    >>> nn.utils.fuse_linear_bn_weights(torch.ones(1, 2), None, one, one * 4, 0.0, one * 6, one)
    (Parameter containing:
    tensor([[3., 3.]]), Parameter containing:
    tensor([-2.]))
    """
    weight_dtype = linear_w.dtype
    bias_dtype = linear_b.dtype if linear_b is not None else weight_dtype
    bias_grad = linear_b.requires_grad if linear_b is not None else False
    linear_b = facula.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    weight = (linear_w * scale.unsqueeze(-1)).to(weight_dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(bias_dtype)
    return Parameter(weight.detach(), linear_w.requires_grad), Parameter(bias.detach(), bias_grad)
