"""Where the time of a training step goes: a small residual network on the bundled digits, profiled, drawn and explained.

    python examples/timeline.py [--out timeline] [--device cuda]

Writes timeline.json (open it at https://ui.perfetto.dev), timeline.png (ranges, ops, kernels and the work of the pool's
threads over time, with the bytes that the allocator handed out) and memory.png (which lines hold memory; of the CPU), and
prints the table of ops. With --device cuda there are rows of the device, too: the host queues ops and runs ahead of them
(figure 1 of the PyTorch paper); FACULA_CUDA=emulated shows it without a GPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from shared import load_digits, pyplot

import facula as torch
from facula import nn
from facula.autograd._recording import Recording
from facula.autograd.profiler_util import FunctionEvent
from facula.profiler import profile, record_function


class Residual(nn.Module):
    """x + f(x), f two normalized convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.f(x))


def make_model() -> nn.Module:
    stem = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), Residual(32), nn.MaxPool2d(2)]
    return nn.Sequential(*stem, Residual(32), nn.Flatten(), nn.Linear(32 * 16, 10))


def train(model: nn.Module, loader: torch.utils.data.DataLoader, steps: int, device: str) -> None:
    loss_of, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _, (images, labels) in zip(range(steps), loader):
        with record_function("forward"):
            loss = loss_of(model(images.to(device)), labels.to(device))
        with record_function("backward"):
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()


LANES = (("range", "program"), ("op", "ops"), ("node", "backward"), ("kernel", "kernels"), ("work", "pool threads"))


def rows_of(recording: Recording) -> list[tuple[str, list[FunctionEvent]]]:
    """Return what stands in a row of bars: events of one kind and thread of the host, and of one stream of a device."""
    everything = [*recording.events, *recording.details]
    rows = []
    for kind, title in LANES:
        threads = sorted({e.thread for e in everything if e.kind == kind})
        for thread in threads:
            name = title if len(threads) == 1 else f"{title} {thread}"
            rows.append((name, [e for e in everything if e.kind == kind and e.thread == thread]))
    for (device, _), number in recording.streams.items():
        on_stream = [e for e in everything if e.kind == "device" and (e.device_index, e.device_resource_id) == (device, number)]
        rows.append((f"cuda:{device} stream {number}", on_stream))
    return rows


def draw(recording: Recording, path: Path) -> None:
    """Draw one row of bars per kind of event and thread, above the bytes that live."""
    plots = pyplot()
    if plots is None:
        return
    everything = [*recording.events, *recording.details]
    start, end = min(e.time_range.start for e in everything), max(e.time_range.end for e in everything)
    rows = rows_of(recording)
    figure, (top, bottom) = plots.subplots(
        2, figsize=(14, 2.6 + 0.55 * len(rows)), sharex=True, layout="constrained", height_ratios=[0.55 * len(rows), 1.8]
    )
    colors = plots.get_cmap("tab20")
    names: dict[str, int] = {}
    for y, (_, events) in enumerate(rows):
        bars = [((e.time_range.start - start) / 1e3, max(e.time_range.elapsed_us() / 1e3, 1e-3)) for e in events]
        shades = [colors(names.setdefault(e.name.split("#")[0], len(names)) % 20) for e in events]
        top.broken_barh(bars, (y - 0.4, 0.8), facecolors=shades)
        for event, (left, width) in zip(events, bars):
            if width > 0.04 * (end - start) / 1e3:
                text = event.name.removeprefix("aten::").removeprefix("autograd::engine::evaluate_function: ")
                top.text(left + width / 2, y, text, ha="center", va="center", fontsize=7, clip_on=True)
    top.set_yticks(range(len(rows)), [name for name, _ in rows])
    top.invert_yaxis()
    place = "a CUDA device" if recording.streams else "the CPU"
    top.set_title(f"Training steps on {place}: who works when")
    changes = sorted((recording.device_memory or recording.memory), key=lambda change: change[0])
    total, times, totals = 0, [], []
    for when, _, _, nbytes, _, _ in changes:
        total += nbytes
        times.append((when - start) / 1e3)
        totals.append(total / 2**20)
    bottom.step(times, totals, where="post")
    bottom.set(xlabel="ms", ylabel="MiB since the start")
    figure.savefig(path, dpi=110)
    plots.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the files")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    images, labels = load_digits()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=options.batch, shuffle=True)
    model = make_model().to(options.device)
    train(model, loader, 1, options.device)  # first calls load libraries and compile kernels
    torch.cpu.record_memory_history()
    try:
        with profile(record_shapes=True, profile_memory=True, with_flops=True) as p:
            train(model, loader, options.steps, options.device)
    finally:
        torch.cpu.record_memory_history(None)
    key = "self_cpu_time_total" if options.device == "cpu" else "self_cuda_time_total"
    print(p.key_averages().table(sort_by=key, row_limit=12))
    p.export_chrome_trace(str(options.out / "timeline.json"))
    draw(p.profiler.recording, options.out / "timeline.png")
    if pyplot() is not None:
        torch.cpu.memory_picture(options.out / "memory.png")
    print(f"Wrote timeline.json, timeline.png and memory.png to {options.out}")


if __name__ == "__main__":
    main()
