"""A batch that does not fit and then does: a ResNet-50 within the memory of half its batch, with a picture of a step.

    python examples/memory_budget.py [--batch 16] [--size 160] [--table]

Takes a step with half the batch and measures what it holds at its highest. That much is the memory of the machine from then
on. The whole batch does not fit into it and raises an OutOfMemoryError; within a memory budget of the same size it does, and
its loss and gradients are those of a machine with more memory, to the last bit. Prints what that cost and writes
memory_budget.svg. With --table the same batch is trained at shares of what it would hold, down to where it stops.
"""

from __future__ import annotations

import argparse
import hashlib
import time

from shared import say

import facula as torch
from facula import nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width inside a block, blocks, stride of the first
MIB = 1 << 20


class Bottleneck(nn.Module):
    """Three convolutions, 1x1, 3x3 and 1x1, added to what came in."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.reduce, self.norm1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.spatial, self.norm2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width)
        self.expand, self.norm3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.reduce(x)))
        y = torch.relu(self.norm2(self.spatial(y)))
        return torch.relu(self.norm3(self.expand(y)) + self.shortcut(x))


def resnet50(classes: int) -> nn.Module:
    blocks: list[nn.Module] = []
    channels = 64
    for width, count, stride in STAGES:
        for i in range(count):
            blocks.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = 4 * width
    stem = [nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Training:
    """A model and a batch of noise; a step always begins with the same parameters."""

    def __init__(self, batch: int, size: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = resnet50(10)
        self.images, self.labels = torch.randn(batch, 3, size, size), torch.randint(10, (batch,))

    def step(self, items: int) -> tuple[float, float]:
        """Run forward and backward of the first `items` of the batch; return (loss, seconds of the processor)."""
        self.model.zero_grad()
        begun = time.process_time()
        loss = nn.functional.cross_entropy(self.model(self.images[:items]), self.labels[:items])
        loss.backward()
        return loss.item(), time.process_time() - begun

    def highest(self, items: int) -> tuple[int, float, bytes]:
        """Return what a step holds at its highest, its seconds, and its gradients() after it."""
        self.step(1)  # what is set up by a first step
        self.model.zero_grad()
        torch.cpu.empty_cache()
        torch.cpu.reset_peak_memory_stats()
        self.step(items)
        highest = torch.cpu.max_memory_allocated()
        _, seconds = self.step(items)  # with pages that the first one has got from the system
        return highest, seconds, self.gradients()

    def gradients(self) -> bytes:
        """Return a hash of all bits of all gradients."""
        found = hashlib.sha256()
        for p in self.model.parameters():
            if p.grad is not None:
                found.update(p.grad.clone().numpy().tobytes())
        return found.digest()


def table(training: Training, batch: int, peak: int, plain: float, gradients: bytes) -> None:
    say(f"\nbatch {batch} at shares of the {peak / MIB:.0f} MiB that it holds without a budget:")
    for share in range(90, 0, -10):
        try:
            with torch.cpu.memory_budget(peak * share // 100):
                _, seconds = training.step(batch)
        except torch.OutOfMemoryError as error:
            say(f"{share:4d} %  does not go: {error}")
            return
        same = "the same bits" if training.gradients() == gradients else "other bits"
        say(f"{share:4d} %  {peak * share // 100 / MIB:6.0f} MiB  {seconds / plain - 1:+6.1%} time  {same}")


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=160, help="pixels of an image's side")
    parser.add_argument("--table", action="store_true", help="the whole batch at shares of its peak")
    parser.add_argument("--out", default="memory_budget.svg")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    training = Training(options.batch, options.size, options.seed)

    memory, _, _ = training.highest(options.batch // 2)
    peak, plain, gradients = training.highest(options.batch)
    say(f"batch {options.batch // 2} holds {memory / MIB:.0f} MiB, batch {options.batch} {peak / MIB:.0f} MiB")

    torch.cpu.set_memory_limit(memory)
    try:
        training.step(options.batch)
        say("the whole batch fits all the same")
    except torch.OutOfMemoryError as error:
        say(f"in the memory of half the batch: {error}")
    finally:
        torch.cpu.set_memory_limit(None)

    with torch.cpu.memory_budget(memory) as budget:
        _, seconds = training.step(options.batch)
        same = "the same to the last bit" if training.gradients() == gradients else "not the same"
        say(f"within a budget of that: {seconds / plain - 1:+.1%} time, gradients {same}")
        print(budget.summary())
        budget.picture(options.out)
        say(f"wrote {options.out}")
    if options.table:
        table(training, options.batch, peak, plain, gradients)
    return seconds / plain


if __name__ == "__main__":
    main()
