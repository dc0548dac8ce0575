"""Adam with the infinity norm."""

from __future__ import annotations

from .optimizer import RuleOptimizer, check_lr, check_non_negative, check_rates

__all__ = ["Adamax"]


class Adamax(RuleOptimizer):
    """`Adam` whose divisor is the decaying maximum of ``|g|``.

    Args:
        weight_decay: factor of the parameter added to its gradient.
        foreach, capturable: accepted; every step is one fused pass.
    """

    _state_names = ("exp_avg", "exp_inf")

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
        differentiable=False, capturable=False,
    ):  # fmt: skip
        check_lr("Adamax", lr)
        check_non_negative("Adamax", eps=eps, weight_decay=weight_decay)
        check_rates("Adamax", betas)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _update(self, group, param, grad, state, step):
        beta1, beta2 = group["betas"]
        numbers = (1 - beta1, beta2, group["lr"] / (1 - beta1**step), group["eps"])
        self._run("adamax", group, param, grad, (state["exp_avg"], state["exp_inf"]), numbers)
