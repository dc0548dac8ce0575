# %% [markdown]
# # Tensors
#
# Making them, dtypes, shapes, indexing, memory.

# %%
import facula as torch

torch.zeros(2, 3), torch.arange(0, 10, 3), torch.linspace(0, 1, 5), torch.full((2,), 7), torch.eye(2)

# %% [markdown]
# Random numbers come from a generator, which `manual_seed` sets. The CPU's gives the numbers that PyTorch gives for the
# same seed.

# %%
torch.manual_seed(1)
torch.rand(3), torch.randn(3), torch.randint(10, (3,)), torch.randperm(5)

# %% [markdown]
# ## Dtypes
#
# The dtype follows from what a tensor is made of. Where dtypes meet, the result has the one that holds both; a number
# of Python does not widen a tensor of its kind.

# %%
i = torch.tensor([1, 2])
h = torch.tensor([0.5, 0.25], dtype=torch.float16)
i.dtype, (i + h).dtype, (h * 2.5).dtype, (i * 2.5).dtype, (i / i).dtype

# %% [markdown]
# ## Shapes
#
# Shapes are matched from the right: sizes agree, or one of them is 1 or missing.

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
# Slices give views; lists, tensors of places and masks give copies. All of them can be written to.

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
# A view shares memory; a name with an underscore at its end writes in place; `clone` copies. Results can go to a tensor
# that is there with `out=`.

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
# Strided memory is not copied until an op needs it so: a transpose changes strides only.

# %%
wide = torch.zeros(2, 1000)
wide.stride(), wide.T.stride(), wide.T.is_contiguous(), wide.T.contiguous().stride()

# %% [markdown]
# Long tensors are printed in short:

# %%
torch.arange(100_000).view(100, 1000)

# %% [markdown]
# Every function is in the API, below "Reference": {doc}`torch <../api/torch>`, {doc}`torch.Tensor <../api/torch.Tensor>`,
# {doc}`torch.linalg <../api/torch.linalg>`, {doc}`torch.fft <../api/torch.fft>`.
