"""Exchange exported programs in both directions: PyTorch runs Facula's files, and Facula runs PyTorch's. This needs
PyTorch beside Facula.

    PYTHONPATH=. python benchmarks/export_both_ways.py            # small models, a batch that varies
    PYTHONPATH=. python benchmarks/export_both_ways.py --only gpt
    PYTHONPATH=. python benchmarks/export_both_ways.py --zoo      # sixty models of torchvision, timm and transformers

Each library builds the same models from one source, with its own numbers, exports them and writes inputs and results beside
them; the other library loads and runs the file. Prints the largest differences, of `--zoo` those divided by the largest result,
and writes those to a file (`--json`). There is a process for each library, which does what it reads from its input.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import model_zoo

MODELS = ("mlp", "conv", "gpt", "encoder", "unet", "vae", "norms", "indexing", "mixer")


def build(torch, name):
    """Return a module and its example inputs."""
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


def write(lib, folder, name, zoo):
    """Export a model, and save it with an input and its results; small ones with a varying batch, and another batch."""
    import numpy as np

    torch = library(lib)
    export = library(f"{lib}.export")
    module, args = model_zoo.built(torch, name) if zoo else build(torch, name)
    start = time.perf_counter()
    if zoo:
        x, shapes = args[0], None
    else:
        x, argument = args, next(iter(inspect.signature(module.forward).parameters))
        shapes = {argument: {0: export.Dim("batch", min=2, max=64)}}
    with torch.no_grad():
        ep = export.export(module.eval(), (x,), dynamic_shapes=shapes)
        seconds = time.perf_counter() - start
        export.save(ep, str(Path(folder) / "model.pt2"))
        x = x if zoo else torch.cat([x, x.flip(0)])
        results = leaves(torch, module(x))
    np.savez(Path(folder) / "model.npz", x=x.numpy(), **{f"y{i}": y.numpy() for i, y in enumerate(results)})
    return f"exported in {seconds:.2f} s"


def read(lib, folder, name, zoo):
    """Run a file of the other library; return the largest difference."""
    import numpy as np

    torch = library(lib)
    if zoo:
        model_zoo.prepare(name)
    data = np.load(Path(folder) / "model.npz")
    module = library(f"{lib}.export").load(str(Path(folder) / "model.pt2")).module()
    with torch.no_grad():
        found = leaves(torch, module(torch.from_numpy(data["x"])))
    assert len(found) == len(data.files) - 1, f"{len(found)} results, not {len(data.files) - 1}"
    worst = 0.0
    for i, y in enumerate(found):
        y, wanted = y.numpy(), data[f"y{i}"]
        assert y.shape == wanted.shape and y.dtype == wanted.dtype, f"{y.dtype}{y.shape}, not {wanted.dtype}{wanted.shape}"
        difference = np.abs(y.astype("f8") - wanted).max(initial=0)
        worst = max(worst, float(difference / max(np.abs(wanted).max(initial=0), 1e-30) if zoo else difference))
    assert worst == worst, "nan"
    return f"{worst:.1e}"


def serve(lib, zoo):
    """Do what its input says, line by line: "write folder model", "read folder model"."""
    warnings.simplefilter("ignore")
    if lib == "torch" and zoo:
        try:
            library("torchvision")
        except RuntimeError:  # where torchvision's own library does not load, its Python still asks for these
            library_of = library("torch").library.Library("torchvision", "DEF")
            library_of.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            library_of.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    elif zoo:
        library("facula.compat").install()
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        action, folder, name = line.split()
        try:
            answer = (write if action == "write" else read)(lib, folder, name, zoo)
        except Exception as error:
            if "--trace" in sys.argv:
                traceback.print_exc()
            answer = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        print(answer, file=answers, flush=True)


class Server:
    """Run the process of one library, and start another one after it has died."""

    def __init__(self, lib, options):
        command = [sys.executable, "-W", "ignore", __file__, "--serve", lib]
        self.command = command + ["--zoo"] * options.zoo + ["--trace"] * options.trace
        self.lib, self.process = lib, None

    def ask(self, *words):
        if self.process is None or self.process.poll() is not None:
            quiet = None if "--trace" in self.command else subprocess.DEVNULL
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True
            )
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip() or "the process died"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models with this in their names")
    parser.add_argument("--models", nargs="*", help="their names")
    parser.add_argument("--zoo", action="store_true", help="sixty models of others")
    parser.add_argument("--way", choices=("facula", "torch", "both"), default="both", help="who writes")
    parser.add_argument("--json", help="a file to add the results to")
    parser.add_argument("--trace", action="store_true", help="show where errors come from")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.zoo)
    names = options.models or [n for n in (model_zoo.NAMES if options.zoo else MODELS) if options.only in n]
    servers = {lib: Server(lib, options) for lib in ("facula", "torch")}
    results = {}
    for name in names:
        for writer, reader in (("facula", "torch"), ("torch", "facula")):
            if options.way not in ("both", writer):
                continue
            with tempfile.TemporaryDirectory() as folder:
                answer = servers[writer].ask("write", folder, name)
                took = answer if answer.startswith("exported") else ""
                if took:
                    answer = servers[reader].ask("read", folder, name)
                results.setdefault(name, {})[f"{writer} to {reader}"] = answer if took else f"export: {answer}"
                print(f"{writer:6} to {reader:6} {name:34} {answer}  {took}", flush=True)
        note(results, options)
    for server in servers.values():
        if server.process:
            server.process.stdin.close()
            server.process.wait()
    report(note(results, options))


def _good(text):
    with contextlib.suppress(ValueError):
        return float(text) <= 1e-5
    return False


def note(results, options):
    """Add what was found to the file; return all that is there then."""
    if not options.json:
        return results
    path = Path(options.json)
    known = json.loads(path.read_text()) if path.exists() else {}
    for name, found in results.items():
        known.setdefault(name, {}).update(found)
    path.write_text(json.dumps(known, indent=1) + "\n")
    return known


def report(results):
    """Print how many agree."""
    for way in ("facula to torch", "torch to facula"):
        found = [r[way] for r in results.values() if way in r]
        print(f"{way}: {sum(map(_good, found))} of {len(found)} within 1e-5")


if __name__ == "__main__":
    main()
