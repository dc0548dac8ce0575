"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

import facula
from facula import _C

from .optimizer import Optimizer, check_lr, check_non_negative, check_rates

__all__ = ["Adam"]


class Adam(Optimizer):
    """``p -= lr * m / (sqrt(v) + eps)`` with bias-corrected averages m of g and v of g ** 2.

    Args:
        betas: decay rates of the two averages.
        weight_decay: factor of the parameter added to its gradient, or, with ``decoupled_weight_decay``,
            (times lr) taken from the parameter itself.
        amsgrad: divide by the largest v so far.
        maximize: ascend.
        foreach, fused, capturable: accepted; every step is one fused pass.
    """

    _state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
        maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False,
    ):  # fmt: skip
        name = type(self).__name__
        check_lr(name, lr, foreach, capturable)
        check_non_negative(name, eps=eps, weight_decay=weight_decay)
        check_rates(name, betas)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
                "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    def _start(self, group, param):
        state = super()._start(group, param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = facula.zeros_like(param, memory_format=facula.preserve_format)
        return state

    def step(self, closure=None):
        """Updates all parameters that have a gradient; returns the closure's loss, or None."""
        loss = None if closure is None else self._evaluate(closure)
        for group in self.param_groups:
            _C._optim_adam(group, self.state, self._start)
        return loss
