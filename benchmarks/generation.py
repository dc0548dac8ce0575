"""Generate text, one token at a time, and measure how fast the steps of a decoder read its weights, beside PyTorch's.

    python benchmarks/generation.py [--threads 1] [--level v3] [--rounds 15] [--only TEXT] [--json FILE]

Needs PyTorch beside Facula. A decoder of twelve layers, 768 wide (GPT-2 small), answers one token after another with a cache of
keys and values; both libraries run the same source by turns. Its weights are of float32, of bfloat16, of int8 with inputs that
are rounded as well (`quantize_dynamic`), and of int8 with inputs that are not (`_weight_int8pack_mm`). Every step reads all of
them but the rows of the embedding: `share` is their bytes over the time, as a share of the bytes that a copy in memory reads
and writes in that time. `ratio` is PyTorch's time over Facula's.
"""

from __future__ import annotations

import copy
import importlib
import warnings

import torch
from machine import row_options, save_rows

import facula

LAYERS, WIDTH, HEADS, VOCABULARY, TOKENS = 12, 768, 12, 50257, 8
KINDS = ("float32", "bfloat16", "int8 dynamic", "int8 weights")


def decoder(m):
    nn, F = m.nn, m.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x, cache):
            q, k, v = (t.view(1, 1, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, -1))
            k, v = (m.cat(both, 2) for both in zip(cache, (k, v)))
            y = F.scaled_dot_product_attention(q, k, v)
            x = x + self.out(y.transpose(1, 2).reshape(1, 1, WIDTH))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), (k, v)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.pieces = nn.Embedding(VOCABULARY, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, token, caches):
            x = self.pieces(token)
            for i, block in enumerate(self.blocks):
                x, caches[i] = block(x, caches[i])
            return self.head(self.norm(x)).argmax(-1)

    return Decoder().eval()


def with_int8_weights(m, model):
    """Make linear layers hold levels and a scale for each row."""

    class Layer(m.nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.scales = linear.weight.detach().abs().amax(1) / 127
            self.levels = (linear.weight.detach() / self.scales[:, None]).round().to(m.int8)
            self.bias = linear.bias

        def forward(self, x):
            y = m._weight_int8pack_mm(x.view(-1, x.shape[-1]), self.levels, self.scales).view(*x.shape[:-1], -1)
            return y if self.bias is None else y + self.bias

    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is m.nn.Linear:
                setattr(module, name, Layer(child))
    return model


def models(m, only: str) -> dict:
    m.manual_seed(0)
    plain = decoder(m)
    quantization = importlib.import_module(f"{m.__name__}.ao.quantization")
    made = {
        "float32": lambda: plain,
        "bfloat16": lambda: copy.deepcopy(plain).bfloat16(),
        "int8 dynamic": lambda: quantization.quantize_dynamic(plain, {m.nn.Linear}, dtype=m.qint8),
        "int8 weights": lambda: with_int8_weights(m, copy.deepcopy(plain)),
    }
    return {kind: made[kind]() for kind in KINDS if only in kind}


def answer(m, model, kind: str):
    """Generate some tokens after a beginning of 64."""
    dtype = m.bfloat16 if kind == "bfloat16" else m.float32
    token = m.zeros(1, 1, dtype=m.int64)
    empty = m.zeros(1, HEADS, 64, WIDTH // HEADS, dtype=dtype)
    caches = [(empty, empty)] * LAYERS
    with m.inference_mode():
        for _ in range(TOKENS):
            token = model(token, caches)


def copying(clock) -> float:
    """Return the bytes that a copy of 128 MiB reads and writes in a second, the better library's."""
    best = float("inf")
    for m in (facula, torch):
        a, b = m.ones(1 << 25), m.zeros(1 << 25)
        for _ in range(12):
            start = clock()
            b.copy_(a)
            best = min(best, clock() - start)
    return 2 * 4 * (1 << 25) / best


def main():
    options, clock = row_options(__doc__, rounds=15)
    warnings.simplefilter("ignore")  # PyTorch announces that it will give quantization up
    rate = copying(clock)
    print(f"a copy in memory: {rate / 1e9:.1f} GB/s, read and written", flush=True)
    layers = LAYERS * 12 * WIDTH * WIDTH + WIDTH * VOCABULARY  # weights of the products
    rows = []
    ours, theirs = models(facula, options.only), models(torch, options.only)
    for kind in ours:
        best = {facula: float("inf"), torch: float("inf")}
        for i in range(options.rounds + 2):
            for m, model in ((facula, ours[kind]), (torch, theirs[kind])):
                start = clock()
                answer(m, model, kind)
                if i >= 2:  # weights are put in order when they are seen again
                    best[m] = min(best[m], (clock() - start) / TOKENS)
        size = layers * {"float32": 4, "bfloat16": 2}.get(kind, 1)
        own, other = best[facula], best[torch]
        print(
            f"{kind:13} {own * 1e3:7.2f} ms a token  {size / own / 1e9:5.1f} GB/s  share {size / own / rate:5.2f}  "
            f"ratio {other / own:5.2f}",
            flush=True,
        )
        share = round(size / own / rate, 3)
        rows.append({"name": kind, "share": share, "ratio": round(other / own, 3), "seconds": {"facula": own, "torch": other}})
    save_rows(options, rows)


if __name__ == "__main__":
    main()
