"""Define what drivers share: weights and inputs made with NumPy, and lines `name = numbers` with results."""

from __future__ import annotations

import numpy as np
import torch


def array(*shape, seed=0, scale=1.0):
    """Return a float32 tensor of normal numbers."""
    return torch.from_numpy(np.asarray(np.random.RandomState(seed).standard_normal(shape) * scale, np.float32))


def integers(high, *shape, seed=0):
    """Return an int64 tensor of numbers from 0 to high - 1."""
    return torch.from_numpy(np.random.RandomState(seed).randint(0, high, shape))


def fill(module, seed=1):
    """Give all parameters values made with NumPy, by their order; give the module."""
    draw = np.random.RandomState(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            values = np.asarray(draw.standard_normal(tuple(parameter.shape)), np.float32)
            if parameter.dim() > 1:
                values /= max(1.0, np.sqrt(values[0].size))
            else:
                near = float(parameter.float().mean()) > 0.5  # scales stay near 1, biases near 0
                values = np.asarray(0.1 * values + near, np.float32)
            parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))
    return module


def tensors(value):
    """Return the tensors of floating-point numbers in what a model gives."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    return [t for part in value for t in tensors(part)] if isinstance(value, (list, tuple)) else []


def show(name, *values):
    """Write a line: numbers as they are; of tensors the mean, the mean size and the last element."""
    words = []
    for value in values:
        if isinstance(value, torch.Tensor) and value.dim():
            x = value.detach().double().flatten() if not value.is_complex() else torch.view_as_real(value.detach()).flatten()
            words += [float(x.mean()), float(x.abs().mean()), float(x[-1])] if x.numel() else [0.0]
        else:
            words.append(float(value))
    print(f"{name} = {' '.join(f'{word:.6g}' for word in words)}", flush=True)


def check(name, model, *inputs, seed=1, train=False, call=None, **keywords):
    """Run a forward and a backward pass of a model with weights of NumPy: its results, and the sizes of its gradients."""
    fill(model, seed).train(train)
    outputs = tensors((call or model)(*inputs, **keywords))
    loss = sum((out * array(*out.shape, seed=7 + i)).sum() / max(1, out.numel()) ** 0.5 for i, out in enumerate(outputs))
    loss.backward()
    sizes = [p.grad.double().norm() for p in model.parameters() if p.grad is not None]
    show(name, *outputs[:3], loss, torch.stack(sizes).norm(), len(sizes))
