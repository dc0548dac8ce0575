# %% [markdown]
# # Running a PyTorch program
#
# A program with `import torch` runs unchanged:
#
# ```
# python -m facula train.py --epochs 3
# python -m facula -m package arguments
# ```
#
# In a notebook or a running interpreter, call `install()` before anything imports PyTorch:

# %%
import facula.compat

facula.compat.install()

import torch

torch.__name__, torch.nn.Linear(2, 1)

# %% [markdown]
# ## A program
#
# This file was written for PyTorch and does not mention Facula.

# %%
program = '''\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()

torch.manual_seed(3)
x = torch.randn(512, 10)
y = (x[:, :1] * x[:, 1:2] > 0).float()
model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(options.epochs):
    for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
        loss = nn.functional.binary_cross_entropy_with_logits(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
torch.save(model.state_dict(), "model.pt")
'''
with open("train.py", "w") as file:
    file.write(program)

# %%
import subprocess
import sys

done = subprocess.run([sys.executable, "-m", "facula", "train.py", "--epochs", "3"], capture_output=True, text=True)
print(done.stdout + done.stderr)

# %% [markdown]
# The checkpoint is a file in PyTorch's format, which PyTorch can read as well.

# %%
{name: tuple(value.shape) for name, value in torch.load("model.pt").items()}

# %% [markdown]
# ## What is missing
#
# Every name of PyTorch can be imported. If Facula does not implement it, using it raises an error with the reason:

# %%
try:
    torch.ones(2).to_mkldnn()
except NotImplementedError as error:
    print(error)

# %% [markdown]
# [What is supported](../supported.md) has a filter for PyTorch's public names. Random numbers, initial weights and the
# order of a shuffled loader are the same for the same seed; see [Coming from PyTorch](../coming_from_pytorch.md).
