"""A network whose halves are on two workers: micro-batches go through both by remote calls, gradients come back the same way.

    python -m facula.distributed.run --standalone --nproc-per-node 3 examples/rpc_pipeline.py
    python examples/rpc_pipeline.py [--epochs 3]

Rank 0 leads, the last two ranks hold a half each; alone, one process is all of them. While the second half works on one
micro-batch the first works on the next. `distributed.pipelining` does this without remote calls.
"""

from __future__ import annotations

import argparse
import os

from shared import load_digits, say

import facula as torch
from facula import nn
from facula.distributed import autograd as dist_autograd
from facula.distributed import rpc
from facula.distributed.optim import DistributedOptimizer

TRAINED = 1437  # images; the rest are for the test


def half(number: int) -> nn.Module:
    if number == 0:
        convolutions = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
        return nn.Sequential(*convolutions)
    return nn.Sequential(nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 10))


class Half:
    """A part of the network, on the worker that has it."""

    def __init__(self, number: int) -> None:
        self.module = half(number)

    def forward(self, images: rpc.RRef | torch.Tensor) -> torch.Tensor:
        if isinstance(images, rpc.RRef):  # what the first half gave goes to the second directly
            images = images.to_here()
        return self.module(images)

    def parameters(self) -> list[rpc.RRef]:
        return [rpc.RRef(parameter) for parameter in self.module.parameters()]


class Pipeline:
    """Both halves, seen from the leader."""

    def __init__(self, workers: list[str], parts: int) -> None:
        self.parts = parts
        self.halves = [rpc.remote(worker, Half, (i,)) for i, worker in enumerate(workers)]

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        first, second = self.halves
        outputs = [second.rpc_async().forward(first.remote().forward(part)) for part in images.chunk(self.parts)]
        return torch.cat(torch.futures.wait_all(outputs))

    def parameters(self) -> list[rpc.RRef]:
        return [rref for half in self.halves for rref in half.rpc_sync().parameters()]


def lead(options: argparse.Namespace, workers: list[str]) -> float:
    images, digits = load_digits()
    pipeline = Pipeline(workers, options.parts)
    optimizer = DistributedOptimizer(torch.optim.Adam, pipeline.parameters(), lr=2e-3)
    accuracy = 0.0
    for epoch in range(1, options.epochs + 1):
        for chosen in torch.randperm(TRAINED).split(options.batch):
            with dist_autograd.context() as context:
                loss = nn.functional.cross_entropy(pipeline(images[chosen]), digits[chosen])
                dist_autograd.backward(context, [loss])
                optimizer.step(context)
        accuracy = (pipeline(images[TRAINED:]).argmax(1) == digits[TRAINED:]).float().mean().item()
        say(f"epoch {epoch}  loss {loss.item():.3f}  test accuracy {accuracy:.2%}  halves on {', '.join(workers)}")
    return accuracy


def main(arguments: list[str] | None = None) -> float | None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--parts", type=int, default=4, help="micro-batches of a batch")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    accuracy = None
    if rank == 0:
        accuracy = lead(options, [f"worker{max(0, size - 2)}", f"worker{size - 1}"])
    rpc.shutdown()
    return accuracy


if __name__ == "__main__":
    main()
