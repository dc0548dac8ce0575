"""Define helpers of layers that round their weights in training."""

from __future__ import annotations

from facula import nn


def qconfig_of(kind, mod, layer=None):
    """Return the qconfig of a module that becomes a `kind`; AssertionError without one, or for a module of another class."""
    found = nn.utils.parametrize.type_before_parametrizations(mod)
    if found is not kind._FLOAT_MODULE:
        raise AssertionError(
            f"qat.{kind.__name__}.from_float: a {kind._FLOAT_MODULE.__name__} is expected, got {found.__name__}"
        )
    qconfig = getattr(mod if layer is None else layer, "qconfig", None)
    if not qconfig:
        raise AssertionError(f"qat.{kind.__name__}.from_float: the float module needs a qconfig, got {qconfig}")
    return qconfig


def weight_rounding(name, qconfig, device=None):
    """Return what rounds the weight; AssertionError without a qconfig."""
    if not qconfig:
        raise AssertionError(f"qat.{name}: qconfig must be provided for QAT module, got {qconfig}")
    made = qconfig.weight()
    return made if device is None else made.to(device)


def conv_arguments(conv):
    """Return the arguments with which a convolution of the same shape is made, by name."""
    names = "in_channels out_channels kernel_size stride padding dilation groups padding_mode".split()
    return {name: getattr(conv, name) for name in names} | {"bias": conv.bias is not None}


def as_parameter(tensor):
    """Return a parameter with the tensor's memory; None for None."""
    return None if tensor is None else nn.Parameter(tensor.detach())
