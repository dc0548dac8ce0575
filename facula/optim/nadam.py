"""Adam with Nesterov momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._functional import step_lists
from .optimizer import RuleOptimizer, check_lr, check_non_negative, check_rates, counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["NAdam", "nadam"]


class NAdam(RuleOptimizer):
    """`Adam` that looks ahead along its first average, with a momentum that grows to betas[0].

    Args:
        weight_decay: factor of the parameter added to its gradient, or, with ``decoupled_weight_decay``,
            (times lr) taken from the parameter itself.
        momentum_decay: how fast the momentum grows.
        foreach: accepted; one kernel updates a parameter and its state, whatever they say.
        capturable: for accelerators only; a step on the CPU raises AssertionError.
        differentiable: record the step, for parameters that are results of ops.
    """

    _state_names = ("exp_avg", "exp_avg_sq")
    _counters = ("step", "mu_product")

    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False,
                 *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check_lr("NAdam", lr)
        check_non_negative("NAdam", eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_rates("NAdam", betas)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
                "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def _start(self, group, param):
        state = super()._start(group, param)
        averages = {name: state.pop(name) for name in self._state_names}
        state["mu_product"] = facula.ones_like(state["step"])
        state.update(averages)
        return state

    def _update(self, group, param, grad, state, step):
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        product = counted(group, state["mu_product"])
        decoupled = group["decoupled_weight_decay"]
        numbers = (
            1 - lr * decay if decoupled else 1.0, 1 - beta1, beta2, 1 - beta2**step, group["eps"],
            lr * (1.0 - mu) / (1.0 - product), lr * mu_next / (1.0 - product * mu_next),
        )  # fmt: skip
        states = (state["exp_avg"], state["exp_avg_sq"])
        return self._run("nadam", group, param, grad, states, numbers, 0.0 if decoupled else decay)


def nadam(params: Any, grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor],
          mu_products: Sequence[Tensor], state_steps: Sequence[Tensor], decoupled_weight_decay: bool = False,
          foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, has_complex: bool = False,
          maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float, momentum_decay: float,
          eps: float) -> None:  # fmt: skip
    """One step of `NAdam` on lists: updates parameters, averages, products and step counters in place."""
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
        "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
        "capturable": capturable, "differentiable": differentiable,
    }  # fmt: skip
    lists = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "mu_product": mu_products}
    step_lists(NAdam, group, params, grads, lists, state_steps)
