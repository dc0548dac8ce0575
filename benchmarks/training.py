"""Measure training steps, optimizers, data loading and checkpoints: ratio of times (or bytes) PyTorch / Facula.

    python benchmarks/training.py [--only TEXT] [--repeat 7] [--json FILE]

Needs PyTorch beside Facula. Steps run by turns in one process, with one thread and with two; a time is the minimum over the
repeats. Memory, data loading and checkpoints run by turns in processes of their own. Only the ratio means anything.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

LIBRARIES = ("torch", "facula")  # imported where they are used: some rows run in a process with one of them

# ---- steps: f(m) gives a function that does one step in library m


def trainer(m, model, inputs, loss_of, optimizer=None):
    optimizer = optimizer or m.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss_of(model(*inputs)).backward()
        optimizer.step()

    return step


def square(output):
    return (output[0] if isinstance(output, tuple) else output).square().mean()


def classes(m, batch, count):
    target = m.arange(batch) % count
    return lambda output: m.nn.functional.cross_entropy(output, target)


def mlp(m):
    nn = m.nn
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return trainer(m, model, [m.randn(128, 784)], classes(m, 128, 10))


def tiny_mlp(m):
    nn = m.nn
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    return trainer(m, model, [m.randn(1, 8)], square)


def digits_net(m):
    nn = m.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10),
    )  # fmt: skip
    return trainer(m, model, [m.rand(64, 1, 8, 8)], classes(m, 64, 10), m.optim.Adam(model.parameters()))


def resnet_block(m):
    nn = m.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.Conv2d(64, 64, 3, padding=1, bias=False)
            self.n, self.o = nn.BatchNorm2d(64), nn.BatchNorm2d(64)

        def forward(self, x):
            return m.relu(x + self.o(self.b(m.relu(self.n(self.a(x))))))

    return trainer(m, Block(), [m.randn(8, 64, 28, 28)], square)


def mobilenet_block(m):
    nn = m.nn
    deep = nn.Conv2d(128, 128, 3, padding=1, groups=128)
    model = nn.Sequential(nn.Conv2d(32, 128, 1), nn.BatchNorm2d(128), nn.ReLU6(), deep, nn.BatchNorm2d(128), nn.ReLU6(),
                          nn.Conv2d(128, 32, 1))  # fmt: skip
    return trainer(m, model, [m.randn(8, 32, 28, 28)], square)


def residual(m, *layers):
    """Return two convolutions and what stands between them, around which the input goes."""

    class Residual(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = m.nn.Sequential(*layers)

        def forward(self, x):
            return x + self.layers(x)

    return Residual()


def stacked(m, block):
    """Stack layers behind a convolution, whose results have the layout that the library likes."""
    model = m.nn.Sequential(m.nn.Conv2d(3, 64, 3, padding=1), block(), block())
    return trainer(m, model, [m.randn(4, 3, 64, 64)], square)


def diffusion_blocks(m):
    nn = m.nn
    return stacked(m, lambda: residual(m, nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 64, 3, padding=1), nn.GroupNorm(8, 64),
                                       nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(64, 64, 3, padding=1)))  # fmt: skip


def translation_blocks(m):
    nn = m.nn
    return stacked(m, lambda: residual(m, nn.ReflectionPad2d(1), nn.Conv2d(64, 64, 3), nn.InstanceNorm2d(64), nn.ReLU(),
                                       nn.ReflectionPad2d(1), nn.Conv2d(64, 64, 3), nn.InstanceNorm2d(64)))  # fmt: skip


def dense_blocks(m):
    nn = m.nn

    class Dense(nn.Module):
        def __init__(self, inputs):
            super().__init__()
            self.layers = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 64, 1, bias=False),
                                        nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 16, 3, padding=1, bias=False))  # fmt: skip

        def forward(self, x):
            return m.cat([x, self.layers(x)], 1)

    widths = iter((64, 80))
    return stacked(m, lambda: Dense(next(widths)))


def patch_embedding(m):
    return trainer(m, m.nn.Conv2d(3, 192, 16, 16), [m.randn(8, 3, 128, 128)], square)


def lstm(m):
    return trainer(m, m.nn.LSTM(64, 128), [m.randn(32, 16, 64)], square)


def gru(m):
    return trainer(m, m.nn.GRU(64, 128, num_layers=2), [m.randn(32, 16, 64)], square)


def encoder_layer(m):
    return trainer(m, m.nn.TransformerEncoderLayer(256, 8, 1024, 0.0, batch_first=True), [m.randn(8, 128, 256)], square)


def optimizer_step(name, **options):
    def made(m):
        sizes = [(1024, 1024)] * 23 + [(1024,)] * 46 + [(512, 512)] * 2
        params = [m.zeros(*size).requires_grad_() for size in sizes]
        for p in params:
            p.grad = m.full_like(p, 1e-3)
        return getattr(m.optim, name)(params, lr=1e-3, fused=True, **options).step

    return made


STEPS = {
    "MLP 784-512-512-10, batch 128": mlp,
    "MLP of 3 layers, batch 1": tiny_mlp,
    "digits network, batch 64, Adam": digits_net,
    "ResNet block 64 channels 28x28, batch 8": resnet_block,
    "MobileNet block 28x28, batch 8": mobilenet_block,
    "two diffusion blocks (group norm, dropout) 64x64, batch 4": diffusion_blocks,
    "two CycleGAN blocks (reflection, instance norm) 64x64, batch 4": translation_blocks,
    "two DenseNet blocks 64x64, batch 4": dense_blocks,
    "patch embedding 16x16, batch 8": patch_embedding,
    "LSTM 64-128, 32 steps, batch 16": lstm,
    "GRU 64-128, 2 layers, 32 steps, batch 16": gru,
    "Transformer encoder layer 256, 8 x 128 tokens": encoder_layer,
    "SGD step, 25 M parameters": optimizer_step("SGD", momentum=0.9),
    "Adam step, 25 M parameters": optimizer_step("Adam"),
    "AdamW step, 25 M parameters": optimizer_step("AdamW"),
}


def seconds(step, number: int, clock) -> float:
    start = clock()
    for _ in range(number):
        step()
    return (clock() - start) / number


def time_step(make, threads: int, repeat: int) -> dict[str, float]:
    clock = time.process_time if threads == 1 else time.perf_counter  # alone on its thread: what others take is not counted
    steps = {}
    for m in map(importlib.import_module, LIBRARIES):
        m.set_num_threads(threads)
        m.manual_seed(0)
        steps[m.__name__] = make(m)
        # The first step, which takes memory and fills caches, is not measured.
        steps[m.__name__]()
    number = max(1, int(0.02 / max(seconds(steps["torch"], 1, time.perf_counter), 1e-6)))
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(repeat):
        for name, step in steps.items():
            best[name] = min(best[name], seconds(step, number, clock))
    return best


# ---- in processes of their own: f(m) prints one number, the less the better


def own_memory() -> int:
    """Return KiB that only this process holds."""
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("Private_Clean", "Private_Dirty")))


class Items:
    """Hold small items; every 5000th also reports the memory of the worker that made it."""

    def __init__(self, m, watched):
        self.m, self.watched = m, watched

    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        return self.m.tensor([float(i), 1.0]), own_memory() if self.watched and i % 5000 < 64 else 0


def epochs_of_items(m, count, watched):
    data = importlib.import_module(m.__name__ + ".utils.data")
    loader = data.DataLoader(Items(m, watched), batch_size=64, num_workers=4, persistent_workers=True)
    for _ in range(count):
        start, most = time.perf_counter(), 0
        for _, memory in loader:
            most = max(most, int(memory.max()))
        yield time.perf_counter() - start, most


def loading(m):
    """Return the microseconds per item with 4 workers, the second epoch."""
    return list(epochs_of_items(m, 2, False))[1][0] / 100_000 * 1e6


def worker_growth(m):
    """Return MiB that the largest worker gains from the first to the third epoch."""
    memories = [memory for _, memory in epochs_of_items(m, 3, True)]
    return (memories[2] - memories[0]) / 1024


def mapped_load(m):
    """Return the milliseconds to load a checkpoint of 1 GiB with mmap=True."""
    return checkpoint(m, 1 << 28)


def mapped_load_small(m):
    """Return the milliseconds to load a checkpoint of 1 MiB with mmap=True."""
    return checkpoint(m, 1 << 18)


def checkpoint(m, numel):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        m.save({"weight": m.zeros(numel)}, path)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            state = m.load(path, mmap=True)
            times.append(time.perf_counter() - start)
            del state
    return min(times) * 1e3


APART = {
    "DataLoader, 4 workers, 100,000 items (us per item)": loading,
    "growth of DataLoader workers over 3 epochs (MiB)": worker_growth,
    "load(mmap=True) of 1 MiB (ms)": mapped_load_small,
    "load(mmap=True) of 1 GiB (ms)": mapped_load,
}


def run_apart(name: str, repeat: int) -> dict[str, float]:
    best = dict.fromkeys(LIBRARIES, float("inf"))
    for _ in range(repeat):
        for module in best:
            command = [sys.executable, __file__, "--apart", name, "--module", module]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            best[module] = min(best[module], float(out.split()[-1]))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression that a row must match")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--apart", help=argparse.SUPPRESS)
    parser.add_argument("--module", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.apart:
        m = importlib.import_module(options.module)
        m.set_num_threads(1)
        print(APART[options.apart](m))
        return
    rows = []

    def report(name, threads, best):
        ratio = best["torch"] / best["facula"] if best["facula"] > 0 else float("nan")
        rows.append({"row": name, "threads": threads, **best, "ratio": ratio})
        times = f"torch {best['torch']:12.6g}   facula {best['facula']:12.6g}"
        print(f"{name:52} {threads} threads   {times}   ratio {ratio:6.2f}", flush=True)

    for name, make in STEPS.items():
        for threads in (1, 2):
            if re.search(options.only, name):
                report(name, threads, time_step(make, threads, options.repeat))
    for name in APART:
        if re.search(options.only, name):
            report(name, 1, run_apart(name, min(options.repeat, 2)))
    if options.json:
        from machine import describe

        with open(options.json, "w") as file:
            json.dump({"machine": describe(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
