# %% [markdown]
# # A compiled function
#
# A loss written out in ten light ops runs as one group: what was grouped, and for which sizes that pays.
#
# Eager execution makes a tensor for each op. For large tensors most of the time goes into writing these to memory and
# reading them back. `torch.compile` runs the same Python, but computes light ops together, block by block in the cache,
# so that most results in between are never written.

# %%
import time

from matplotlib import pyplot as plt

import facula as torch

torch.manual_seed(0)
torch.set_num_threads(1)


def focal_loss(scores, target):
    """Return a cross entropy in which examples that are easy count less (Lin and others, 2017)."""
    chance = torch.sigmoid(scores)
    right = torch.where(target, chance, 1 - chance)
    balance = torch.where(target, 0.25, 0.75)
    return (-balance * (1 - right) ** 2 * (right + 1e-6).log()).mean()


scores, target = torch.randn(1000, 100), torch.rand(1000, 100) < 0.1
print(torch._dynamo.explain(focal_loss)(scores, target))

# %% [markdown]
# `explain` makes one call and lists the ops. There is one graph: nothing in the function needs a value before its end.
# A decision about a value would end the graph, and the rest would be a second one.

# %% [markdown]
# ## The same results
#
# Compiled functions give the bits of eager ones, so there is no tolerance to choose.

# %%
compiled = torch.compile(focal_loss)
for _ in range(60):  # the first calls are watched, then both ways are timed
    result = compiled(scores, target)
noted = compiled.recordings[0]
print(f"{noted.count} ops, {noted.put_off} put off, {noted.groups} group, {noted.never_made} results never written to memory")
torch.equal(result, focal_loss(scores, target)), compiled.state

# %% [markdown]
# `follow` says that the faster way was found to be the grouped one. A function that does not gain is called as it is
# (`pass`).
#
# ## When it pays
#
# The time of both, for tensors from 100 to 3,000,000 elements.


# %%
def seconds(function, *args):
    """Return the shortest time of a call, in seconds."""
    best, count = float("inf"), max(1, 100_000 // args[0].numel())
    for _ in range(7):
        begun = time.process_time()
        for _ in range(count):
            function(*args)
        best = min(best, (time.process_time() - begun) / count)
    return best


sizes, times = [100, 1_000, 10_000, 100_000, 1_000_000, 3_000_000], []
for size in sizes:
    scores, target = torch.randn(size), torch.rand(size) < 0.1
    compiled = torch.compile(focal_loss)
    for _ in range(60):
        compiled(scores, target)
    times.append((seconds(focal_loss, scores, target), seconds(compiled, scores, target)))
    eager, grouped = times[-1]
    print(f"{size:9,} elements: eager {1e6 * eager:8.1f} us, compiled {1e6 * grouped:8.1f} us, ratio {eager / grouped:.2f}")

# %%
figure, axes = plt.subplots(figsize=(6, 3.2))
for name, values in zip(("eager", "compiled"), zip(*times)):
    axes.plot(sizes, [1e9 * value / size for value, size in zip(values, sizes)], marker="o", label=name)
axes.set(xscale="log", yscale="log", xlabel="elements", ylabel="nanoseconds for an element")
axes.legend()

# %% [markdown]
# For small tensors the calls themselves take the time. In the middle, everything stays in the processor's cache anyway,
# and what is saved are the passes over it. For large tensors the memory is what limits, and there most is gained. Where
# the time goes into matrix products or convolutions, nothing is gained, and nothing is lost.
#
# [Compiled functions](../compile.md) explains what can be grouped, [measured](../compile_measured.md) has more programs.
