"""A character model whose parameters, gradients and optimizer state are spread over processes by `fully_shard`.

    python -m facula.distributed.run --standalone --nproc-per-node 2 examples/fsdp_text.py [TEXT]
    python examples/fsdp_text.py [--steps 100] [--out fsdp_text]

A process keeps its part of each parameter; a block's are put together when forward or backward comes to it, and let go after.
Learns from TEXT, by default the Python sources of facula.nn, prints what a process holds, and writes a checkpoint into the
folder OUT, each process its part, which one process then reads into a model of one piece.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import Any

from char_gpt import CharGPT, evaluate, loss_of, read
from shared import say

import facula as torch
import facula.distributed as dist
from facula.distributed import checkpoint
from facula.distributed.fsdp import fully_shard
from facula.distributed.tensor import DTensor


def join_group() -> None:
    """Join the processes that the launcher started, or this one alone."""
    alone: dict[str, Any] = {} if "RANK" in os.environ else {"init_method": "tcp://127.0.0.1:0", "rank": 0, "world_size": 1}
    dist.init_process_group("gloo", **alone)


def held(model: CharGPT, optimizer: torch.optim.Optimizer) -> int:
    """Return the numbers that this process keeps between steps: its parts of parameters and optimizer state."""
    tensors = [*model.parameters(), *(t for state in optimizer.state.values() for t in state.values())]
    return sum((t.to_local() if isinstance(t, DTensor) else t).numel() for t in tensors if isinstance(t, torch.Tensor))


def train(model: CharGPT, optimizer: torch.optim.Optimizer, text: torch.Tensor, steps: int, batch: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, text, batch).backward()  # each process draws its own pieces; gradients are averaged and scattered
        optimizer.step()


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path, nargs="?", help="a text file")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16, help="pieces of text in each process's step")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fsdp_text"))
    options = parser.parse_args(arguments)

    join_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    text = read(options.text)
    characters = sorted(set(text))
    codes = torch.tensor([characters.index(c) for c in text])
    known, held_out = codes[: len(codes) * 9 // 10], codes[len(codes) * 9 // 10 :]

    def make() -> CharGPT:
        torch.manual_seed(options.seed)
        return CharGPT(len(characters), context=32, width=options.width, layers=3, heads=4, dropout=0.0)

    model = make()
    whole = sum(p.numel() for p in model.parameters())
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)  # what is in no block
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(options.seed + 1 + rank)
    train(model, optimizer, known, options.steps, options.batch)
    torch.manual_seed(options.seed)
    bits = evaluate(model, held_out)
    if rank == 0:
        say(f"held out {bits:.2f} bits per character, a guess {math.log2(len(characters)):.2f}")
        say(f"a process of {size} holds {held(model, optimizer):,} numbers, one alone would {3 * whole:,}")

    checkpoint.save({"model": model.state_dict()}, checkpoint_id=options.out)
    dist.destroy_process_group()
    if rank == 0:
        again = make()
        checkpoint.load({"model": again.state_dict()}, checkpoint_id=options.out, no_dist=True)
        torch.manual_seed(options.seed)
        say(f"read from {options.out} into one piece: {evaluate(again, held_out):.2f} bits per character")
    return bits


if __name__ == "__main__":
    main()
