"""Run torchdiffeq: solvers, with gradients directly and by the adjoint."""

import torch
from figures import array, check, show
from torchdiffeq import odeint, odeint_adjoint


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y) * torch.cos(t)


times, start = torch.linspace(0, 1, 5), array(3, 2)


def solved(solver, method):
    """Check a solver with a field of its own."""
    field = Field()
    check(f"{method} {solver.__name__}", field, call=lambda: solver(field, start, times, method=method))


for method in ("dopri5", "rk4", "euler", "midpoint", "adaptive_heun", "bosh3"):
    solved(odeint, method)
for method in ("dopri5", "rk4"):
    solved(odeint_adjoint, method)
show("exponential", odeint(lambda t, y: -y, torch.ones(1).double(), torch.tensor([0.0, 1.0]).double())[-1])
