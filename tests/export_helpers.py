"""What several files of tests of facula.export share."""

import numpy as np

import facula
import facula.nn.functional as F
from facula import nn


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-6)


def ops_of(program):
    return [node[0].split(".")[0] for node in program.program.nodes]


class Net(nn.Module):
    """Layers, buffers, indexing, writes, a constant, a dict of results."""

    def __init__(self):
        super().__init__()
        self.lin, self.norm, self.out = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)
        self.register_buffer("scale", facula.rand(16))
        self.register_buffer("shift", facula.rand(16), persistent=False)
        self.table = facula.rand(4)  # neither a parameter nor a buffer

    def forward(self, x, *, factor=None):
        y = F.relu(self.norm(self.lin(x))) * self.scale + self.shift
        y = facula.cat([y[:, :8], y[..., 8:].sigmoid()], 1)
        y = y.view(y.shape[0], 2, -1).transpose(1, 2).reshape(x.size(0), -1)
        y = 2 - y / 3
        if factor is not None:
            y = y * factor
        z = facula.zeros(y.shape[0], 16)
        z[:, 0] = 1
        z[:, 1:3] += y[:, 1:3]
        result = self.out(F.dropout(y + z, 0.5, self.training)).softmax(-1) + self.table + facula.tensor([1.0, 2, 3, 4])
        return {"out": result, "k": 3, "none": None}
