"""Training by remote calls: trainers send gradients to a server, which averages those of all and answers with new parameters.

    python -m facula.distributed.run --standalone --nproc-per-node 3 examples/parameter_server.py
    python examples/parameter_server.py [--steps 120]

Rank 0 is the server, the others train on digits of their own choice; alone, one process is both. `Server.step` gives a future,
so no thread of the server waits for the slower trainers.
"""

from __future__ import annotations

import argparse
import os
import threading

from shared import load_digits, say

import facula as torch
from facula import nn
from facula.distributed import rpc
from facula.futures import Future

TRAINED = 1437  # images; the rest are for the test


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


class Server:
    """The parameters, and the gradients of the step that has not been made yet."""

    def __init__(self, trainers: int, lr: float) -> None:
        self.model, self.trainers = network(), trainers
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.lock, self.waiting = threading.Lock(), 0
        self.answer: Future = Future()

    def parameters(self) -> list[torch.Tensor]:
        return [parameter.detach() for parameter in self.model.parameters()]

    @rpc.functions.async_execution
    def step(self, gradients: list[torch.Tensor]) -> Future:
        """Return the parameters after the step that these gradients take part in."""
        with self.lock:
            for parameter, gradient in zip(self.model.parameters(), gradients):
                share = gradient / self.trainers
                parameter.grad = share if parameter.grad is None else parameter.grad + share
            self.waiting += 1
            answer = self.answer
            if self.waiting == self.trainers:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.waiting, self.answer = 0, Future()
                answer.set_result([parameter.clone() for parameter in self.parameters()])
        return answer

    def accuracy(self) -> float:
        images, digits = (part[TRAINED:] for part in load_digits())
        with torch.no_grad():
            return (self.model(images).argmax(1) == digits).float().mean().item()


def train(server: rpc.RRef, steps: int, batch: int, seed: int) -> int:
    """Do what a trainer does; return the number of images that it has seen."""
    images, digits = (part[:TRAINED] for part in load_digits())
    generator = torch.Generator().manual_seed(seed)
    model = network()
    values = server.rpc_sync().parameters()
    for _ in range(steps):
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), values):
                parameter.copy_(value)
        chosen = torch.randint(0, TRAINED, (batch,), generator=generator)
        loss = nn.functional.cross_entropy(model(images[chosen]), digits[chosen])
        values = server.rpc_sync().step(torch.autograd.grad(loss, list(model.parameters())))
    return steps * batch


def serve(options: argparse.Namespace, names: list[str]) -> float:
    torch.manual_seed(options.seed)
    server: rpc.RRef = rpc.RRef(Server(len(names), lr=3e-3))
    runs = [
        rpc.rpc_async(name, train, (server, options.steps, options.batch, options.seed + i), timeout=0)
        for i, name in enumerate(names)
    ]
    seen = sum(run.wait() for run in runs)
    accuracy = server.local_value().accuracy()
    say(f"{len(names)} trainers, {seen} images seen, test accuracy {accuracy:.2%}")
    return accuracy


def main(arguments: list[str] | None = None) -> float | None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=64, help="images of a step of one trainer")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    rpc.init_rpc(f"trainer{rank}" if rank else "server", rank=rank, world_size=size)
    accuracy = None
    if rank == 0:
        accuracy = serve(options, [f"trainer{r}" for r in range(1, size)] or ["server"])
    rpc.shutdown()  # waits until nobody has anything to do
    return accuracy


if __name__ == "__main__":
    main()
