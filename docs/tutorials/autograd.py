# %% [markdown]
# # Autograd and custom functions
#
# This tutorial shows how derivatives are recorded and computed, and how to write one by hand.

# %%
import facula as torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
x = torch.tensor([3.0, 4.0])
y = (w * x).sum().tanh()
y, y.grad_fn

# %% [markdown]
# The result knows the op that made it. `backward` adds to the `grad` of every leaf, and `torch.autograd.grad` returns
# the derivatives instead.

# %%
torch.autograd.grad(y, w, retain_graph=True)

# %%
y.backward()
w.grad

# %% [markdown]
# Gradients are added up until they are cleared, so a training step begins with `optimizer.zero_grad()` or `w.grad =
# None`.
#
# Nothing is recorded under `no_grad` and `inference_mode`, or for tensors that were detached.

# %%
with torch.no_grad():
    quiet = w * 2
quiet.requires_grad, (w.detach() * 2).requires_grad

# %% [markdown]
# ## Derivatives of derivatives
#
# With `create_graph=True` the backward pass is recorded, too.

# %%
t = torch.tensor(2.0, requires_grad=True)
value = t**4
for order in range(1, 4):
    (value,) = torch.autograd.grad(value, t, create_graph=True)
    print(f"derivative {order}: {value.item()}")

# %% [markdown]
# `grad`, `jacrev` and `hessian` take a function and return its derivative. `vmap` turns a function of one example into
# a function of a batch.

# %%
from facula.func import grad, hessian, vmap


def energy(p):
    return (p**3).sum() + p.prod()


p = torch.tensor([1.0, 2.0])
grad(energy)(p), hessian(energy)(p)

# %%
vmap(grad(energy))(torch.arange(6.0).view(3, 2))

# %% [markdown]
# ## A derivative by hand
#
# `log(cosh(r))` is a loss that is quadratic near zero and linear far away. Written like that, `cosh` overflows. The
# function below does not, and its derivative takes one op. `gradcheck` compares the derivative with finite differences.

# %%
import math


class LogCosh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, r):
        ctx.save_for_backward(r)
        size = r.abs()
        return size + torch.log1p(torch.exp(-2 * size)) - math.log(2)

    @staticmethod
    def backward(ctx, grad):
        (r,) = ctx.saved_tensors
        return grad * torch.tanh(r)


r = torch.tensor([-100.0, -1.0, 0.0, 0.5], requires_grad=True)
LogCosh.apply(r).sum().backward()
r.cosh().log(), LogCosh.apply(r), r.grad

# %%
probe = torch.randn(5, dtype=torch.float64, requires_grad=True)
torch.autograd.gradcheck(LogCosh.apply, probe), torch.autograd.gradgradcheck(LogCosh.apply, probe)

# %% [markdown]
# ## Errors of the backward pass
#
# If a value that the backward pass needs was overwritten, the error names the op that needs it and the op that wrote to
# it.

# %%
a = torch.ones(3, requires_grad=True)
b = a.exp()
b.add_(1)
try:
    b.sum().backward()
except RuntimeError as error:
    print(error)

# %% [markdown]
# More: {doc}`torch.autograd <../api/torch.autograd>`, {doc}`torch.func <../api/torch.func>`, and
# `examples/custom_function.py`.
