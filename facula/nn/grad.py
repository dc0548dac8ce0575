"""Gradients of convolutions with respect to one argument, given the gradient of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from . import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from facula import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _grad_of(conv, like, shape, build, grad_output):
    """Gradient of ``conv`` with respect to an argument of ``shape``; a convolution is linear, so its value is
    free.
    """
    with facula.enable_grad():
        argument = facula.zeros(shape, dtype=like.dtype, device=like.device, requires_grad=True)
        result = conv(*build(argument))
        return facula.autograd.grad(result, argument, grad_output, create_graph=like.requires_grad)[0]


def _input_gradient(conv, doc):
    def gradient(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        def build(input):
            return input, weight, None, stride, padding, dilation, groups

        return _grad_of(conv, weight, tuple(input_size), build, grad_output)

    gradient.__name__ = gradient.__qualname__ = conv.__name__ + "_input"
    gradient.__doc__ = doc
    return gradient


def _weight_gradient(conv, doc):
    def gradient(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        def build(weight):
            return input, weight, None, stride, padding, dilation, groups

        return _grad_of(conv, input, tuple(weight_size), build, grad_output)

    gradient.__name__ = gradient.__qualname__ = conv.__name__ + "_weight"
    gradient.__doc__ = doc
    return gradient


conv1d_input: Callable[..., Tensor] = _input_gradient(
    F.conv1d, "Gradient of `functional.conv1d` with respect to an input of ``input_size``."
)
conv2d_input: Callable[..., Tensor] = _input_gradient(
    F.conv2d, "Gradient of `functional.conv2d` with respect to an input of ``input_size``."
)
conv3d_input: Callable[..., Tensor] = _input_gradient(
    F.conv3d, "Gradient of `functional.conv3d` with respect to an input of ``input_size``."
)
conv1d_weight: Callable[..., Tensor] = _weight_gradient(F.conv1d, "Gradient of `functional.conv1d` with respect to the weight.")
conv2d_weight: Callable[..., Tensor] = _weight_gradient(F.conv2d, "Gradient of `functional.conv2d` with respect to the weight.")
conv3d_weight: Callable[..., Tensor] = _weight_gradient(F.conv3d, "Gradient of `functional.conv3d` with respect to the weight.")
