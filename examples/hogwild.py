"""Several processes train one network on digits at the same time, without locks: its parameters lie in shared memory.

    python examples/hogwild.py [--processes 2] [--epochs 20]

Every process reads parameters that others are writing, and adds its own steps. As each step changes little, that does no harm:
the steps of two processes count like those of one that takes twice as many. Prints the accuracy on test images.
"""

from __future__ import annotations

import argparse
import time

from shared import load_digits, say

import facula as torch
import facula.multiprocessing as mp
from facula import nn
from facula.nn import functional as F

TRAINED = 1437  # images; the rest are for the test


def make_model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))


def accuracy(model: nn.Module, images: torch.Tensor, digits: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(images).argmax(1) == digits).float().mean().item()


def train(number: int, model: nn.Module, steps, epochs: int, rate: float, seed: int) -> None:
    """Do what each process does: steps on images in an order of its own, into the parameters that all share."""
    torch.manual_seed(seed + 1 + number)
    torch.set_num_threads(1)
    images, digits = (t[:TRAINED] for t in load_digits())
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(epochs):
        for rows in torch.randperm(TRAINED).split(16):
            optimizer.zero_grad()  # gradients are this process's own: only parameters are shared
            F.cross_entropy(model(images[rows]), digits[rows]).backward()
            optimizer.step()
            steps[number] += 1


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=20, help="how often each process sees all images")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    model = make_model().share_memory()
    steps = torch.zeros(options.processes, dtype=torch.int64).share_memory_()
    images, digits = (t[TRAINED:] for t in load_digits())
    started = time.perf_counter()
    running = mp.spawn(
        train, args=(model, steps, options.epochs, options.rate, options.seed), nprocs=options.processes, join=False
    )
    while not running.join(timeout=0.5):
        say(f"{steps.sum().item():5d} steps  test accuracy {accuracy(model, images, digits):.1%}")
    reached = accuracy(model, images, digits)
    seconds = time.perf_counter() - started
    say(f"{' + '.join(map(str, steps.tolist()))} steps in {seconds:.1f} s  test accuracy {reached:.1%}")
    return reached


if __name__ == "__main__":
    main()
