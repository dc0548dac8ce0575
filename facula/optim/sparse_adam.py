"""Adam for gradients that touch few rows."""

from __future__ import annotations

import facula

from .optimizer import Optimizer, check_lr, check_non_negative, check_rates

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """`Adam` that leaves rows without gradient, and their averages, as they are.

    Rows are those of the first dimension, as in an embedding with ``sparse=True``. Facula's gradients are dense: a row
    counts as touched when any of its elements is not zero.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        check_lr("SparseAdam", lr)
        if not 0.0 < lr:
            raise ValueError(f"SparseAdam: lr must be above 0, got {lr}")
        check_non_negative("SparseAdam", eps=eps)
        check_rates("SparseAdam", betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure=None):
        """Updates the touched rows of all parameters that have a gradient; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        with facula.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._update(group, param, -param.grad if group["maximize"] else param.grad)
        return loss

    def _update(self, group, param, grad):
        state = self.state[param]
        if not state:
            state["step"] = 0
            state["exp_avg"] = facula.zeros_like(param, memory_format=facula.preserve_format)
            state["exp_avg_sq"] = facula.zeros_like(param, memory_format=facula.preserve_format)
        state["step"] += 1
        rows = (grad if grad.dim() < 2 else grad.flatten(1).any(1)).nonzero().flatten()
        if rows.numel() == 0:
            return
        (beta1, beta2), step = group["betas"], state["step"]
        values = grad[rows]
        mean = state["exp_avg"][rows].lerp(values, 1 - beta1)
        square = state["exp_avg_sq"][rows].lerp(values * values, 1 - beta2)
        state["exp_avg"][rows] = mean
        state["exp_avg_sq"][rows] = square
        size = group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        param[rows] -= size * mean / (square.sqrt() + group["eps"])
