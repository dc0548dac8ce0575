"""Compute the gradients of convolutions with respect to one argument from the gradient of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from . import functional as F

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def conv1d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the gradient of ``nn.functional.conv1d(input, weight)`` with respect to the input, (N, C, L).

    Args:
        input_size: the shape of the input, (N, C, L).
        weight: the weight of the convolution.
        grad_output: the gradient of the result, (N, C_out, L_out).
        stride, padding, dilation, groups: the arguments of the convolution.

    Errors: RuntimeError for shapes that do not fit.

    >>> weight, grad_output = torch.ones(1, 1, 2), torch.ones(1, 1, 2)
    >>> nn.grad.conv1d_input((1, 1, 3), weight, grad_output).flatten()
    tensor([1., 2., 1.])
    """

    def build(input):
        return input, weight, None, stride, padding, dilation, groups

    return _grad_of(F.conv1d, weight, tuple(input_size), build, grad_output)


def conv1d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: int | Sequence[int] = 1,
                  padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the gradient of ``nn.functional.conv1d(input, weight)`` with respect to the weight, of the shape weight_size.

    Args:
        input: the input of the convolution, (N, C, L).
        weight_size: the shape of the weight.
        grad_output: the gradient of the result, (N, C_out, L_out).
        stride, padding, dilation, groups: the arguments of the convolution.

    Errors: RuntimeError for shapes that do not fit.

    >>> input, grad_output = torch.ones(1, 1, 3), torch.ones(1, 1, 2)
    >>> nn.grad.conv1d_weight(input, (1, 1, 2), grad_output).flatten()
    tensor([2., 2.])
    """

    def build(weight):
        return input, weight, None, stride, padding, dilation, groups

    return _grad_of(F.conv1d, input, tuple(weight_size), build, grad_output)


def conv2d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the gradient of ``nn.functional.conv2d(input, weight)`` with respect to the input, (N, C, H, W).

    Args:
        input_size: the shape of the input, (N, C, H, W).
        weight: the weight of the convolution.
        grad_output: the gradient of the result, (N, C_out, H_out, W_out).
        stride, padding, dilation, groups: the arguments of the convolution.

    Errors: RuntimeError for shapes that do not fit.

    >>> weight, grad_output = torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2)
    >>> nn.grad.conv2d_input((1, 1, 1, 3), weight, grad_output).flatten()
    tensor([1., 2., 1.])
    """

    def build(input):
        return input, weight, None, stride, padding, dilation, groups

    return _grad_of(F.conv2d, weight, tuple(input_size), build, grad_output)


def conv2d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: int | Sequence[int] = 1,
                  padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the gradient of ``nn.functional.conv2d(input, weight)`` with respect to the weight, of the shape weight_size.

    Args:
        input: the input of the convolution, (N, C, H, W).
        weight_size: the shape of the weight.
        grad_output: the gradient of the result, (N, C_out, H_out, W_out).
        stride, padding, dilation, groups: the arguments of the convolution.

    Errors: RuntimeError for shapes that do not fit.

    >>> input, grad_output = torch.ones(1, 1, 1, 3), torch.ones(1, 1, 1, 2)
    >>> nn.grad.conv2d_weight(input, (1, 1, 1, 2), grad_output).flatten()
    tensor([2., 2.])
    """

    def build(weight):
        return input, weight, None, stride, padding, dilation, groups

    return _grad_of(F.conv2d, input, tuple(weight_size), build, grad_output)


def conv3d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the gradient of ``nn.functional.conv3d(input, weight)`` with respect to the input, (N, C, D, H, W).

    Args:
        input_size: the shape of the input, (N, C, D, H, W).
        weight: the weight of the convolution.
        grad_output: the gradient of the result, (N, C_out, D_out, H_out, W_out).
        stride, padding, dilation, groups: the arguments of the convolution.

    Errors: RuntimeError for shapes that do not fit.

    >>> weight, grad_output = torch.ones(1, 1, 1, 1, 2), torch.ones(1, 1, 1, 1, 2)
    >>> nn.grad.conv3d_input((1, 1, 1, 1, 3), weight, grad_output).flatten()
    tensor([1., 2., 1.])
    """

    def build(input):
        return input, weight, None, stride, padding, dilation, groups

    return _grad_of(F.conv3d, weight, tuple(input_size), build, grad_output)


def conv3d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: int | Sequence[int] = 1,
                  padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the gradient of ``nn.functional.conv3d(input, weight)`` with respect to the weight, of the shape weight_size.

    Args:
        input: the input of the convolution, (N, C, D, H, W).
        weight_size: the shape of the weight.
        grad_output: the gradient of the result, (N, C_out, D_out, H_out, W_out).
        stride, padding, dilation, groups: the arguments of the convolution.

    Errors: RuntimeError for shapes that do not fit.

    >>> input, grad_output = torch.ones(1, 1, 1, 1, 3), torch.ones(1, 1, 1, 1, 2)
    >>> nn.grad.conv3d_weight(input, (1, 1, 1, 1, 2), grad_output).flatten()
    tensor([2., 2.])
    """

    def build(weight):
        return input, weight, None, stride, padding, dilation, groups

    return _grad_of(F.conv3d, input, tuple(weight_size), build, grad_output)
