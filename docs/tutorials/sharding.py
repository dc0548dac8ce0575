# %% [markdown]
# # A model in parts on several processes
#
# Two processes train one model, of which each holds only half: the same losses with half the memory.
#
# `DistributedDataParallel` gives each process the whole model and a part of the data. What does not fit into one
# process's memory does not fit this way, either. `fully_shard` cuts every parameter, its gradient and the optimizer's
# state. A block's parameters are put together when its forward or backward pass comes, and dropped after it.

# %%
import os

from matplotlib import pyplot as plt

import facula as torch
import facula.distributed as dist
from facula import multiprocessing, nn
from facula.distributed.fsdp import fully_shard
from facula.distributed.tensor import DTensor

WIDTH, BLOCKS, STEPS, COUNT = 128, 4, 30, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.layers(x)


# %% [markdown]
# ## Three ways
#
# The blocks are sharded first, each a unit that is put together by itself; then the model, for what is left. The
# optimizer is made last, since it has to see the parts.


# %%
def whole(model):
    return model


def data_parallel(model):
    return nn.parallel.DistributedDataParallel(model)


def sharded(model):
    for block in model:
        fully_shard(block)
    return fully_shard(model)


# %% [markdown]
# ## Training
#
# All processes begin with the same parameters, because they use the same seed. Each takes its part of the batch, and
# gradients are averaged over the processes.


# %%
def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def train(way, rank, count):
    torch.manual_seed(0)
    model = way(nn.Sequential(*[Block() for _ in range(BLOCKS)]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(64, WIDTH)
    y = x.roll(1, 1).tanh()
    losses = []
    for _ in range(STEPS):
        loss = (model(x[rank::count]) - y[rank::count]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if count > 1:
            dist.all_reduce(mean := loss.detach() / count)
        losses.append((mean if count > 1 else loss).item())
    parameters = list(model.parameters())
    state = [t for values in optimizer.state.values() for t in values.values() if t.dim()]
    held = [sum(local(t).nbytes for t in ts) for ts in (parameters, [p.grad for p in parameters], state)]
    return losses, held


# %% [markdown]
# Processes are started from the program; a training script would rather be started by the launcher, `python -m
# facula.distributed.run --nproc-per-node 2 train.py`. Each one leaves its results in a file.


# %%
def start(rank, way, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet-{way.__name__}", rank=rank, world_size=COUNT)
    torch.save(train(way, rank, COUNT), f"{folder}/{way.__name__}-{rank}.pt")
    dist.destroy_process_group()


results = {whole: [train(whole, 0, 1)]}
for way in (data_parallel, sharded):
    multiprocessing.start_processes(start, (way, os.getcwd()), nprocs=COUNT, start_method="fork")
    results[way] = [torch.load(f"{way.__name__}-{rank}.pt") for rank in range(COUNT)]
for way, found in results.items():
    held = ", ".join(f"{sum(parts) / 2**20:.1f} MiB" for _, parts in found)
    print(f"{way.__name__:14} last loss {found[0][0][-1]:.6f}, held in each process: {held}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
titles = {whole: "whole", data_parallel: "data\nparallel", sharded: "sharded"}
bars = [(f"{titles[way]}, {rank}", parts) for way, found in results.items() for rank, (_, parts) in enumerate(found)]
below = [0.0] * len(bars)
for kind, name in enumerate(("parameters", "gradients", "optimizer's state")):
    heights = [parts[kind] / 2**20 for _, parts in bars]
    axes[0].bar([title for title, _ in bars], heights, bottom=below, label=name)
    below = [a + b for a, b in zip(below, heights)]
axes[0].set_ylabel("MiB held between steps")
axes[0].tick_params(axis="x", labelsize=8)
axes[0].legend(fontsize=8)
for way, style in zip(results, ("-", "--", ":")):
    axes[1].plot(results[way][0][0], style, linewidth=2, label=way.__name__.replace("_", " "))
axes[1].set(xlabel="step", ylabel="loss", yscale="log")
axes[1].legend(fontsize=8)

# %% [markdown]
# The numbers below the bars are the ranks of processes. The losses agree but for rounding: gradients of two halves are
# added in another order. [Several processes](processes.py) shows collectives, and what happens when a process fails;
# `examples/fsdp_text.py` also saves the parts in a checkpoint.
