# %% [markdown]
# # Tensors
#
# This tutorial shows how tensors are made, their dtypes and shapes, indexing, and memory.

# %%
import facula as torch

torch.zeros(2, 3), torch.arange(0, 10, 3), torch.linspace(0, 1, 5), torch.full((2,), 7), torch.eye(2)

# %% [markdown]
# Random numbers come from a generator, which `manual_seed` sets. On the CPU it gives the same numbers as PyTorch for
# the same seed.

# %%
torch.manual_seed(1)
torch.rand(3), torch.randn(3), torch.randint(10, (3,)), torch.randperm(5)

# %% [markdown]
# ## Dtypes
#
# The dtype follows from the data that a tensor is made from. If two dtypes meet, the result has one that can hold both.
# A Python number does not change the dtype of a tensor of the same kind.

# %%
i = torch.tensor([1, 2])
h = torch.tensor([0.5, 0.25], dtype=torch.float16)
i.dtype, (i + h).dtype, (h * 2.5).dtype, (i * 2.5).dtype, (i / i).dtype

# %% [markdown]
# ## Shapes
#
# Shapes are compared from the right: two sizes must be equal, or one of them is 1 or missing.

# %%
rows = torch.arange(3).unsqueeze(1)
columns = torch.arange(4)
rows * 10 + columns

# %%
x = torch.arange(12)
x.view(3, 4).T.shape, x.reshape(2, -1).shape, x.view(3, 2, 2).permute(2, 0, 1).shape, x.view(3, 4).flatten(0, 1).shape

# %% [markdown]
# ## Indexing
#
# Slices return views. Lists, tensors of indices and masks return copies. All of them can be assigned to.

# %%
x = torch.arange(20).view(4, 5)
x[1:3, ::2], x[-1], x[..., 0], x[::-1, 0]

# %%
x[[0, 3], [4, 0]], x[x % 7 == 0]

# %%
x[x > 15] = -1
x[0] += 100
x

# %% [markdown]
# ## Reductions and matrices

# %%
m = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
m.sum(), m.sum(0), m.max(dim=1), m.softmax(1), m.argsort(descending=True)

# %%
torch.linalg.solve(m, torch.tensor([1.0, 2.0])), torch.linalg.eigvalsh(m), torch.einsum("ij,jk->ik", m, m)

# %% [markdown]
# ## Memory
#
# A view shares memory. Functions whose name ends in an underscore write in place. `clone` copies. With `out=`, a result
# is written to an existing tensor.

# %%
base = torch.zeros(3)
view = base[1:]
view.add_(5)
base, view.data_ptr() - base.data_ptr(), base.clone().fill_(1).sum(), base

# %%
out = torch.empty(3)
torch.add(base, 1, out=out)
out

# %% [markdown]
# A transpose only changes strides. Memory is copied when an op needs another order.

# %%
wide = torch.zeros(2, 1000)
wide.stride(), wide.T.stride(), wide.T.is_contiguous(), wide.T.contiguous().stride()

# %% [markdown]
# Long tensors are shortened when they are printed:

# %%
torch.arange(100_000).view(100, 1000)

# %% [markdown]
# The API, below "Reference", lists every function: {doc}`torch <../api/torch>`, {doc}`torch.Tensor
# <../api/torch.Tensor>`, {doc}`torch.linalg <../api/torch.linalg>`, {doc}`torch.fft <../api/torch.fft>`.
