"""Modules that the tests of torch.fx trace, and what they look at."""

import facula as torch
from facula import fx, nn


def body(program, **kwargs):
    """The lines of the generated function."""
    lines = fx.symbolic_trace(program, **kwargs).code.strip().split("\n")
    return [line.strip() for line in lines]


def calls(program, **kwargs):
    return [
        (n.op, n.name, n._pretty_print_target(n.target), str(n.args), str(n.kwargs))
        for n in fx.symbolic_trace(program, **kwargs).graph.nodes
        if n.op not in ("placeholder", "output")
    ]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.scale = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x):
        return self.act(x) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.register_buffer("shift", torch.ones(3))
        self.number = 4

    def forward(self, x, factor=2, *, extra=None):
        x = self.lin(x) + self.shift
        for block in self.blocks:
            x = block(x)
        return {"out": x * factor, "rest": [x.shape[0], (x.t(), self.number)]}
