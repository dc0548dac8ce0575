# %% [markdown]
# # A tour in ten minutes
#
# This tour shows tensors, gradients and a network, and says where to go from there. If you know PyTorch, you can skip
# to [what is different](../coming_from_pytorch.md).

# %%
import facula as torch
from facula import nn

torch.manual_seed(0)
torch.__version__

# %% [markdown]
# ## Tensors
#
# A tensor is an array of numbers of one dtype. Arithmetic works element by element, tensors of different shapes are
# broadcast, and `@` is the matrix product.

# %%
a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
a * 10 + torch.tensor([0.0, 0.5, 1.0])

# %%
a @ a.T

# %%
a.shape, a.dtype, a.mean(dim=1), a[:, ::-1]

# %% [markdown]
# Slices and transposes are views: they share memory with the original tensor.

# %%
middle = a[:, 1]
middle.zero_()
a

# %% [markdown]
# NumPy arrays and tensors can share memory, without a copy:

# %%
import numpy as np

array = np.arange(4.0)
shared = torch.from_numpy(array)
shared += 1
array

# %% [markdown]
# ## Gradients
#
# Operations on tensors with `requires_grad=True` are recorded while they run. `backward()` walks back through the
# record and stores derivatives in `grad`. Loops, conditions and functions of Python work as always.

# %%
x = torch.tensor(2.0, requires_grad=True)
y = x
for _ in range(3):
    y = y * x if y > 1 else y + 1
y.backward()
y.item(), x.grad  # x**4, 4 x**3

# %% [markdown]
# ## A network
#
# A module holds parameters and defines how its result is computed. This one learns to tell the points of two spirals
# apart.

# %%
turns = torch.rand(400).sqrt() * 3
side = torch.arange(400) % 2
angle = 2 * turns + side * torch.pi
points = torch.stack([turns * angle.cos(), turns * angle.sin()], 1) + 0.06 * torch.randn(400, 2)

model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(401):
    loss = nn.functional.cross_entropy(model(points), side)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        right = (model(points).argmax(1) == side).float().mean()
        print(f"step {step:3d}  loss {loss.item():.3f}  right {100 * right.item():.0f} %")

# %%
from matplotlib import pyplot as plt

line = torch.linspace(-3.5, 3.5, 150)
grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)
with torch.no_grad():
    chance = model(grid).softmax(-1)[..., 1]
figure, axes = plt.subplots(figsize=(4.5, 4.5))
axes.contourf(line, line, chance, levels=20, cmap="RdBu", alpha=0.6)
axes.scatter(*points.T, c=side, cmap="RdBu", s=9, edgecolors="black", linewidths=0.3)
axes.set_axis_off()

# %% [markdown]
# ## Saving it
#
# A checkpoint is a `.pt` file, as in PyTorch. Loading a checkpoint never runs code from it, see
# [checkpoints](../checkpoints.md).

# %%
torch.save(model.state_dict(), "spirals.pt")
again = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
again.load_state_dict(torch.load("spirals.pt"))

# %% [markdown]
# ## When something is wrong
#
# An error begins with the name of the op, says what was expected, and ends with what was received. Its class is the one
# that PyTorch raises.

# %%
try:
    model(torch.ones(4, 3))
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## What takes the time?

# %%
with torch.profiler.profile() as profile:
    nn.functional.cross_entropy(model(points), side).backward()
print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=4, max_name_column_width=40))

# %% [markdown]
# ## From here
#
# | | |
# |---|---|
# | more of each topic | [tensors](tensors.py), [autograd](autograd.py), [data](data.py), [checkpoints](saving.py) |
# | a network from data to mistakes | [a first network](first_network.py) |
# | larger programs | [a GPT](gpt.py), [a GAN](gan.py), [several processes](processes.py) |
# | a program that you have | [running a PyTorch program](pytorch_program.py) |
