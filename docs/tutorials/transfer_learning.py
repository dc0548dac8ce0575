# %% [markdown]
# # Transfer learning
#
# A network that has learned to tell digits apart needs few labels for another question: its layers are frozen or tuned.
#
# Labels are expensive, but features can be used again: what a network has learned about strokes and loops is useful for
# the next task. This program has a thousand noisy images with their digits. Then another question comes up, whether a
# digit is odd or even, with labels for only 4, 10, 20, 50 or 100 images. Three ways to learn from these are compared.

# %%
import copy
import gzip
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import facula as torch
from facula import nn
from facula.nn import functional as F

torch.manual_seed(0)
with gzip.open(Path(__file__).parents[2] / "examples" / "data" / "digits.csv.gz", "rt") as file:
    table = np.loadtxt(file, delimiter=",", dtype=np.float32)
images, digits = torch.from_numpy(table[:, :64]).view(-1, 1, 8, 8) / 16, torch.from_numpy(table[:, 64]).long()
images += 0.35 * torch.randn(images.shape)
first, tests = slice(0, 1000), slice(1400, None)
odd = digits % 2

# %%
figure, axes = plt.subplots(2, 8, figsize=(6, 1.6))
for cell, image in zip(axes.flat, images):
    cell.imshow(image[0], cmap="gray_r", vmin=0, vmax=1)
    cell.axis("off")

# %% [markdown]
# ## The first task
#
# The network has two parts. `features` turns an image into 64 numbers, and a linear layer, the *head*, turns these into
# scores of the ten digits.


# %%
def make_features():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(),
    )  # fmt: skip


def train(model, x, y, steps, rate):
    """Train those parameters of the model that require gradients."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)
    for _ in range(steps):
        batch = torch.randint(len(x), (64,))
        loss = F.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def right(model, x, y):
    return 100 * (model(x).argmax(1) == y).float().mean().item()


pretrained = nn.Sequential(make_features(), nn.Linear(64, 10))
train(pretrained, images[first], digits[first], 300, 3e-3)
print(f"digits right on new images: {right(pretrained, images[tests], digits[tests]):.0f} %")

# %% [markdown]
# ## The second task
#
# - **From scratch**: a new network learns from the few images alone.
# - **Frozen**: `requires_grad_(False)` keeps the features as they are, and only a new head is trained. Autograd records
#   nothing for frozen layers, so a step is also cheaper.
# - **Finetuned**: after the head, all layers train on with a small learning rate. A large one would destroy the features
#   before the head knows what to do with them.


# %%
def from_scratch(x, y):
    model = nn.Sequential(make_features(), nn.Linear(64, 2))
    train(model, x, y, 120, 3e-3)
    return model


def frozen(x, y):
    model = nn.Sequential(copy.deepcopy(pretrained[0]).requires_grad_(False), nn.Linear(64, 2))
    train(model, x, y, 120, 1e-2)
    return model


def finetuned(x, y):
    model = frozen(x, y)
    model[0].requires_grad_(True)
    train(model, x, y, 60, 5e-4)
    return model


counts, ways, draws = (4, 10, 20, 50, 100), (from_scratch, frozen, finetuned), 3
found = np.zeros((len(ways), len(counts), draws))
for column, count in enumerate(counts):
    for draw in range(draws):
        chosen = 1000 + torch.randperm(400)[:count]
        for row, way in enumerate(ways):
            found[row, column, draw] = right(way(images[chosen], odd[chosen]), images[tests], odd[tests])
for way, values in zip(ways, found.mean(2)):
    print(f"{way.__name__:13}", *(f"{count:3d}: {value:.0f} %" for count, value in zip(counts, values)))

# %%
figure, axes = plt.subplots(figsize=(6, 3.4))
for way, values in zip(ways, found):
    axes.plot(counts, values.mean(1), marker="o", label=way.__name__.replace("_", " "))
    axes.fill_between(counts, values.min(1), values.max(1), alpha=0.15)
axes.set(xscale="log", xticks=counts, xticklabels=counts, xlabel="labeled images", ylabel="right, %")
axes.legend()

# %% [markdown]
# The bands reach from the worst to the best of three draws. The fewer labels there are, the more the features are worth.
