"""Exported programs in both directions: PyTorch runs Facula's files, Facula runs PyTorch's. Needs PyTorch beside Facula.

    PYTHONPATH=. python benchmarks/export_both_ways.py            # all models
    PYTHONPATH=. python benchmarks/export_both_ways.py --only gpt

Each library builds the same models from one source, with its own numbers, exports them (static and with a batch that varies)
and writes inputs and results beside them; the other library loads and runs the file. Prints the largest differences.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = ("mlp", "conv", "gpt", "encoder", "unet", "vae", "norms", "indexing", "mixer")


def build(torch, name):
    """A module and its example inputs."""
    nn, f = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.a, self.b = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.Conv2d(b, b, 3, 1, 1, bias=False)
            self.na, self.nb = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
            self.short = nn.Conv2d(a, b, 1, stride, bias=False) if stride != 1 or a != b else None

        def forward(self, x):
            y = self.nb(self.b(f.relu(self.na(self.a(x)), inplace=True)))
            return f.relu(y + (self.short(x) if self.short is not None else x))

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm(x)).split(c, dim=2)
            q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in (q, k, v))
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(b, t, c)
            x = x + self.out(y)
            return x + self.mlp(self.norm2(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
            self.blocks = nn.ModuleList([Attention(32, 4) for _ in range(2)])
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)

        def forward(self, ids):
            x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return f.log_softmax(self.head(self.norm(x)), dim=-1)

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.mid = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
            self.up = nn.Conv2d(24, 3, 3, padding=1)

        def forward(self, x):
            a = f.silu(self.down(x))
            b = f.leaky_relu(self.mid(f.max_pool2d(a, 2)), 0.1)
            b = f.interpolate(b, scale_factor=2.0, mode="bilinear", align_corners=False)
            return torch.sigmoid(self.up(torch.cat([a, b], dim=1)))

    class Vae(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Linear(12, 8), nn.Linear(4, 12)

        def forward(self, x):
            mean, log = torch.chunk(self.enc(x), 2, dim=-1)
            z = mean + torch.exp(0.5 * log) * 0.5
            loss = -0.5 * torch.sum(1 + log - mean.pow(2) - log.exp(), dim=1).mean()
            return torch.tanh(self.dec(z)), loss

    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.group, self.instance, self.prelu = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.PReLU(4)

        def forward(self, x):
            y = self.prelu(self.instance(self.group(x)))
            y = f.pad(y, (1, 1, 0, 2), value=0.5).clamp(-1, 2)
            return f.adaptive_avg_pool2d(y, (2, 2)).flatten(1), y.amax(dim=(2, 3)), y.var(dim=1, keepdim=True).sqrt()

    class Indexing(nn.Module):
        def forward(self, x):
            y = x.clone()
            y[:, 0] = 2
            y[:, 1:3] += x[:, :2]
            best, where = y.topk(3, dim=1)
            one = f.one_hot(where, 6).float().sum(1)
            mask = torch.where(y > 0.5, y, torch.zeros_like(y)).masked_fill(y < 0.1, 1.0)
            wide = x.unsqueeze(1).expand(-1, 2, -1)
            return best, one, mask.cumsum(1), x[:, [0, 2]], 2 - y / (1 + y.abs()), y.gather(1, where), wide

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm = nn.Linear(4, 4), nn.Linear(8, 8), nn.LayerNorm(8)

        def forward(self, x):
            x = x + self.a(self.norm(x).permute(0, 2, 1)).permute(0, 2, 1)
            return torch.einsum("btc,bsc->bts", x, f.elu(self.b(x))).mean(dim=(1, 2)), torch.stack([x, x * 2], 1).squeeze(0)

    def conv():
        body = [nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(), Residual(8, 8, 1), Residual(8, 16, 2)]
        return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))

    def mlp():
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4), nn.Softmax(-1))

    models = {
        "mlp": lambda: (mlp(), torch.randn(3, 8)),
        "conv": lambda: (conv(), torch.randn(2, 3, 16, 16)),
        "gpt": lambda: (Gpt(), torch.randint(0, 50, (2, 16))),
        "encoder": lambda: (nn.Sequential(*[Attention(16, 2) for _ in range(2)]), torch.randn(2, 5, 16)),
        "unet": lambda: (Unet(), torch.randn(2, 3, 8, 8)),
        "vae": lambda: (Vae(), torch.randn(3, 12)),
        "norms": lambda: (Norms(), torch.randn(2, 4, 6, 6)),
        "indexing": lambda: (Indexing(), torch.rand(3, 6)),
        "mixer": lambda: (Mixer(), torch.randn(2, 4, 8)),
    }
    torch.manual_seed(0)
    module, x = models[name]()
    return module.eval(), x


def library(name):
    import importlib

    return importlib.import_module(name)


def leaves(torch, value):
    return [leaf.detach() for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def write(lib, folder, name):
    """Exports one model with a varying batch, and saves it with an input of another batch and its results."""
    import numpy as np

    torch = library(lib)
    export = library(f"{lib}.export")
    module, x = build(torch, name)
    argument = next(iter(__import__("inspect").signature(module.forward).parameters))
    ep = export.export(module, (x,), dynamic_shapes={argument: {0: export.Dim("batch", min=2, max=64)}})
    export.save(ep, str(Path(folder) / f"{name}.pt2"))
    x = torch.cat([x, x.flip(0)])
    results = leaves(torch, module(x))
    np.savez(Path(folder) / f"{name}.npz", x=x.numpy(), **{f"y{i}": y.numpy() for i, y in enumerate(results)})


def read(lib, folder, name):
    """Runs a file of the other library; the largest difference."""
    import numpy as np

    torch = library(lib)
    data = np.load(Path(folder) / f"{name}.npz")
    module = library(f"{lib}.export").load(str(Path(folder) / f"{name}.pt2")).module()
    found = leaves(torch, module(torch.from_numpy(data["x"])))
    assert len(found) == len(data.files) - 1, f"{len(found)} results, not {len(data.files) - 1}"
    return max(float(np.abs(y.numpy() - data[f"y{i}"]).max()) for i, y in enumerate(found))


def attempt(action, *args):
    try:
        return action(*args)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models with this in their names")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = [n for n in MODELS if options.only in n]
    if options.part:
        lib, action, folder = options.part
        for name in names:
            print(f"{name}\t{attempt(write if action == 'write' else read, lib, folder, name)}")
        return
    for writer, reader in (("facula", "torch"), ("torch", "facula")):
        with tempfile.TemporaryDirectory() as folder:
            for lib, action in ((writer, "write"), (reader, "read")):  # each library in a process of its own
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", __file__, "--only", options.only, "--part", lib, action, folder],
                    capture_output=True, text=True,
                )  # fmt: skip
                for line in done.stdout.splitlines():
                    name, _, result = line.partition("\t")
                    if action == "read" or result != "None":
                        print(f"{writer} to {reader}  {name:10} {action:6} {result}")


if __name__ == "__main__":
    main()
