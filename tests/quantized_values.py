"""Quantized tensors of normal numbers, for tests."""

import numpy as np

import facula as torch


def values(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def quantized(*shape, scale=0.05, zero_point=10, dtype=torch.quint8, seed=0):
    return torch.quantize_per_tensor(values(*shape, seed=seed), scale, zero_point, dtype)


def per_channel(*shape, axis=0, dtype=torch.qint8):
    count = shape[axis]
    scales, zeros = torch.linspace(0.02, 0.05, count), torch.arange(count)
    return torch.quantize_per_channel(values(*shape), scales, zeros, axis, dtype)
