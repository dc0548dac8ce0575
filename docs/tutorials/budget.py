# %% [markdown]
# # Training within a memory budget
#
# A step that needs twice the memory of the machine gets along with half, and gives the same gradients to the last bit.
#
# Most of the memory of a training step holds results of the forward pass that the backward pass will read. Within a budget
# the library drops some of them when memory runs short, and computes them again when the backward pass comes to them. The
# program says how much it may have, and nothing else.

# %%
import time

from matplotlib import pyplot as plt

import facula as torch
from facula import nn

torch.manual_seed(0)
torch.set_num_threads(1)
layers = [nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(8)]
model = nn.Sequential(*layers)
x = torch.randn(1024, 128)


def step():
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


# %% [markdown]
# ## What the step needs

# %%
step()  # the first step also sets up what is made once
torch.cpu.reset_peak_memory_stats()
loss = step()
peak = torch.cpu.max_memory_allocated()
gradients = [p.grad.clone() for p in model.parameters()]
print(f"{peak / 2**20:.1f} MiB at the highest point, {torch.cpu.memory_allocated() / 2**20:.1f} MiB after it")

# %% [markdown]
# ## Half of it
#
# `summary` lists what was dropped and what that cost. In this network it is the products and activations of the wide
# layers: they take most of the memory.

# %%
with torch.cpu.memory_budget(peak // 2) as budget:
    step()
    again = step()
print(budget.summary())
again == loss, all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients))

# %% [markdown]
# ## How low can it go?
#
# Each budget is measured with three steps. Parameters, gradients and what a single op needs have to be in memory at the
# same time. Below that the step ends with an error, and the program goes on.

# %%
shares, costs = [], []
for percent in range(100, 0, -10):
    try:
        with torch.cpu.memory_budget(peak * percent // 100):
            step()
            begun = time.process_time()
            for _ in range(3):
                step()
            costs.append((time.process_time() - begun) / 3)
            shares.append(percent)
    except torch.OutOfMemoryError as error:
        print(f"{percent} %: {str(error)[:150]} ...")
        break

# %%
figure, axes = plt.subplots(figsize=(6, 2.8))
axes.plot(shares, [100 * (cost / costs[0] - 1) for cost in costs], marker="o")
axes.invert_xaxis()
axes.set(xlabel="budget, % of what the step would hold", ylabel="more time, %")

# %% [markdown]
# ## One step, drawn
#
# `picture` shows the last step within the half: how much was held over the time, the budget as a line, and marks where
# values were dropped and computed again.

# %%
budget.picture("budget.svg")

# %% [markdown]
# [A memory budget](../memory_budget.md) has all settings, and what cannot be dropped. `examples/memory_budget.py` trains a
# ResNet-50.
