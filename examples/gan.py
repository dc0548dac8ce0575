"""Trains two networks against each other on handwritten digits: the generative adversarial step of the NeurIPS 2019 paper.

    python examples/gan.py [--steps 600] [--out gan]

The discriminator learns to tell real images from generated ones; the generator learns to be taken for real. They are
two models with two optimizers and two losses in one step, which ordinary Python says as it is. Prints how the
discriminator judges both kinds, and writes OUT.png: what the generator draws from fixed noise as it learns.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from shared import load_digits, progress, pyplot, say

import facula as torch
from facula import nn
from facula.nn import functional as F

NOISE = 32


def create_generator() -> nn.Module:
    """Return a network from (N, NOISE, 1, 1) to images (N, 1, 8, 8) from 0 to 1."""
    return nn.Sequential(
        nn.ConvTranspose2d(NOISE, 64, 2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
        nn.Sigmoid(),
    )


def create_discriminator() -> nn.Module:
    """Return a network from images to one logit each: how likely they are real."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * 4 * 4, 1),
        nn.Flatten(0),
    )


def get_noise(count: int) -> torch.Tensor:
    return torch.randn(count, NOISE, 1, 1)


class Trainer:
    """Both networks, and the step that trains them."""

    def __init__(self, rate: float) -> None:
        self.generator = create_generator()
        self.discriminator = create_discriminator()
        self.generator_optimizer = torch.optim.Adam(self.generator.parameters(), lr=rate, betas=(0.5, 0.999))
        self.discriminator_optimizer = torch.optim.Adam(self.discriminator.parameters(), lr=rate, betas=(0.5, 0.999))

    def step(self, real: torch.Tensor) -> tuple[float, float]:
        """Make one step of each network; return the losses of discriminator and generator."""
        ones, zeros = torch.ones(len(real)), torch.zeros(len(real))

        self.discriminator_optimizer.zero_grad()
        fake = self.generator(get_noise(len(real)))
        real_loss = F.binary_cross_entropy_with_logits(self.discriminator(real), 0.9 * ones)
        real_loss.backward()
        fake_loss = F.binary_cross_entropy_with_logits(self.discriminator(fake.detach()), zeros)
        fake_loss.backward()
        self.discriminator_optimizer.step()

        self.generator_optimizer.zero_grad()
        generator_loss = F.binary_cross_entropy_with_logits(self.discriminator(fake), ones)
        generator_loss.backward()
        self.generator_optimizer.step()
        return real_loss.item() + fake_loss.item(), generator_loss.item()

    @torch.no_grad()
    def draw(self, noise: torch.Tensor) -> torch.Tensor:
        """Draw images from noise, with the running statistics."""
        self.generator.eval()
        images = self.generator(noise)
        self.generator.train()
        return images

    @torch.no_grad()
    def judge(self, images: torch.Tensor) -> float:
        """Return how likely real the discriminator finds the images, on average."""
        self.discriminator.eval()
        chance = self.discriminator(images).sigmoid().mean().item()
        self.discriminator.train()
        return chance


def nearest(images: torch.Tensor, real: torch.Tensor) -> float:
    """Return the mean distance from an image to the nearest real one, per pixel (root mean square)."""
    return (torch.cdist(images.flatten(1), real.flatten(1)).min(1).values / 8).mean().item()


def draw(path: Path, history: list[tuple[int, torch.Tensor]], real: torch.Tensor) -> bool:
    """Draw blocks of images side by side: the generator's at some steps, then real ones."""
    plt = pyplot()
    if plt is None:
        return False
    blocks = [(f"step {step}", images) for step, images in history] + [("real", real)]
    figure, axes = plt.subplots(1, len(blocks), figsize=(2.6 * len(blocks), 2.9), layout="constrained")
    for cell, (title, images) in zip(axes, blocks):
        framed = F.pad(images[:36], (1, 1, 1, 1)).reshape(6, 6, 10, 10)
        cell.imshow(framed.transpose(1, 2).reshape(60, 60).numpy(), cmap="magma", vmin=0, vmax=1)
        cell.set_title(title)
        cell.axis("off")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return True


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate of both networks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("gan"), help="name of the picture, without ending")
    parser.add_argument("--no-plot", action="store_true", help="do not draw (needs no matplotlib)")
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    real, _ = load_digits()
    trainer = Trainer(options.rate)
    fixed = get_noise(360)
    before = nearest(trainer.draw(fixed), real)
    shown = {options.steps // 10, options.steps * 4 // 10, options.steps}
    history = [(0, trainer.draw(fixed))]
    for step in range(1, options.steps + 1):
        batch = real[torch.randint(len(real), (options.batch,))]
        losses = trainer.step(batch)
        progress("step", step, options.steps, "discriminator {:.3f}  generator {:.3f}".format(*losses))
        if step % max(options.steps // 5, 1) == 0:
            fake = trainer.draw(fixed)
            say(f"step {step:5d}  taken for real: real images {trainer.judge(real):.2f}, generated {trainer.judge(fake):.2f}")
        if step in shown:
            history.append((step, trainer.draw(fixed)))

    after = nearest(trainer.draw(fixed), real)
    say(f"distance of a generated image to the nearest real one: {before:.3f} before training, {after:.3f} after")
    picture = options.out.with_suffix(".png")
    if not options.no_plot and draw(picture, history, real[torch.randperm(len(real))[:36]]):
        say(f"wrote {picture}")
    return after / before


if __name__ == "__main__":
    main()
