"""The digits in several processes: each sees its part of the images, gradients are averaged, the model is the same in all.

    python -m facula.distributed.run --standalone --nproc-per-node 2 examples/ddp_digits.py
    python examples/ddp_digits.py [--epochs 8] [--out ddp_digits.pt]

The launcher says how many processes there are and which one this is; without it there is one. Prints the accuracy after each
epoch, of all processes together, and writes OUT: a checkpoint that needs no process group.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from digits import Net
from shared import load_digits, say

import facula as torch
import facula.distributed as dist
from facula.nn import functional as F
from facula.nn.parallel import DistributedDataParallel
from facula.utils.data import DataLoader, DistributedSampler, TensorDataset

TRAINED = 1437  # images; the rest are for the test


def count_right(model: torch.nn.Module, loader: DataLoader) -> torch.Tensor:
    """Return [images that are told right, images], of all processes."""
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for images, digits in loader:
            counts += torch.tensor([(model(images).argmax(1) == digits).sum().item(), len(digits)])
    dist.all_reduce(counts)
    return counts


def train_epoch(model: DistributedDataParallel, loader: DataLoader, optimizer: torch.optim.Optimizer) -> None:
    model.train()
    for images, digits in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(images), digits).backward()  # averages gradients as they come
        optimizer.step()


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32, help="images of a step, of all processes together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("ddp_digits.pt"))
    options = parser.parse_args(arguments)

    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(options.seed)  # rank 0's parameters are everybody's, but each draws its own dropout
    images, digits = load_digits()
    train_set, test_set = (TensorDataset(images[part], digits[part]) for part in (slice(TRAINED), slice(TRAINED, None)))
    sampler: DistributedSampler = DistributedSampler(train_set, seed=options.seed)
    loader = DataLoader(train_set, batch_size=max(1, options.batch // size), sampler=sampler)
    mine = range(rank, len(test_set), size)
    test_loader: DataLoader = DataLoader(torch.utils.data.Subset(test_set, mine), batch_size=128)
    model = DistributedDataParallel(Net())
    torch.manual_seed(options.seed + rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    started, share = time.perf_counter(), 0.0
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        train_epoch(model, loader, optimizer)
        right, total = count_right(model, test_loader).tolist()
        share = right / total
        if rank == 0:
            say(f"epoch {epoch:2d}  test accuracy {share:.2%} of {total:.0f} images in {size} processes")
    if rank == 0:
        torch.save(model.module.state_dict(), options.out)
        say(f"{time.perf_counter() - started:.1f} s, wrote {options.out}")
    dist.destroy_process_group()
    return share


if __name__ == "__main__":
    main()
