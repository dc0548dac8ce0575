"""Define the table of applications. Each is a function that builds the program and returns its step, a call that does
one unit of work and returns a number by which the two libraries are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy
import torch

Step = Callable[[], float]
APPLICATIONS: dict[str, Application] = {}


@dataclass(frozen=True)
class Application:
    about: str
    start: Callable[[], Step]
    exact: bool  # whether the numbers agree: not where each library draws its own random ones


def application(about: str, exact: bool = True):
    def add(start: Callable[[], Step]) -> Callable[[], Step]:
        APPLICATIONS[start.__name__] = Application(about, start, exact)
        return start

    return add


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    """Return normal numbers that NumPy draws, the same for every library."""
    return torch.from_numpy(numpy.random.default_rng(seed).standard_normal(shape, numpy.float32))


def integers(below: int, *shape: int, seed: int = 2) -> torch.Tensor:
    return torch.from_numpy(numpy.random.default_rng(seed).integers(0, below, shape))


def fill(model: torch.nn.Module) -> torch.nn.Module:
    """Write weights that NumPy draws, scaled by the inputs of each output, so that both libraries start alike."""
    generator = numpy.random.default_rng(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                inputs = parameter.numel() // parameter.shape[0]
                values = generator.standard_normal(tuple(parameter.shape), numpy.float32) * inputs**-0.5
                parameter.copy_(torch.from_numpy(values))
    return model


def trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss_of: Callable[[], torch.Tensor]) -> Step:
    """Return a step of training."""

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.item()

    model.train()
    return step
