# %% [markdown]
# # Checkpoints: continuing a run
#
# This tutorial saves a training run and continues it later, and loads files from elsewhere.

# %%
import os

import facula as torch
from facula import nn

torch.manual_seed(0)
x, y = torch.randn(256, 8), torch.randn(256, 1)


def make():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 10, gamma=0.5)


def train(model, optimizer, schedule, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
    return loss.item()


# %% [markdown]
# A run consists of parameters, the optimizer's state, the schedule, and the state of the random generator.

# %%
run = make()
train(*run, 20)
names = ("model", "optimizer", "schedule")
state = {name: part.state_dict() for name, part in zip(names, run)} | {"random": torch.get_rng_state()}
torch.save(state, "run.pt")
whole = train(*run, 20)

# %%
again = make()
state = torch.load("run.pt")
for name, part in zip(names, again):
    part.load_state_dict(state[name])
torch.set_rng_state(state["random"])
whole, train(*again, 20)

# %% [markdown]
# Both runs give the same number, also with dropout.
#
# ## A part of a model
#
# `strict=False` loads the parameters whose names match, and returns the names of the others.

# %%
larger = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1), nn.Linear(1, 4))
larger.load_state_dict(state["model"], strict=False)

# %% [markdown]
# ## Large files
#
# With `mmap=True` a file is mapped into memory, and its bytes are read when they are used.

# %%
torch.save({"table": torch.zeros(1000, 1000)}, "large.pt")
table = torch.load("large.pt", mmap=True)["table"]
os.path.getsize("large.pt") > 4_000_000, table[5, :3]

# %% [markdown]
# ## Files from elsewhere
#
# A pickle can name any function, and Python's own reader calls it. Facula's reader does not:

# %%
import pickle


class Hostile:
    def __reduce__(self):
        return os.system, ("echo this must not run",)


with open("hostile.pt", "wb") as file:
    pickle.dump(Hostile(), file)
try:
    torch.load("hostile.pt", weights_only=False)
except pickle.UnpicklingError as error:
    print(error)

# %% [markdown]
# More: [checkpoints](../checkpoints.md), {doc}`torch.serialization <../api/torch.serialization>`.
