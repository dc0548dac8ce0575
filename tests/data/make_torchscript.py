"""Writes torchscript_{script,trace}.pt: small archives of TorchScript, each with its inputs and outputs in an extra file.

Needs PyTorch 2.13, and is run by hand: `python tests/data/make_torchscript.py`.
"""

import io
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Color(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start

    def more(self, by: int) -> int:
        self.count += by
        return self.count


def scaled(x: Tensor, by: float = 2.0) -> Tensor:
    return x * by


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.color = 3, Color.BLUE
        self.conv, self.bn, self.fc = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.embedding, self.lstm = nn.Embedding(10, 4), nn.LSTM(4, 4, batch_first=True)
        self.register_buffer("shift", torch.ones(4))
        self.names = ["a", "b"]

    def forward(self, x, flag: bool = True, extra: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor], Pair]:
        h = self.fc(torch.relu(self.bn(self.conv(x))).mean((2, 3)))
        for layer in self.layers:
            h = layer(h)
        outs: list[Tensor] = []
        i = 0
        while i < self.steps:
            if i % 2 == 0 and flag:
                h = h + self.shift
            elif extra is not None:
                h = h * extra
            else:
                h = h - 1.5
            outs.append(h)
            i += 1
        if h.size(0) > 100:
            raise ValueError(f"too large: {h.size(0)}")
        if self.color == Color.BLUE:
            h = scaled(h, 0.5)
        counter = Counter(2)
        y, _ = self.lstm(torch.stack(outs, 1))
        d = {name: outs[k][..., 1:3] for k, name in enumerate(self.names)}
        return y * counter.more(3), d, Pair(h, torch.cat(outs[1:], dim=1).to(torch.float64))

    @torch.jit.export
    def look_up(self, ids: list[int]) -> Tensor:
        assert len(ids) > 0, "no ids"
        return self.embedding(torch.tensor(ids))


def packed(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def main():
    torch.manual_seed(0)
    home = Path(__file__).parent
    x = torch.randn(2, 3, 6, 6)
    net = torch.jit.script(Net().eval())
    y, d, pair = net(x)
    net.save(home / "torchscript_script.pt", _extra_files={"io": packed((x, y, d, tuple(pair), net.look_up([1, 2])))})
    chain = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU6(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2.0), nn.GELU(), nn.Flatten(),
        nn.Linear(64, 5), nn.Hardswish(inplace=True), nn.Softmax(-1),
    )  # fmt: skip
    traced = torch.jit.trace(chain.eval(), x)
    traced.save(home / "torchscript_trace.pt", _extra_files={"io": packed((x, traced(x)))})


if __name__ == "__main__":
    main()
