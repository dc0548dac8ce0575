# %% [markdown]
# # Profiling and memory
#
# This tutorial shows where the time of a training step goes, and what holds memory.

# %%
import facula as torch
from facula import nn
from facula.profiler import profile, record_function

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters())
x, target = torch.randn(128, 256), torch.randint(10, (128,))


def step():
    optimizer.zero_grad()
    with record_function("forward"):
        loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()


step()
with profile(record_shapes=True, profile_memory=True) as p:
    step()
print(p.key_averages().table(sort_by="self_cpu_time_total", row_limit=6, max_name_column_width=34))

# %% [markdown]
# Rows are ops below autograd, nodes of the backward pass, and ranges such as `forward`. `export_chrome_trace` writes a
# file that <https://ui.perfetto.dev> draws.

# %%
p.export_chrome_trace("trace.json")
slowest = max((event for event in p.events() if event.name.startswith("aten::")), key=lambda event: event.cpu_time)
slowest.name, slowest.input_shapes

# %% [markdown]
# ## Comparing two ways
#
# `Timer` repeats a statement until the time is reliable.

# %%
from facula.utils.benchmark import Timer

a, b = torch.rand(1000, 1000), torch.rand(1000, 1000)
for statement in ("(a * b).sum()", "torch.einsum('ij,ij->', a, b)"):
    found = Timer(statement, globals={"a": a, "b": b, "torch": torch}).blocked_autorange(min_run_time=0.2)
    print(f"{statement:32} {found.median * 1e6:7.0f} us")

# %% [markdown]
# ## Memory
#
# The allocator caches the memory that tensors release. Its statistics say how much is held now, and how much was held
# at most.

# %%
torch.cpu.reset_peak_memory_stats()
big = torch.zeros(1024, 1024)
del big
stats = torch.cpu.memory_stats()
sorted(stats)[:6], torch.cpu.max_memory_allocated() // 2**20

# %% [markdown]
# With a history of memory, a snapshot names the lines that made what is live:

# %%
torch.cpu.record_memory_history()
kept = [torch.zeros(200, 200) for _ in range(3)]
result = model(x)
snapshot = torch.cpu.memory_snapshot()
torch.cpu.memory_picture("memory.svg", snapshot)
len(snapshot) > 0

# %% [markdown]
# More: [where time and memory go](../profiling.md), {doc}`torch.profiler <../api/torch.profiler>`, and
# `examples/timeline.py`, which draws a step.
