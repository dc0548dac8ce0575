# %% [markdown]
# # Diffusion
#
# A network learns to remove noise from points, step by step, and so draws new points from pure noise.
#
# A diffusion model destroys data with noise in many small steps, which needs no learning, and learns to go back one step
# at a time (Ho and others, 2020). In two dimensions the whole process can be seen.

# %%
import math

from matplotlib import pyplot as plt

import facula as torch
from facula import nn
from facula.nn import functional as F

torch.manual_seed(0)


def draw(count):
    """Return points on a spiral, (count, 2), with a spread of about 1."""
    angle = 3 * math.pi * torch.rand(count).sqrt()
    points = torch.stack([angle * angle.cos(), angle * angle.sin()], 1)
    return (points + 0.2 * torch.randn(count, 2)) / 4.7


# %% [markdown]
# ## Destroying
#
# After step t a point is `sqrt(share[t]) * x + sqrt(1 - share[t]) * noise`, so any step is reached at once. At the end
# nothing of the point is left.

# %%
STEPS = 100
rates = torch.linspace(1e-4, 0.1, STEPS)  # of noise that each step adds
share = torch.cumprod(1 - rates, 0)  # of the point that is left
share[[0, STEPS // 2, -1]]

# %% [markdown]
# ## The network
#
# It sees a noisy point and the time, and says which noise the point contains. Both are also given as sines of several
# frequencies, because a network tells close numbers apart badly.


# %%
class Denoiser(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.register_buffer("of_time", math.pi * 2.0 ** torch.arange(-2, 6))
        self.register_buffer("of_place", math.pi * 2.0 ** torch.arange(-1, 2))
        sizes = (2 + 2 * 8 + 4 * 3, width, width, width)
        hidden = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.SiLU())]
        self.layers = nn.Sequential(*hidden, nn.Linear(width, 2))

    def forward(self, points, t):
        angles = torch.cat([(t / STEPS)[:, None] * self.of_time, (points[:, :, None] * self.of_place).flatten(1)], 1)
        return self.layers(torch.cat([points, angles.sin(), angles.cos()], 1))


model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3000)
for step in range(1, 3001):
    points, t = draw(512), torch.randint(STEPS, (512,))
    noise = torch.randn_like(points)
    noisy = share[t].sqrt()[:, None] * points + (1 - share[t]).sqrt()[:, None] * noise
    loss = F.mse_loss(model(noisy, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 1000 == 0:
        print(f"step {step}  loss {loss.item():.3f}")

# %% [markdown]
# The loss does not go to 0: of a point in the middle nobody can say where it came from.
#
# ## Drawing
#
# The way back starts at pure noise. Each step takes a little of the predicted noise away and adds a little fresh noise,
# so that different points come out each time.


# %%
@torch.no_grad()
def generate(count):
    x = torch.randn(count, 2)
    seen = {STEPS: x}
    for t in reversed(range(STEPS)):
        noise = model(x, torch.full((count,), t))
        x = (x - rates[t] / (1 - share[t]).sqrt() * noise) / (1 - rates[t]).sqrt()
        if t:
            x = x + rates[t].sqrt() * torch.randn_like(x)
        seen[t] = x
    return seen


seen = generate(2000)
figure, axes = plt.subplots(1, 5, figsize=(10, 2.3))
for cell, t in zip(axes, (STEPS, 40, 15, 0)):
    cell.scatter(*seen[t].T, s=1.2, c=torch.atan2(*seen[0].T), cmap="twilight", rasterized=True)
    cell.set_title("noise" if t == STEPS else f"{t} steps left" if t else "drawn")
axes[-1].scatter(*draw(2000).T, s=1.2, color="gray", rasterized=True)
axes[-1].set_title("the data")
for cell in axes:
    cell.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), xticks=[], yticks=[], aspect="equal")

# %% [markdown]
# A point's color is the direction in which it ends: neighbors in the noise often end up near each other.
