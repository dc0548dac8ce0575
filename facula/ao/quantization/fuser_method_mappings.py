"""Define how neighboring layers become one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import facula.ao.nn.intrinsic as nni
from facula import nn
from facula.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval

from .utils import MatchAllNode, get_combined_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula.ao.nn.intrinsic.modules.fused import ConvBn2d, ConvBnReLU2d, ConvReLU2d, LinearBn1d
    from facula.nn.modules.conv import Conv2d
    from facula.nn.modules.module import Module

__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_linear_bn", "get_fuser_method", "get_fuser_method_new",
]  # fmt: skip

_CONV_BN = {nn.Conv1d: nni.ConvBn1d, nn.Conv2d: nni.ConvBn2d, nn.Conv3d: nni.ConvBn3d}
_CONV_BN_RELU = {nn.Conv1d: nni.ConvBnReLU1d, nn.Conv2d: nni.ConvBnReLU2d, nn.Conv3d: nni.ConvBnReLU3d}
_CONV_RELU = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}


def _check(name: str, layer: Module, bn: Module, is_qat: bool, channels: int | None = None) -> None:
    """Check that both layers train, or neither does; with statistics and parameters, where they train together."""
    if layer.training != bn.training:
        raise AssertionError(
            f"{name}: expected both layers to train or neither, got training={layer.training} and {bn.training}"
        )
    if not is_qat:
        return
    if channels is not None and bn.num_features != channels:
        raise AssertionError(f"{name}: expected a batch normalization of {channels} channels, got {bn.num_features}")
    for attribute in ("affine", "track_running_stats"):
        if not getattr(bn, attribute):
            raise AssertionError(f"{name}: Only support fusing batch normalization with {attribute} True, got {bn}")


def _of_kind(name, mapping, *modules):
    kind = mapping.get(type(modules[0]))
    if kind is None:
        raise NotImplementedError(f"{name}: Cannot fuse modules, got {[type(module).__name__ for module in modules]}")
    return kind


def fuse_conv_bn(is_qat: bool, conv: Module, bn: Module) -> Conv2d | ConvBn2d:
    """Return one module for a convolution and the batch normalization after it.

    Args:
        is_qat: if True, they go on training, in a container of both; otherwise the normalization goes into the weight.
        conv, bn: the layers, of two dimensions, say.

    Errors: AssertionError where one of them trains and the other does not.

    Example::

        >>> from torch.ao.quantization import fuse_conv_bn
        >>> type(fuse_conv_bn(False, nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval())).__name__
        'Conv2d'
    """
    _check("fuse_conv_bn", conv, bn, is_qat, conv.out_channels)
    if is_qat:
        return _of_kind("fuse_conv_bn", _CONV_BN, conv, bn)(conv, bn)
    return fuse_conv_bn_eval(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Module, bn: Module, relu: Module) -> ConvBnReLU2d | ConvReLU2d:
    """Return one module for a convolution, the batch normalization and the ReLU after it.

    Args:
        is_qat: if True, they go on training, in a container of all; otherwise the normalization goes into the weight.
        conv, bn, relu: the layers.

    Errors: AssertionError where some of them train and others do not; NotImplementedError for other layers.

    >>> from torch.ao.quantization import fuse_conv_bn_relu
    >>> parts = nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval(), nn.ReLU().eval()
    >>> fuse_conv_bn_relu(False, *parts)
    ConvReLU2d(
      (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
      (1): ReLU()
    )
    """
    _check("fuse_conv_bn_relu", conv, bn, is_qat, conv.out_channels)
    if is_qat:
        return _of_kind("fuse_conv_bn_relu", _CONV_BN_RELU, conv, bn, relu)(conv, bn, relu)
    return _of_kind("fuse_conv_bn_relu", _CONV_RELU, conv, bn, relu)(fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat: bool, linear: Module, bn: Module) -> LinearBn1d:
    """Return one module for a linear layer and the batch normalization after it.

    Args:
        is_qat: if True, they go on training, in a container of both; otherwise the normalization goes into the weight.
        linear, bn: the layers.

    Errors: AssertionError where one of them trains and the other does not.

    >>> from torch.ao.quantization import fuse_linear_bn
    >>> fuse_linear_bn(False, nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval())
    Linear(in_features=2, out_features=3, bias=True)
    """
    _check("fuse_linear_bn", linear, bn, is_qat)
    return nni.LinearBn1d(linear, bn) if is_qat else fuse_linear_bn_eval(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Module:
    """Return one module for a transposed convolution and the batch normalization after it.

    Args:
        is_qat: False.
        convt, bn: the layers.

    Errors: AssertionError where one of them trains and the other does not; Exception for is_qat.

    >>> from torch.ao.quantization import fuse_convtranspose_bn
    >>> fuse_convtranspose_bn(False, nn.ConvTranspose2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval())
    ConvTranspose2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
    """
    _check("fuse_convtranspose_bn", convt, bn, False)
    if is_qat:
        raise Exception(f"fuse_convtranspose_bn: these layers are fused after training only, got {is_qat=}")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _in_container(container):
    """Return the function that puts two layers in a container."""

    def fuser_method(is_qat, first, second):
        return container(first, second)

    return fuser_method


_DEFAULT_OP_LIST_TO_FUSER_METHOD = {
    **{(getattr(nn, f"Conv{n}d"), getattr(nn, f"BatchNorm{n}d")): fuse_conv_bn for n in (1, 2, 3)},
    **{(getattr(nn, f"Conv{n}d"), getattr(nn, f"BatchNorm{n}d"), nn.ReLU): fuse_conv_bn_relu for n in (1, 2, 3)},
    **{(conv, nn.ReLU): _in_container(fused) for conv, fused in _CONV_RELU.items()},
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): _in_container(nni.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): _in_container(nni.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): _in_container(nni.BNReLU3d),
    **{(getattr(nn, f"ConvTranspose{n}d"), getattr(nn, f"BatchNorm{n}d")): fuse_convtranspose_bn for n in (1, 2, 3)},
}


def get_fuser_method(op_list: Sequence[type],
                     additional_fuser_method_mapping: dict[Sequence[type], Any] | None = None) -> Callable[..., Any]:
    """Return the function that makes one module of layers of these classes.

    Args:
        op_list: a tuple of classes.
        additional_fuser_method_mapping: tuples of classes and functions of one's own, called with is_qat and the layers.

    Errors: AssertionError where there is none.

    >>> from torch.ao.quantization import get_fuser_method
    >>> get_fuser_method((nn.Conv2d, nn.BatchNorm2d)).__name__
    'fuse_conv_bn'
    """
    found = get_combined_dict(_DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {}).get(op_list)
    if found is None:
        raise AssertionError(f"get_fuser_method: did not find fuser method for: {op_list}")
    return found


def _patterns(pattern):
    """Return the pattern, and what it becomes when parts of it stand for any node."""
    if not isinstance(pattern, (tuple, list)):
        return [pattern, MatchAllNode]
    return [*itertools.product(*map(_patterns, pattern)), MatchAllNode]


def get_fuser_method_new(op_pattern: Sequence[type], fuser_method_mapping: dict[Any, Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function of a pattern, or of one that fits it with `MatchAllNode` in some places.

    Args:
        op_pattern: a class, or tuples of patterns.
        fuser_method_mapping: patterns and functions.

    Errors: AssertionError where there is none.

    >>> from torch.ao.quantization import fuse_conv_bn, get_fuser_method_new
    >>> get_fuser_method_new((nn.Conv2d, nn.BatchNorm2d), {(nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn}).__name__
    'fuse_conv_bn'
    """
    for pattern in _patterns(op_pattern):
        if fuser_method_mapping.get(pattern) is not None:
            return fuser_method_mapping[pattern]
    raise AssertionError(f"get_fuser_method_new: did not find fuser method for: {op_pattern}")
