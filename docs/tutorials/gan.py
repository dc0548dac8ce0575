# %% [markdown]
# # A GAN
#
# A GAN has two networks: a generator learns to draw digits that a discriminator takes for real (Goodfellow and others,
# 2014).

# %%
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
real = torch.from_numpy(table[:, :64]).view(-1, 1, 8, 8) / 16
real.shape

# %%
NOISE = 32
generator = nn.Sequential(
    nn.ConvTranspose2d(NOISE, 64, 2), nn.BatchNorm2d(64), nn.ReLU(),
    nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1), nn.Sigmoid(),
)  # fmt: skip
discriminator = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
    nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 4 * 4, 1), nn.Flatten(0),
)  # fmt: skip
optimizers = [torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.5, 0.999)) for network in (generator, discriminator)]

# %% [markdown]
# ## The step
#
# The discriminator is trained on real images and generated ones. `detach()` keeps its loss from changing the generator.
# Then the generator is trained by a loss that goes through the discriminator. The gradients that the discriminator gets
# from that pass are cleared before its next step.


# %%
def step(images):
    ones = torch.ones(len(images))
    fake = generator(torch.randn(len(images), NOISE, 1, 1))

    optimizers[1].zero_grad()
    judged = F.binary_cross_entropy_with_logits(discriminator(images), 0.9 * ones)
    judged = judged + F.binary_cross_entropy_with_logits(discriminator(fake.detach()), 0 * ones)
    judged.backward()
    optimizers[1].step()

    optimizers[0].zero_grad()
    taken = F.binary_cross_entropy_with_logits(discriminator(fake), ones)
    taken.backward()
    optimizers[0].step()
    return judged.item(), taken.item()


noise = torch.randn(36, NOISE, 1, 1)
history = []
for count in range(361):
    losses = step(real[torch.randint(len(real), (64,))])
    if count % 120 == 0:
        with torch.no_grad():
            history.append((count, generator(noise)))
        print("step {:3d}  discriminator {:.2f}  generator {:.2f}".format(count, *losses))

# %%
blocks = [*[(f"step {count}", images) for count, images in history], ("real", real[:36])]
figure, axes = plt.subplots(1, len(blocks), figsize=(10, 2.4))
for cell, (title, images) in zip(axes, blocks):
    framed = F.pad(images, (1, 1, 1, 1)).reshape(6, 6, 10, 10)
    cell.imshow(framed.transpose(1, 2).reshape(60, 60), cmap="magma", vmin=0, vmax=1)
    cell.set_title(title)
    cell.axis("off")

# %% [markdown]
# `examples/gan.py` trains longer and measures how far generated images are from real ones.
