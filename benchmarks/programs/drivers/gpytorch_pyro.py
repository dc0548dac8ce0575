"""Run gpytorch and pyro: a Gaussian process is fitted; variational inference."""

import gpytorch
import pyro
import torch
from figures import array, show
from pyro import distributions
from pyro.infer import SVI, Trace_ELBO


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


x = torch.linspace(0, 1, 30)
y = torch.sin(6 * x) + 0.1 * array(30)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(x, y, likelihood)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        show(f"process {step}", loss)
model.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    found = likelihood(model(torch.linspace(0, 1, 7)))
show("prediction", found.mean, found.variance)


def coin(data):
    fairness = pyro.sample("fairness", distributions.Beta(10.0, 10.0))
    with pyro.plate("flips", len(data)):
        pyro.sample("flip", distributions.Bernoulli(fairness), obs=data)


def guide(data):
    a = pyro.param("a", torch.tensor(15.0), constraint=torch.distributions.constraints.positive)
    b = pyro.param("b", torch.tensor(15.0), constraint=torch.distributions.constraints.positive)
    pyro.sample("fairness", distributions.Beta(a, b))


pyro.set_rng_seed(1)
flips = torch.tensor([1.0] * 14 + [0.0] * 6)
inference = SVI(coin, guide, pyro.optim.Adam({"lr": 0.01}), loss=Trace_ELBO())
losses = [inference.step(flips) for _ in range(60)]
show("inference", sum(losses[:20]) / 20, sum(losses[-20:]) / 20, pyro.param("a").item(), pyro.param("b").item())
