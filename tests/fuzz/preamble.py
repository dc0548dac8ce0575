"""What the texts of fuzzed calls may name. A reproducing program is this file and one more line."""

# ruff: noqa: F401

import copy
import importlib.util
import math
import pickle
import warnings
from math import inf, nan

import numpy as np

import facula
import facula as torch
import facula.nn as nn
import facula.nn.functional as F
import facula.optim as optim

warnings.simplefilter("ignore")

for library in ("torchvision/_C", "torchaudio/lib/libtorchaudio", *(("torchvision/image",) if importlib.util.find_spec("PIL") else ())):
    facula.ops.load_library(f"/{library}.so")
vision, audio, image = facula.ops.torchvision, facula.ops.torchaudio, facula.ops.image


def x(*shape, low=-2.0, high=2.0, dtype=facula.float32):
    """Values in [low, high], in a fixed disorder."""
    values = low + (high - low) * (facula.arange(math.prod(shape), dtype=facula.float64) * 0.6180339887498949 % 1.0)
    if dtype.is_complex:
        values = facula.complex(values, values.flip(0))
    return values.reshape(shape).to(dtype)


def k(*shape, below=3, dtype=facula.int64):
    """Whole numbers in [0, below)."""
    return (facula.arange(math.prod(shape)) * 7 % below).reshape(shape).to(dtype)


def tensors_in(value):
    if isinstance(value, facula.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value[:4]:
            yield from tensors_in(item)


def look(*results):
    """Does with results what programs do: prints them, and differentiates what can be."""
    found = list(tensors_in(results))
    for tensor in found[:3]:
        try:
            repr(tensor)
        except Exception as error:
            raise AssertionError(f"look: repr of a result raised {type(error).__name__}: {error}") from error
    graded = [t for t in found if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    if graded:
        facula.autograd.backward(graded, [facula.ones((), dtype=t.dtype, device=t.device).expand(t.shape) for t in graded])


def step(optimizer, parameters, gradients, **options):
    """Three steps of an optimizer, with a gradient each."""
    parameters = [p.detach().requires_grad_() if p.is_floating_point() else p for p in parameters]
    made = optimizer(parameters, **options)
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    for _ in range(3):
        made.step(lambda: 1.0)
    pickle.dumps(made.state_dict())
    return parameters


class Huge:
    """A number that is asked for one and is very large, or not one at all."""

    def __init__(self, value=2**62):
        self.value = value

    def __index__(self):
        return self.value

    def __float__(self):
        return self.value


class Sequence:
    """A sequence whose length and items do not agree."""

    def __init__(self, length=3, item=1):
        self.length, self.item = length, item

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index >= 1000:
            raise IndexError("the end, on purpose")
        return self.item


class Raising:
    """Raises whenever it is asked anything."""

    def _raise(self, *args):
        raise ArithmeticError("raised on purpose")

    __index__ = __float__ = __len__ = __getitem__ = __iter__ = __bool__ = __eq__ = __array__ = _raise
    __hash__ = None


class Shrinking(list):
    """A list that loses an item when one of its numbers is asked for."""

    def __init__(self, *items):
        outer = self

        class Item:
            def __index__(self):
                outer.clear()
                return 1

            __float__ = __index__

        super().__init__([Item(), *items])


class Override(facula.Tensor):
    """A subclass of Tensor without anything of its own."""


class Answering:
    """Answers every function with itself."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return cls()


def endless():
    endless_list = []
    endless_list.append(endless_list)
    return endless_list


def deep(levels):
    nested = 1.0
    for _ in range(levels):
        nested = [nested]
    return nested
