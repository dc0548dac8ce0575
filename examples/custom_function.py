"""Fits a line through points with outliers, with a loss whose derivative is written by hand: autograd.Function.

    python examples/custom_function.py [--steps 400]

The loss is log(cosh(r)) of the residual r: r^2 / 2 near zero, |r| - log 2 far away, so that outliers pull with a
bounded force. As written, cosh overflows at r = 89 in float32; the function below does not, and its derivative tanh(r)
costs one operation. gradcheck compares it with finite differences, first and second derivative.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

from shared import progress, say

import facula as torch
from facula.autograd import Function, gradcheck, gradgradcheck


class LogCosh(Function):
    """log(cosh(x)) for every element, shape kept; exact for large x, where cosh(x) is inf."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        size = x.abs()
        return size + torch.log1p(torch.exp(-2 * size)) - math.log(2)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * torch.tanh(x)


def make_points(count: int, outliers: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make points of y = 2 x - 1 with a little noise, and some points far above the line on the right."""
    x = torch.rand(count) * 10
    y = 2 * x - 1 + 0.3 * torch.randn(count)
    far = x.argsort(descending=True)[: 3 * outliers : 3]
    y[far] += 60 + 60 * torch.rand(outliers)
    return x, y


def fit(x: torch.Tensor, y: torch.Tensor, loss_of: Any, steps: int, title: str) -> tuple[float, float]:
    """Return the slope and offset of the line with the least mean loss of the residuals, by Adam."""
    line = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.Adam([line], lr=0.1)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = loss_of(line[0] * x + line[1] - y).mean()
        loss.backward()
        optimizer.step()
        progress(title, step, steps, f"loss {loss.item():.4f}")
    return line[0].item(), line[1].item()


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--outliers", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    x, y = make_points(options.points, options.outliers)
    sample = torch.randn(6, dtype=torch.float64, requires_grad=True)
    right = gradcheck(LogCosh.apply, sample) and gradgradcheck(LogCosh.apply, sample)
    say(f"derivatives agree with finite differences: {right}")
    squares = fit(x, y, torch.square, options.steps, "squares")
    robust = fit(x, y, LogCosh.apply, options.steps, "log cosh")
    for name, (slope, offset) in (("true line", (2.0, -1.0)), ("least squares", squares), ("log cosh", robust)):
        say(f"{name:14} y = {slope:.3f} x {'+' if offset >= 0 else '-'} {abs(offset):.3f}")
    return abs(robust[0] - 2)


if __name__ == "__main__":
    main()
