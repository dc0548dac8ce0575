"""Gradients of convolutions with respect to one argument, given the gradient of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from . import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from facula import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _grad_of(conv, like, shape, build, grad_output):
    """Return the gradient of ``conv`` with respect to an argument of ``shape``; a convolution is linear, so its value is
    free.
    """
    with facula.enable_grad():
        argument = facula.zeros(shape, dtype=like.dtype, device=like.device, requires_grad=True)
        result = conv(*build(argument))
        return facula.autograd.grad(result, argument, grad_output, create_graph=like.requires_grad)[0]


_ARGUMENTS = """stride, padding, dilation, groups: those of the convolution.

Errors: RuntimeError for shapes that do not fit.
"""
_INPUT = """Return the gradient of ``nn.functional.{conv}(input, weight)`` with respect to the input.

Args:
    input_size: the shape of the input, (N, C, {sizes}).
    weight: of the convolution.
    grad_output: the gradient of the result, of its shape.
    {arguments}
>>> weight, grad_output = torch.ones(1, 1, {kernel}), torch.ones(1, 1, {output})
>>> nn.grad.{conv}_input((1, 1, {input}), weight, grad_output).flatten()
tensor([1., 2., 1.])
"""
_WEIGHT = """Return the gradient of ``nn.functional.{conv}(input, weight)`` with respect to the weight.

Args:
    input: of the convolution, (N, C, {sizes}).
    weight_size: the shape of the weight.
    grad_output: the gradient of the result, of its shape.
    {arguments}
>>> input, grad_output = torch.ones(1, 1, {input}), torch.ones(1, 1, {output})
>>> nn.grad.{conv}_weight(input, (1, 1, {kernel}), grad_output).flatten()
tensor([2., 2.])
"""


def _described(gradient, conv, end, text):
    n = int(conv.__name__[-2])
    sizes = ", ".join("DHW"[-n:]) if n > 1 else "L"
    shapes = {key: ", ".join(["1"] * (n - 1) + [size]) for key, size in (("kernel", "2"), ("output", "2"), ("input", "3"))}
    gradient.__name__ = gradient.__qualname__ = f"{conv.__name__}_{end}"
    gradient.__doc__ = text.format(conv=conv.__name__, sizes=sizes, arguments=_ARGUMENTS, **shapes)
    return gradient


def _input_gradient(conv):
    def gradient(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Tensor:
        def build(input):
            return input, weight, None, stride, padding, dilation, groups

        return _grad_of(conv, weight, tuple(input_size), build, grad_output)

    return _described(gradient, conv, "input", _INPUT)


def _weight_gradient(conv):
    def gradient(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Tensor:
        def build(weight):
            return input, weight, None, stride, padding, dilation, groups

        return _grad_of(conv, input, tuple(weight_size), build, grad_output)

    return _described(gradient, conv, "weight", _WEIGHT)


conv1d_input: Callable[..., Tensor]
conv1d_weight: Callable[..., Tensor]
conv2d_input: Callable[..., Tensor]
conv2d_weight: Callable[..., Tensor]
conv3d_input: Callable[..., Tensor]
conv3d_weight: Callable[..., Tensor]
conv1d_input, conv2d_input, conv3d_input = map(_input_gradient, (F.conv1d, F.conv2d, F.conv3d))
conv1d_weight, conv2d_weight, conv3d_weight = map(_weight_gradient, (F.conv1d, F.conv2d, F.conv3d))
