"""Modules whose weights are kept, and what is asked of every case."""

from __future__ import annotations

import numpy as np

import facula
import facula.nn.functional as F
from facula import nn


def kept():
    return facula.cpu.packed_weights()


def linear():
    """A layer, and its input."""
    return nn.Linear(96, 128), facula.randn(40, 96)


def tiles():
    """A convolution computed in tiles."""
    return nn.Conv2d(32, 64, 3, padding=1), facula.randn(1, 32, 40, 40)


def pointwise():
    """A convolution that is one product."""
    return nn.Conv2d(64, 128, 1), facula.randn(1, 64, 20, 20)


def windows():
    """A convolution that is products of gathered windows."""
    return nn.Conv2d(512, 512, 3, padding=1), facula.randn(1, 512, 7, 7)


def library():
    """A convolution of oneDNN's."""
    return nn.Conv2d(64, 64, 3, stride=2, padding=1), facula.randn(1, 64, 56, 56)


def channels_last(m, x):
    """Images in the order in which networks pass them on, so that small ones take the same kernels."""
    return m, x.contiguous(memory_format=facula.channels_last) if x.dim() == 4 else x


MAKERS = [linear, tiles, pointwise, windows, library]


def reference(module, x):
    """The result with a fresh weight that nothing is kept of; looks at the memory of neither."""
    fresh = module.weight.detach().clone()
    if isinstance(module, nn.Linear):
        return F.linear(x, fresh, module.bias)
    return F.conv2d(x, fresh, module.bias, module.stride, module.padding)


def answer(module, x):
    with facula.inference_mode():
        return module(x).numpy().copy()


def answers(module, x, count=3):
    """Until the weight is kept."""
    for _ in range(count):
        result = answer(module, x)
    return result


def checks(module, x):
    """Whether answers are those of the weight as it is: the next one, and later ones."""
    first, expected = answer(module, x), facula.no_grad()(reference)(module, x).numpy()
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(answers(module, x), expected)


def keeps_any():
    """Whether this machine's kernels keep weights at all."""
    module, x = linear()
    answers(module, x)
    return kept()["copies"] > 0
