# %% [markdown]
# # Physics: an equation as a loss
#
# A network learns a temperature from its differential equation, and finds out how fast the material conducts heat.
#
# A physics-informed network (Raissi and others, 2019) is a function `u(x, t)` that is trained until it fulfills an
# equation: here the heat equation, `du/dt = k d2u/dx2`. The derivatives are those of the network with respect to its
# *inputs*, and training differentiates them once more with respect to the parameters. So `create_graph=True` records
# the backward pass, too.
#
# The conductivity k is unknown. A few noisy measurements and the equation together determine it.

# %%
import math

from matplotlib import pyplot as plt

import facula as torch
from facula import nn

torch.manual_seed(0)
TRUE_K = 0.1


def truth(x, t):
    """Return the temperature of a rod that is cold at both ends, and warm in two places at the beginning."""
    waves = ((1.0, 1), (0.6, 2))
    return sum(a * torch.sin(n * math.pi * x) * torch.exp(-TRUE_K * (n * math.pi) ** 2 * t) for a, n in waves)


places = torch.rand(60, 2)
measured = truth(*places.T) + 0.03 * torch.randn(60)

# %% [markdown]
# ## The network
#
# The activation has to have second derivatives that are not 0, so `tanh` and not `relu`. The factor `x * (1 - x)` makes
# both ends cold whatever the network says: what can be built in need not be learned.


# %%
class Temperature(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        sizes = (2, width, width, width)
        hidden = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.Tanh())]
        self.layers = nn.Sequential(*hidden, nn.Linear(width, 1))
        self.log_k = nn.Parameter(torch.tensor(0.0))  # a first guess of 1

    def forward(self, x, t):
        return 4 * x * (1 - x) * self.layers(torch.stack([2 * x - 1, 2 * t - 1], -1))[..., 0]


def violation(model, x, t):
    """Return by how much the equation is missed at each point."""
    x, t = x.requires_grad_(), t.requires_grad_()
    u = model(x, t)
    u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t - model.log_k.exp() * u_xx


# %% [markdown]
# `u.sum()` gives all points' derivatives in one pass, since a point's temperature depends on its own place only.
#
# ## Training

# %%
model = Temperature()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3000)
history = []
for step in range(1, 3001):
    equation = violation(model, *torch.rand(2, 256)).square().mean()
    data = (model(*places.T) - measured).square().mean()
    optimizer.zero_grad()
    (0.1 * equation + data).backward()
    optimizer.step()
    schedule.step()
    history.append(model.log_k.exp().item())
    if step % 500 == 0:
        print(f"step {step:4d}  equation {equation.item():.4f}  data {data.item():.5f}  k {history[-1]:.3f}")

# %%
line = torch.linspace(0, 1, 100)
x, t = torch.meshgrid(line, line, indexing="xy")
with torch.no_grad():
    found = model(x, t)
print(f"k {history[-1]:.3f}, true {TRUE_K}; largest error of the temperature {(found - truth(x, t)).abs().max():.3f}")
figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
for cell, values, title in zip(axes, (found, truth(x, t)), ("learned from 60 measurements", "true")):
    image = cell.pcolormesh(t, x, values, cmap="inferno", vmin=0, vmax=1.1, rasterized=True)
    cell.set(title=title, xlabel="time", ylabel="place")
axes[0].scatter(places[:, 1], places[:, 0], s=9, facecolors="none", edgecolors="white", linewidths=0.7)
figure.colorbar(image, ax=axes[1], label="temperature")
axes[2].plot(history)
axes[2].axhline(TRUE_K, color="gray", linestyle="--")
axes[2].set(title="conductivity k", xlabel="step", yscale="log")
