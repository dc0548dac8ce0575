# %% [markdown]
# # A Gaussian process
#
# Regression that knows how sure it is; its three settings are learned by gradients through a Cholesky decomposition.
#
# A Gaussian process is a distribution over functions. Its *kernel* says how alike the values at two places are. Given
# some measurements, mean and spread at every other place follow by linear algebra, so nothing is trained but the few
# numbers of the kernel (Rasmussen and Williams, 2006).

# %%
import math

from matplotlib import pyplot as plt

import facula as torch

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)  # the matrices are nearly singular
x = torch.cat([4 * torch.rand(14), 6 + 2 * torch.rand(8)])
y = torch.sin(2 * x) + 0.3 * x + 0.15 * torch.randn(len(x))


# %% [markdown]
# ## The kernel and the likelihood
#
# Places at a distance well below `length` have similar values; `scale` is the spread of the functions and `noise` that
# of the measurements. They are positive, so their logarithms are learned.
#
# The likelihood of the measurements needs `K^-1 y` and `log det K`. Both follow from the Cholesky factor `L` of K: a
# solution with two triangular matrices, and the sum over the logarithms of the diagonal. That is stable, and there is no
# inverse.


# %%
def kernel(a, b, length, scale):
    return scale**2 * torch.exp(-0.5 * ((a[:, None] - b) / length) ** 2)


def factor(length, scale, noise):
    return torch.linalg.cholesky(kernel(x, x, length, scale) + noise**2 * torch.eye(len(x)))


def negative_log_likelihood(logarithms):
    L = factor(*logarithms.exp())
    fit = 0.5 * y @ torch.cholesky_solve(y[:, None], L)[:, 0]
    return fit + L.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)


# %% [markdown]
# ## Learning the settings
#
# The likelihood balances by itself: a short length fits every measurement, but spreads its bets over so many functions
# that each becomes unlikely. L-BFGS finds the minimum of three numbers in a few steps, where Adam would need hundreds.

# %%
logarithms = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.LBFGS([logarithms], max_iter=50, line_search_fn="strong_wolfe")


def evaluate():
    optimizer.zero_grad()
    loss = negative_log_likelihood(logarithms)
    loss.backward()
    return loss


before = optimizer.step(evaluate).item()
print(f"negative log likelihood {before:.2f} -> {evaluate().item():.2f}")
print("length {:.2f}, scale {:.2f}, noise {:.2f}".format(*logarithms.exp().tolist()))

# %% [markdown]
# The measurements were made with noise of 0.15.
#
# ## Predicting
#
# The mean is a weighted sum of kernels at the measurements. The spread is that of the kernel less what the measurements
# tell; away from them it returns to `scale`. Functions are drawn with a Cholesky factor, too.


# %%
@torch.no_grad()
def predict(at, length, scale, noise):
    L = factor(length, scale, noise)
    cross = kernel(x, at, length, scale)
    mean = cross.T @ torch.cholesky_solve(y[:, None], L)[:, 0]
    explained = torch.linalg.solve_triangular(L, cross, upper=False)
    return mean, kernel(at, at, length, scale) - explained.T @ explained


at = torch.linspace(-1, 10, 300)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
guessed = ("a length guessed too short", torch.tensor([0.15, 1.0, 0.1]))
for cell, (title, settings) in zip(axes, (guessed, ("learned", logarithms.detach().exp()))):
    mean, covariance = predict(at, *settings)
    spread = 2 * covariance.diagonal().clamp(min=0).sqrt()
    cell.fill_between(at, mean - spread, mean + spread, alpha=0.2)
    draws = mean + torch.randn(3, len(at)) @ torch.linalg.cholesky(covariance + 1e-8 * torch.eye(len(at))).T
    cell.plot(at, draws.T, linewidth=0.7, alpha=0.7)
    cell.plot(at, mean, color="black", linewidth=1.5)
    cell.scatter(x, y, color="black", s=14, zorder=3)
    cell.set_title(f"{title}: {negative_log_likelihood(settings.log()).item():.1f}")
torch.set_default_dtype(torch.float32)

# %% [markdown]
# The number is the negative log likelihood. Bands hold 95 % of the functions, thin lines are three of them. With the
# learned length, the gap between 4 and 6 is bridged with growing doubt, and the ends are left open.
