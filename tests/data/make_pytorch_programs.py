"""Writes pytorch_programs.zip: programs that PyTorch has exported, with inputs and results. Needs PyTorch.

    python tests/data/make_pytorch_programs.py

Each model is there in both dialects, as `export` leaves it and after `run_decompositions()`. Archives are deflated, and of the
metadata of nodes only the lines remain.
"""

from __future__ import annotations

import copy
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import map, scan, while_loop


class Attention(nn.Module):
    """A block with the embedding's weights in its head."""

    def __init__(self):
        super().__init__()
        self.words, self.qkv, self.out = nn.Embedding(11, 8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        b, t, c = x.shape
        q, k, v = (part.view(b, t, 2, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).split(8, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        return F.log_softmax(self.head(x + self.out(y)), -1)


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.group, self.out = nn.GroupNorm(2, 6), nn.Linear(6, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = F.avg_pool2d(F.gelu(self.group(x)), 2, 1)
        return F.softmax(self.out(F.adaptive_avg_pool2d(x, 1).flatten(1)), 1)


class Pads(nn.Module):
    def forward(self, x):
        padded = F.pad(x, (1, 2, 1, 0), mode="reflect"), F.pad(x, (1, 1, 1, 1), mode="replicate"), F.pad(x, (1, 0, 0, 1), value=2.0)
        larger = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False), F.interpolate(x, size=(7, 5))
        return *padded, *larger, F.adaptive_avg_pool2d(x, (3, 2))


class Mix(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[:, 0] = 2
        y[:, 1:3] += x[:, :2]
        best, where = y.topk(3, 1)
        masked = torch.where(y > 0.5, y, torch.zeros_like(y)).masked_fill(y < 0.1, 1.0)
        chosen = best, F.one_hot(where, 6).float().sum(1), masked.cumsum(1), x[:, [0, 2]], y.gather(1, where)
        numbers = 2 - y / (1 + y.abs()), torch.div(x, 0.3, rounding_mode="floor"), x * 3 - 1, torch.arange(x.shape[1]) + x
        reduced = torch.cdist(x, y), (x > 0.9).any(), x.std(1), y.var(dim=(0, 1), keepdim=True), x.to(torch.float64).sum()
        return *chosen, *numbers, *reduced, torch.full_like(x, float("inf")).clamp(max=3)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 4, num_layers=2, batch_first=True, bidirectional=True)
        self.gru, self.rnn = nn.GRU(8, 3, bias=False), nn.RNN(3, 2, nonlinearity="relu")

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return y, h, c, *self.rnn(self.gru(y)[0])


class Instance(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.prelu = nn.InstanceNorm2d(4, affine=True), nn.PReLU(4)
        self.up, self.grouped = nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1), nn.Conv2d(4, 4, 3, groups=2, dilation=2)

    def forward(self, x):
        x = self.prelu(self.norm(x))
        return self.up(x), F.hardswish(self.grouped(x)), F.leaky_relu(x).amax((2, 3)), F.elu(x).mean(1), F.silu(x).logsumexp(1)


class Scalars(nn.Module):
    def forward(self, x, n, k=2):
        return x * n + k, torch.zeros(x.shape[0] * 2, n)


class Training(nn.Module):
    """Batch norm that changes its statistics."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 5), nn.BatchNorm1d(5)

    def forward(self, x):
        return self.norm(self.linear(x)), self.norm.running_mean * 1


class Branches(nn.Module):
    """A branch that reads a parameter, in a branch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        inner = lambda x: torch.cond(x.mean() > 0.5, lambda x: x - self.linear(x), lambda x: x * 2, (x,))
        return torch.cond(x.sum() > 0, inner, lambda x: x.cos(), (x,))


class Loop(nn.Module):
    def forward(self, x):
        start = torch.zeros((), dtype=torch.int64), x * 1
        return while_loop(lambda i, y: (i < 3) & (y.sum() < 100), lambda i, y: (i + 1, y * 2 + x), start)


class EveryRow(nn.Module):
    def forward(self, x, y):
        return map(lambda row, other: (row.sin() + other, row * 2), x, y)


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))

    def forward(self, first, rows):
        return scan(lambda c, row: (c + row * self.weight, c * row), first, rows)


class Views(nn.Module):
    """A buffer written through views, and a region without gradients."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(4, 4))

    def forward(self, x):
        self.table[1:3].t()[0].add_(x.mean())
        y = x.clone()
        y[:, ::2].relu_()
        y.view(-1)[0] = 3
        with torch.no_grad():
            z = x.exp() * 2
        return y * z, self.table * 2


def models():
    """Name to (module, arguments, dynamic shapes)."""
    batch = torch.export.Dim("batch", min=2, max=64)
    return {
        "attention": (Attention().eval(), (torch.randint(0, 11, (3, 5)),), {"ids": {0: batch}}),
        "conv": (Conv().eval(), (torch.randn(2, 3, 12, 12),), {"x": {0: batch}}),
        "pads": (Pads(), (torch.randn(2, 3, 4, 5),), None),
        "mix": (Mix(), (torch.rand(4, 6),), None),
        "recurrent": (Recurrent().eval(), (torch.randn(2, 3, 5),), None),
        "instance": (Instance().eval(), (torch.randn(2, 4, 7, 7),), None),
        "scalars": (Scalars(), (torch.randn(3, 2), 4), None),
        "training": (Training(), (torch.randn(4, 6),), None),
        "cond": (Branches(), (torch.rand(2, 3),), {"x": {0: batch}}),
        "while_loop": (Loop(), (torch.rand(2, 3),), {"x": {0: batch}}),
        "map": (EveryRow(), (torch.rand(4, 3), torch.rand(3)), None),
        "scan": (Running(), (torch.rand(3), torch.rand(5, 3)), None),
        "views": (Views(), (torch.randn(4, 6),), None),
    }


def archive_of(program):
    """The bytes of its file, smaller."""
    file, smaller = io.BytesIO(), io.BytesIO()
    torch.export.save(program, file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for info in old.infolist():
            data = old.read(info)
            if "/models/" in info.filename:
                model = json.loads(data)
                for node in model["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {k: v for k, v in node["metadata"].items() if k == "stack_trace"}
                data = json.dumps(model).encode()
            new.writestr(info.filename, data)
    return smaller.getvalue()


def arrays_of(arguments, results):
    """The bytes of an .npz: x0, x1, ... and y0, y1, ..."""
    file = io.BytesIO()
    arrays = {f"x{i}": np.asarray(a) for i, a in enumerate(arguments)}
    leaves = torch.utils._pytree.tree_leaves(results)
    np.savez_compressed(file, **arrays, **{f"y{i}": y.detach().numpy() for i, y in enumerate(leaves)})
    return file.getvalue()


def main():
    torch.manual_seed(0)
    path = Path(__file__).parent / "pytorch_programs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as all_of_them:
        for name, (module, arguments, shapes) in models().items():
            program = torch.export.export(copy.deepcopy(module), arguments, dynamic_shapes=shapes)
            all_of_them.writestr(f"{name}.training.pt2", archive_of(program))
            all_of_them.writestr(f"{name}.core.pt2", archive_of(program.run_decompositions()))
            all_of_them.writestr(f"{name}.npz", arrays_of(arguments, copy.deepcopy(module)(*arguments)))


if __name__ == "__main__":
    main()
