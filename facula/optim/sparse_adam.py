"""Adam for sparse gradients."""

from __future__ import annotations

from .optimizer import Optimizer, check_lr, check_non_negative, check_rates

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """`Adam` that touches only the rows of sparse gradients; a step needs the sparse layout, which is missing."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        check_lr("SparseAdam", lr)
        check_non_negative("SparseAdam", eps=eps)
        check_rates("SparseAdam", betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure=None):
        """Raises NotImplementedError: there are no sparse gradients to apply."""
        raise NotImplementedError("SparseAdam: sparse gradients are not implemented, got a call of step")
