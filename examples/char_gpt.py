"""Trains a small GPT on the characters of a text, then lets it write.

    python examples/char_gpt.py [TEXT] [--steps 600] [--prompt "class "]

TEXT is any text file; without one, the model learns from the Python sources of facula.nn. Prints the loss in bits
per character on held-out text (8 would be a guess among 256 characters), and a sample.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from shared import progress, say

import facula as torch
from facula import nn
from facula.nn import functional as F

SOURCES = Path(__file__).parent.parent / "facula" / "nn" / "modules"


class Block(nn.Module):
    """Causal self-attention and a two-layer network, each added to what comes in."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return F.dropout(mixed, self.dropout, self.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CharGPT(nn.Module):
    """Scores of the next character, (N, T, vocabulary), for characters (N, T)."""

    def __init__(self, vocabulary: int, context: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.context = context
        self.characters = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self.initialize)
        self.head.weight = self.characters.weight

    @staticmethod
    def initialize(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.characters(x) + self.positions(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, start: torch.Tensor, length: int, temperature: float, top: int) -> torch.Tensor:
        """Append `length` characters to `start` (T,), each drawn among the `top` likeliest."""
        self.eval()
        text = start[None]
        for _ in range(length):
            scores = self(text[:, -self.context :])[:, -1] / temperature
            best, characters = scores.topk(min(top, scores.shape[1]))
            text = torch.cat([text, characters.gather(1, torch.multinomial(best.softmax(1), 1))], 1)
        return text[0]


def read(path: Path | None) -> str:
    """Return the text of a file, or of the sources."""
    if path is not None:
        return path.read_text(encoding="utf-8", errors="replace")
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted(SOURCES.glob("*.py")))


def batch(text: torch.Tensor, count: int, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random pieces of the text, and the same pieces one character later, each (count, context)."""
    starts = torch.randint(len(text) - context, (count, 1))
    places = starts + torch.arange(context)
    return text[places], text[places + 1]


def loss_of(model: CharGPT, text: torch.Tensor, count: int) -> torch.Tensor:
    """Return the cross-entropy of the next character on a batch, in nats."""
    inputs, targets = batch(text, count, model.context)
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


@torch.no_grad()
def evaluate(model: CharGPT, text: torch.Tensor, batches: int = 5) -> float:
    """Return the mean loss on held-out text, in bits per character."""
    model.eval()
    loss = sum(loss_of(model, text, 32).item() for _ in range(batches)) / batches
    model.train()
    return loss / math.log(2)


def rate_at(step: int, steps: int, peak: float) -> float:
    """Return the learning rate: up linearly for a twentieth of the steps, then down along a cosine to a tenth."""
    warm = max(steps // 20, 1)
    if step < warm:
        return peak * (step + 1) / warm
    return peak * (0.55 + 0.45 * math.cos(math.pi * (step - warm) / max(steps - warm, 1)))


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path, nargs="?", help="a text file")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=32, help="characters seen at once")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=4e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompt", default="class ")
    parser.add_argument("--length", type=int, default=300, help="characters to write at the end")
    parser.add_argument("--temperature", type=float, default=0.8)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    words = read(options.text)
    if len(words) < 20 * options.context:
        parser.error(f"the text is to have at least {20 * options.context} characters, got {len(words)}")
    alphabet = sorted(set(words + options.prompt))
    number = {character: i for i, character in enumerate(alphabet)}
    text = torch.tensor([number[character] for character in words])
    train_text, test_text = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]

    model = CharGPT(len(alphabet), options.context, options.width, options.layers, options.heads, options.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, betas=(0.9, 0.99), weight_decay=0.1)
    parameters = sum(p.numel() for p in model.parameters())
    say(f"{len(words)} characters, {len(alphabet)} different; {parameters} parameters")
    started = time.perf_counter()
    for step in range(options.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, options.steps, options.rate)
        optimizer.zero_grad()
        loss = loss_of(model, train_text, options.batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress("step", step + 1, options.steps, f"{loss.item() / math.log(2):.3f} bits per character")
        if (step + 1) % max(options.steps // 6, 1) == 0:
            held_out = evaluate(model, test_text)
            say(f"step {step + 1:5d}  training {loss.item() / math.log(2):.3f}  held out {held_out:.3f} bits per character")
    seconds = time.perf_counter() - started
    say(f"{seconds:.1f} s, {options.steps * options.batch * options.context / seconds:.0f} characters a second")

    start = torch.tensor([number[character] for character in options.prompt])
    written = model.write(start, options.length, options.temperature, top=20)
    say("\n" + "".join(alphabet[i] for i in written.tolist()))
    return evaluate(model, test_text)


if __name__ == "__main__":
    main()
