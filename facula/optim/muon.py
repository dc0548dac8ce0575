"""Define Muon, which makes the momentum orthogonal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula
from facula import _C

from ._arguments import check_lr, check_non_negative
from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Muon"]


def _orthogonal(matrix, coefficients, steps: int, eps: float):
    """Return about the nearest orthogonal matrix, by Newton-Schulz iteration in bfloat16."""
    if steps >= 100:
        raise ValueError(f"Muon: ns_steps must be below 100, got {steps}")
    if len(coefficients) != 3:
        raise ValueError(f"Muon: ns_coefficients are three numbers, got {len(coefficients)}")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.bfloat16()
    # The Gram matrix is then the smaller one of the two.
    x = x.t() if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = facula.addmm(x, facula.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


# adjust_lr_fn -> factor of the rate for a matrix of (rows, columns)
_RATE_FACTORS = {
    None: lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


class Muon(Optimizer):
    """Make steps along the orthogonal matrix nearest to the momentum.

    It is meant for the matrices of hidden layers; train the other parameters with `AdamW`.

    Args:
        params: matrices, or groups of them.
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: the factor of the parameter that is subtracted from it at each step, times lr.
        momentum: the decay rate of the average of gradients.
        nesterov: if True, look ahead along the momentum.
        ns_coefficients: the three coefficients of the polynomial of the Newton-Schulz iteration.
        eps: the smallest norm by which a matrix is divided first.
        ns_steps: the number of iterations, below 100.
        adjust_lr_fn: how the rate depends on the shape: 'original', sqrt(max(1, rows / columns)), also for None; or
            'match_rms_adamw', 0.2 * sqrt(max(rows, columns)).

    Shapes: parameters p (rows, columns); ``momentum_buffer`` in ``state[p]`` has the shape of p.

    Errors: ValueError for options out of range, or parameters that are not 2-D; RuntimeError, at a step, for a complex one.

    >>> weight = torch.eye(2, requires_grad=True)
    >>> optimizer = torch.optim.Muon([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight.diag().round(decimals=2)
    tensor([0.8800, 0.8800], grad_fn=<RoundScaledBackward0>)
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: Sequence[float] = (3.4445, -4.7750, 2.0315), eps: float = 1e-7,
                 ns_steps: int = 5, adjust_lr_fn: Any = None) -> None:  # fmt: skip
        check_lr("Muon", lr)
        check_non_negative("Muon", momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in _RATE_FACTORS:
            raise ValueError(f"Muon: adjust_lr_fn must be {_C._one_of(adjust_lr_fn, ('original', 'match_rms_adamw'))}")
        super().__init__(
            params,
            {
                "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
            },
        )  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(f"Muon: parameters must be 2-D, got shape {tuple(p.shape)}")

    @facula.no_grad()
    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update all parameters that have a gradient; return the loss of the closure, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._update(group, param)
        return loss

    def _update(self, group, param) -> None:
        if param.is_complex():
            raise RuntimeError(f"Muon: complex parameters are not supported, got {param.dtype}")
        state, grad, lr = self.state[param], param.grad, float(group["lr"])
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = facula.zeros_like(grad, memory_format=facula.preserve_format)
        average = state["momentum_buffer"].lerp_(grad, 1 - group["momentum"])
        update = grad.lerp(average, group["momentum"]) if group["nesterov"] else average
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update, alpha=-lr * _RATE_FACTORS[group["adjust_lr_fn"]](*param.shape))
