"""Measure what observation costs: `a + b` without, with an empty observer, and profiled; a ResNet-18 training step with
the profiler.

    python benchmarks/profiler.py [--repeats N] [--json FILE]

Repeats alternate between the two sides; ratios are of medians (minima for `a + b`). The share of the step that is named is
the time of its outermost events over the step's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import facula as torch
from facula import nn
from facula.profiler import profile, record_function


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.down = None
        if stride != 1 or inside != outside:
            self.down = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.down is None else self.down(x)))


def resnet18(classes=1000):
    """Return the network of He et al. 2015, table 1."""
    stages, inside = [], 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        stages += [Block(inside, outside, stride), Block(outside, outside, 1)]
        inside = outside
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def training_step(batch, size):
    model, loss = resnet18(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(batch, 3, size, size), torch.randint(1000, (batch,))

    def step():
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return step


def timed(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def profiled(step, kept, **options):
    def run():
        with profile(**options) as p:
            with record_function("step"):
                step()
        kept.append(p)

    return run


def named_share(p):
    """Return, of the time of "step", what its outermost events cover."""
    (step,) = (e for e in p.events() if e.name == "step")
    return sum(child.cpu_time_total for child in step.cpu_children) / step.cpu_time_total


def add_times(repeats):
    """Return the nanoseconds of a + b: unwatched, with an empty observer, while a profile records."""
    a, b, count = torch.ones(4), torch.ones(4), 200_000

    def loop():
        for _ in range(count):
            a + b

    def empty():
        torch._C._set_empty_observer(True)
        try:
            return timed(loop)
        finally:
            torch._C._set_empty_observer(False)

    def recorded():
        with profile():
            return timed(loop)

    rows = [(timed(loop), empty(), recorded()) for _ in range(repeats)]
    return [min(column) / count * 1e9 for column in zip(*rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--json")
    options = parser.parse_args()
    plain, empty, recorded = add_times(options.repeats)
    result = {"a+b": {"unwatched_ns": plain, "empty_observer": empty / plain, "profiled": recorded / plain}}
    print(f"a + b: {plain:.1f} ns; with an empty observer {empty / plain:.2f} times, profiled {recorded / plain:.2f} times")
    step = training_step(options.batch, options.size)
    step()
    for name, switches in (
        ("profile", {}),
        ("profile with shapes, memory, stacks", {"record_shapes": True, "profile_memory": True, "with_stack": True}),
    ):
        kept = []
        rows = [(timed(step), timed(profiled(step, kept, **switches))) for _ in range(options.repeats)]
        ratio = statistics.median(r[1] for r in rows) / statistics.median(r[0] for r in rows)
        share = statistics.median(named_share(p) for p in kept)
        result[name] = {"time": ratio, "named": share, "events": len(kept[-1].events())}
        print(f"ResNet-18 step, {name}: {ratio:.3f} of the time; {100 * share:.1f} % named; {len(kept[-1].events())} events")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
