"""Run programs of science: Gaussian processes, equations as losses, graphs, simulated control."""

from __future__ import annotations

import gpytorch
import gymnasium
import numpy
import torch
from kinds import Step, application, fill, normal, trained


class Curve(gpytorch.models.ExactGP):
    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood) -> None:
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: torch.Tensor):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


@application("exact Gaussian process, 400 points")
def gaussian_process() -> Step:
    x = torch.linspace(0, 1, 400)
    y = torch.sin(6 * x) + 0.1 * normal(400)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Curve(x, y, likelihood)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return trained(model, optimizer, lambda: -marginal(model(x), y))


@application("physics-informed network: heat equation, 1,024 points, second derivatives")
def heat_equation() -> Step:
    nn = torch.nn
    layers = [nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1)]
    model = fill(nn.Sequential(*layers))
    points = torch.sigmoid(normal(1024, 2)).requires_grad_()

    def loss() -> torch.Tensor:
        u = model(points)
        first = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 0].sum(), points, create_graph=True)[0]
        return (first[:, 1] - 0.1 * second[:, 0]).square().mean() + (u - torch.sin(3 * points[:, :1])).square().mean()

    return trained(model, torch.optim.Adam(model.parameters(), lr=1e-3), loss)


@application("graph convolution of two layers on 2,708 nodes with 1,433 features")
def graph_convolution() -> Step:
    generator = numpy.random.default_rng(3)
    edges = torch.from_numpy(generator.integers(0, 2708, (2, 10556)))
    near = torch.sparse_coo_tensor(edges, torch.full((10556,), 0.25), (2708, 2708)).coalesce()
    features, labels = (normal(2708, 1433) > 2).float(), torch.from_numpy(generator.integers(0, 7, 2708))
    first, second = fill(torch.nn.Linear(1433, 16)), fill(torch.nn.Linear(16, 7))
    model = torch.nn.ModuleList([first, second])

    def loss() -> torch.Tensor:
        hidden = torch.relu(torch.sparse.mm(near, first(features)))
        return torch.nn.functional.cross_entropy(torch.sparse.mm(near, second(hidden)), labels)

    return trained(model, torch.optim.Adam(model.parameters(), lr=0.01), loss)


class Actor(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def play(world, actor: Actor, count: int) -> list[torch.Tensor]:
    """Return states, actions, their log-probabilities, values and rewards of so many moves."""
    rows, state = [], world.reset(seed=0)[0]
    for _ in range(count):
        seen = torch.as_tensor(state)
        with torch.no_grad():
            choice = torch.distributions.Categorical(logits=actor.policy(seen))
            action = choice.sample()
            rows.append((seen, action, choice.log_prob(action), actor.value(seen).squeeze(-1)))
        state, reward, ended, cut, _ = world.step(action.item())
        rows[-1] += (torch.tensor(float(reward)),)
        if ended or cut:
            state = world.reset()[0]
    return [torch.stack(column) for column in zip(*rows)]


@application("PPO on CartPole: 256 moves, 4 passes in parts of 64", exact=False)
def ppo() -> Step:
    world, actor = gymnasium.make("CartPole-v1"), Actor()
    optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)

    def step() -> float:
        states, actions, before, values, rewards = play(world, actor, 256)
        gained = rewards.flip(0).cumsum(0).flip(0)
        gained = (gained - gained.mean()) / (gained.std() + 1e-8)
        for _ in range(4):
            for part in torch.randperm(256).split(64):
                choice = torch.distributions.Categorical(logits=actor.policy(states[part]))
                ratio = (choice.log_prob(actions[part]) - before[part]).exp()
                advantage = gained[part] - values[part]
                bounded = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
                missed = (actor.value(states[part]).squeeze(-1) - gained[part]).square().mean()
                loss = -bounded.mean() + 0.5 * missed - 0.01 * choice.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
                optimizer.step()
        return loss.item()

    return step


@application("Rosenbrock's function of 100 variables by LBFGS, 20 iterations")
def lbfgs() -> Step:
    def step() -> float:
        x = torch.full((100,), -1.2, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([x], max_iter=20, line_search_fn="strong_wolfe")

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).item()

    return step
