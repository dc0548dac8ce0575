# %% [markdown]
# # Training in several processes
#
# One program runs in several processes: this tutorial shows collectives, and training with `DistributedDataParallel`.
# [Several processes](../distributed.md) says more.
#
# A training program is usually started by the launcher, `python -m facula.distributed.run --nproc-per-node 2 train.py`.
# Here `start_processes` starts functions from a program, which also works in notebooks.

# %%
import os

import facula as torch
import facula.distributed as dist
from facula import multiprocessing, nn


def start(rank, work, count, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet-{work.__name__}", rank=rank, world_size=count)
    work(rank, count)
    dist.destroy_process_group()


def run(work, count=2):
    multiprocessing.start_processes(start, (work, count, os.getcwd()), nprocs=count, start_method="fork")


# %% [markdown]
# ## Collectives
#
# All processes call the same function, each with its own tensor.


# %%
def collect(rank, count):
    x = torch.tensor([rank + 1.0, 10.0])
    dist.all_reduce(x)
    parts = [torch.zeros(1) for _ in range(count)]
    dist.all_gather(parts, torch.tensor([100.0 * rank]))
    if rank == 0:
        print("sum", x, "parts", parts, flush=True)


run(collect)

# %% [markdown]
# ## Training
#
# Each process has its part of the data, and `DistributedDataParallel` averages the gradients while the backward pass
# still runs. So all processes take the same step and end with the same parameters.


# %%
def train(rank, count):
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
    x, y = x[rank::count], y[rank::count]
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"loss {loss.item():.6f}", model.module.weight.data, flush=True)


run(train)

# %% [markdown]
# ## When a process fails
#
# The others are notified and stop. The error of the process that failed first is raised here.


# %%
def fail(rank, count):
    if rank == 1:
        raise ValueError("rank 1 has had enough")
    dist.barrier()


try:
    run(fail)
except Exception as error:
    print(type(error).__name__, [line for line in str(error).splitlines() if "enough" in line][-1:])
