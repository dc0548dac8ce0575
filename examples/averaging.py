"""Local SGD: processes train on their own for some steps, then take the average of their parameters.

    python examples/averaging.py [--processes 4] [--every 1,8,64]

With plain SGD an average after every step is what averaged gradients give (DistributedDataParallel); one after 64 steps sends
64 times less, and each process drifts a little towards its own images. Prints what each costs and reaches on digits.
"""

from __future__ import annotations

import argparse
import os
import socket
import time

from shared import load_digits, say

import facula as torch
import facula.distributed as dist
import facula.multiprocessing as mp
from facula import nn
from facula.nn import functional as F

TRAINED = 1437  # images; the rest are for the test


def average(parameters: list[nn.Parameter]) -> None:
    """Replace the parameters by their averages over all processes, in one message."""
    with torch.no_grad():
        flat = nn.utils.parameters_to_vector(parameters)
        dist.all_reduce(flat, op=dist.ReduceOp.AVG)
        nn.utils.vector_to_parameters(flat, parameters)


def spread(parameters: list[nn.Parameter]) -> float:
    """Return how far apart the processes are: the largest distance of a parameter from its average."""
    with torch.no_grad():
        mine = nn.utils.parameters_to_vector(parameters)
        mean = mine.clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        farthest = (mine - mean).abs().max()
        dist.all_reduce(farthest, op=dist.ReduceOp.MAX)
    return farthest.item()


def train_one(rank: int, mine: torch.Tensor, period: int, epochs: int, seed: int) -> tuple[nn.Module, int, float]:
    """Train on the images `mine`: (the averaged model, how many averages, how far apart processes were before the third)."""
    images, digits = load_digits()
    torch.manual_seed(seed)  # all begin with one model
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    torch.manual_seed(seed + 1 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    parameters, step, apart = list(model.parameters()), 0, 0.0
    for _ in range(epochs):
        for rows in mine[torch.randperm(len(mine))].split(16):
            optimizer.zero_grad()
            F.cross_entropy(model(images[rows]), digits[rows]).backward()
            optimizer.step()
            step += 1
            if step % period == 0:
                apart = spread(parameters) if step == 3 * period else apart
                average(parameters)
    average(parameters)
    return model, step // period, apart


def work(rank: int, processes: int, port: int, every: list[int], epochs: int, seed: int, results) -> None:
    """Run one process: its share of the images, for each period of averaging."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=processes)
    images, digits = load_digits()
    mine = torch.arange(rank, TRAINED // processes * processes, processes)
    for period in every:
        started = time.perf_counter()
        model, averages, apart = train_one(rank, mine, period, epochs, seed)
        seconds = time.perf_counter() - started
        with torch.no_grad():
            right = (model(images[TRAINED:]).argmax(1) == digits[TRAINED:]).float().mean().item()
        if rank == 0:
            results.put((period, averages, apart, seconds, right))
    dist.destroy_process_group()


def main(arguments: list[str] | None = None) -> dict[int, float]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--every", default="1,8,64", help="steps from one average to the next")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    every = [int(period) for period in options.every.split(",")]

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(options.processes, port, every, options.epochs, options.seed, results), nprocs=options.processes)
    reached = {}
    for _ in every:
        period, averages, apart, seconds, right = results.get()
        cost = f"{averages:4d} averages, {apart:.4f} apart before one, {seconds:5.1f} s"
        say(f"every {period:3d} steps: {cost}, test accuracy {right:.1%}")
        reached[period] = right
    return reached


if __name__ == "__main__":
    main()
