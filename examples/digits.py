"""Trains a convolutional network on handwritten digits: 98 % of the test images right in under a minute on two cores.

    python examples/digits.py [--epochs 15] [--out digits]

Prints the accuracy after each epoch. Writes OUT.pt, a checkpoint of model and optimizer, and OUT.png: the loss curve,
the accuracy, and predictions on test images.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from shared import load_digits, progress, pyplot, say

import facula as torch
from facula import nn
from facula.nn import functional as F
from facula.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    """Two convolutions and two linear layers over 8x8 grey images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.hidden = nn.Linear(64 * 4 * 4, 128)
        self.dropout = nn.Dropout(0.25)
        self.output = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.hidden(x.flatten(1)))
        return self.output(self.dropout(x))


def train_epoch(model: Net, loader: DataLoader, optimizer: torch.optim.Optimizer, epoch: int) -> list[float]:
    """Make one pass over the training images; return the loss of every step."""
    model.train()
    losses: list[float] = []
    for step, (images, digits) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), digits)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress(f"epoch {epoch:2d}", step, len(loader), f"loss {losses[-1]:.4f}")
    return losses


@torch.no_grad()
def probabilities(model: Net, images: torch.Tensor) -> torch.Tensor:
    """Return how likely each digit is for each image, (N, 10)."""
    model.eval()
    return torch.cat([model(part).softmax(1) for part in images.split(256)])


INK, MUTED, RIGHT, WRONG = "#22313f", "#8395a7", "#2e86c1", "#c0392b"


def draw(path: Path, losses: list[float], accuracies: list[float], images, digits, chances) -> bool:
    """Draw loss and accuracy on the left; on the right forty test images, those least sure first."""
    plt = pyplot()
    if plt is None:
        return False
    plt.rcParams.update({"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED,
                         "xtick.color": MUTED, "ytick.color": MUTED, "axes.spines.top": False,
                         "axes.spines.right": False})  # fmt: skip
    figure = plt.figure(figsize=(13, 6))
    upper, lower = figure.add_gridspec(
        2, 1, height_ratios=[3, 2], left=0.05, right=0.38, top=0.92, bottom=0.08, hspace=0.2
    ).subplots(sharex=True)
    cells = figure.add_gridspec(5, 8, left=0.42, right=0.99, top=0.88, bottom=0.02, wspace=0.08, hspace=0.3).subplots()
    draw_curves(upper, lower, losses, accuracies)
    count = draw_predictions(cells.flat, images, digits, chances)
    title = f"predictions on test images: {count} of {len(digits)} wrong (red), then the least sure"
    figure.text(0.42, 0.945, title, fontsize=12)
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)
    return True


def draw_curves(upper, lower, losses: list[float], accuracies: list[float]) -> None:
    steps_per_epoch = len(losses) // len(accuracies)
    window = max(steps_per_epoch // 2, 1)
    smooth = torch.tensor(losses).unfold(0, window, 1).mean(1).tolist()
    epochs = [(i + 1) / steps_per_epoch for i in range(len(losses))]
    upper.semilogy(epochs, losses, color=RIGHT, alpha=0.3, linewidth=0.7, label="each step")
    upper.semilogy(epochs[window // 2 :][: len(smooth)], smooth, color=RIGHT, linewidth=2, label=f"mean of {window} steps")
    upper.set_title("training loss (cross-entropy)", loc="left")
    upper.legend(frameon=False)
    percent = [100 * accuracy for accuracy in accuracies]
    lower.plot(range(1, len(percent) + 1), percent, color=INK, marker="o", markersize=4)
    lower.axhline(98, color=MUTED, linestyle=":", linewidth=1)
    lower.annotate(f"{percent[-1]:.1f}", (len(percent), percent[-1]), xytext=(0, 8), textcoords="offset points", ha="center")
    lower.set_ylim(min(90, *percent) - 1, 102)
    lower.set_title("test accuracy (%)", loc="left")
    lower.set_xlabel("epoch")
    for axes in (upper, lower):
        axes.grid(axis="y", color=MUTED, alpha=0.25, linewidth=0.6)


def draw_predictions(cells, images, digits, chances) -> int:
    """Draw one image to a cell, mistakes first, then the least sure; return how many mistakes there are."""
    chance, predicted = chances.max(1)
    wrong = predicted != digits
    order = torch.argsort(chance - wrong.long(), stable=True)[:40].tolist()
    for cell, i in zip(cells, order):
        cell.imshow(images[i, 0].numpy(), cmap="Greys", interpolation="bicubic", vmin=0, vmax=1)
        told = f"{predicted[i].item()}, is {digits[i].item()}" if wrong[i] else str(predicted[i].item())
        cell.set_title(f"{told}  {chance[i].item():.0%}", fontsize=9, color=WRONG if wrong[i] else INK, pad=3)
        cell.set(xticks=[], yticks=[])
        for side in cell.spines.values():
            side.set(visible=True, color=WRONG if wrong[i] else "#dfe6e9", linewidth=2 if wrong[i] else 1)
    return int(wrong.sum())


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("digits"), help="name of the files written, without ending")
    parser.add_argument("--no-plot", action="store_true", help="do not draw (needs no matplotlib)")
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    train_set, test_set = random_split(TensorDataset(*load_digits()), [1437, 360])
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    images, digits = (torch.stack(parts) for parts in zip(*test_set))
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    losses: list[float] = []
    accuracies: list[float] = []
    started = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        losses += train_epoch(model, train_loader, optimizer, epoch)
        chances = probabilities(model, images)
        accuracies.append((chances.argmax(1) == digits).float().mean().item())
        mean = sum(losses[-len(train_loader) :]) / len(train_loader)
        say(f"epoch {epoch:2d}  loss {mean:.4f}  test accuracy {accuracies[-1]:.2%}")
    say(f"{time.perf_counter() - started:.1f} s")

    checkpoint = options.out.with_suffix(".pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
    say(f"wrote {checkpoint}")
    picture = options.out.with_suffix(".png")
    if not options.no_plot and draw(picture, losses, accuracies, images, digits, chances):
        say(f"wrote {picture}")
    return accuracies[-1]


if __name__ == "__main__":
    main()
