"""Trains a convolutional network on handwritten digits: 98 % of the test images right in under a minute on two cores.

    python examples/digits.py [--epochs 15] [--out digits]

Writes OUT.pt, a checkpoint of model and optimizer, and OUT.png, the loss curve and a grid of predictions.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy as np

import facula as torch
from facula import nn
from facula.nn import functional as F
from facula.utils.data import DataLoader, TensorDataset, random_split

DATA = Path(__file__).parent / "data" / "digits.csv.gz"


class Net(nn.Module):
    """Two convolutions and two linear layers over 8x8 grey images."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.hidden = nn.Linear(64 * 4 * 4, 128)
        self.dropout = nn.Dropout(0.25)
        self.output = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.hidden(x.flatten(1)))
        return self.output(self.dropout(x))


def load_digits() -> TensorDataset:
    """All images, (1797, 1, 8, 8) with values from 0 to 1, and their digits."""
    with gzip.open(DATA, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    images = torch.from_numpy(table[:, :64]).reshape(-1, 1, 8, 8) / 16
    return TensorDataset(images, torch.from_numpy(table[:, 64]).long())


def progress(epoch: int, done: int, total: int, loss: float) -> None:
    """One line that fills up, on terminals only."""
    if sys.stderr.isatty():
        filled = 30 * done // total
        bar = "#" * filled + "." * (30 - filled)
        print(f"\repoch {epoch:2d} [{bar}] loss {loss:.4f}", end="", file=sys.stderr)


def train_epoch(model, loader, optimizer, epoch: int) -> list[float]:
    model.train()
    losses = []
    for step, (images, digits) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), digits)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress(epoch, step, len(loader), losses[-1])
    return losses


@torch.no_grad()
def predict(model, loader):
    """Predicted and true digits of a whole data set."""
    model.eval()
    pairs = [(model(images).argmax(1), digits) for images, digits in loader]
    return torch.cat([p for p, _ in pairs]), torch.cat([d for _, d in pairs])


def draw(path: Path, losses: list[float], images, predicted, digits) -> None:
    """The loss curve on the left, forty test images with their predictions on the right, mistakes first and in red."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.3])
    axes = left.subplots()
    axes.semilogy(losses, color="tab:blue", linewidth=0.8)
    axes.set(xlabel="step", ylabel="cross-entropy", title="training loss")
    order = torch.argsort((predicted == digits).long(), stable=True)[:40]
    for cell, i in zip(right.subplots(5, 8).flat, order.tolist()):
        right_answer = predicted[i].item() == digits[i].item()
        cell.imshow(images[i, 0].numpy(), cmap="gray_r")
        cell.set_title(str(predicted[i].item()), fontsize=9, color="black" if right_answer else "red", pad=2)
        cell.axis("off")
    right.suptitle("predictions on test images (mistakes in red)")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments=None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("digits"), help="name of the files written, without ending")
    parser.add_argument("--no-plot", action="store_true", help="do not draw (needs no matplotlib)")
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    train_set, test_set = random_split(load_digits(), [1437, 360])
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=360)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    losses: list[float] = []
    started = time.perf_counter()
    accuracy = 0.0
    for epoch in range(1, options.epochs + 1):
        losses += train_epoch(model, train_loader, optimizer, epoch)
        predicted, digits = predict(model, test_loader)
        accuracy = (predicted == digits).float().mean().item()
        clear = "\r" if sys.stderr.isatty() else ""
        print(f"{clear}epoch {epoch:2d}  loss {np.mean(losses[-len(train_loader):]):.4f}  test accuracy {accuracy:.2%}")
    print(f"{time.perf_counter() - started:.1f} s")

    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, options.out.with_suffix(".pt"))
    if not options.no_plot:
        images = torch.stack([image for image, _ in test_set])
        draw(options.out.with_suffix(".png"), losses, images, predicted, digits)
    return accuracy


if __name__ == "__main__":
    main()
