# %% [markdown]
# # A first network
#
# A convolutional network learns handwritten digits of 8 by 8 pixels. The tutorial loads the data, defines a module,
# trains it, and looks at its mistakes.

# %%
import gzip
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import facula as torch
from facula import nn
from facula.nn import functional as F

torch.manual_seed(0)
DIGITS = Path(__file__).parents[2] / "examples" / "data" / "digits.csv.gz"
with gzip.open(DIGITS, "rt") as file:
    table = np.loadtxt(file, delimiter=",", dtype=np.float32)
images = torch.from_numpy(table[:, :64]).view(-1, 1, 8, 8) / 16
digits = torch.from_numpy(table[:, 64]).long()
images.shape, digits[:10]

# %%
figure, axes = plt.subplots(1, 10, figsize=(8, 1))
for cell, image in zip(axes, images):
    cell.imshow(image[0], cmap="gray_r")
    cell.axis("off")

# %% [markdown]
# A fifth of the images is set aside for testing.

# %%
order = torch.randperm(len(images))
test, train = order[: len(order) // 5], order[len(order) // 5 :]

# %% [markdown]
# ## The module
#
# `__init__` makes the layers, and `forward` defines how they are used. A module finds the parameters of its layers by
# itself.


# %%
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.out = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.out(x.flatten(1))


network = Network()
network, sum(p.numel() for p in network.parameters())

# %% [markdown]
# ## The loop

# %%
optimizer = torch.optim.AdamW(network.parameters(), lr=0.004)
history = []
for epoch in range(8):
    network.train()
    for batch in train[torch.randperm(len(train))].split(64):
        loss = F.cross_entropy(network(images[batch]), digits[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    network.eval()
    with torch.no_grad():
        right = (network(images[test]).argmax(1) == digits[test]).float().mean().item()
    print(f"epoch {epoch + 1}  loss {loss.item():.3f}  right on test images {100 * right:.1f} %")

# %%
figure, axes = plt.subplots(figsize=(6, 2.5))
axes.plot(history, linewidth=0.8)
axes.set(xlabel="step", ylabel="loss", yscale="log")

# %% [markdown]
# ## What it gets wrong

# %%
with torch.no_grad():
    chances = network(images[test]).softmax(1)
best, guess = chances.max(1)
wrong = (guess != digits[test]).nonzero()[:, 0]
for place in wrong[:5]:
    print(f"a {digits[test][place]} taken for a {guess[place]}, which it was sure of by {100 * best[place]:.0f} %")

# %% [markdown]
# `examples/digits.py` is the whole program, with augmentation, a schedule and a checkpoint. {doc}`torch.nn
# <../api/torch.nn>` lists the layers, and {doc}`torch.optim <../api/torch.optim>` the optimizers.
