"""Adam with the infinity norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._functional import step_lists
from .optimizer import RuleOptimizer, check_lr, check_non_negative, check_rates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Adamax", "adamax"]


class Adamax(RuleOptimizer):
    """`Adam` whose divisor is the decaying maximum of ``|g|``.

    Args:
        weight_decay: factor of the parameter added to its gradient.
        foreach: accepted; one kernel updates a parameter and its state, whatever they say.
        capturable: for accelerators only; a step on the CPU raises AssertionError.
        differentiable: record the step, for parameters that are results of ops.
    """

    _state_names = ("exp_avg", "exp_inf")

    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:  # fmt: skip
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
        return self._run("adamax", group, param, grad, (state["exp_avg"], state["exp_inf"]), numbers)


def adamax(params: Any, grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_infs: Sequence[Tensor],
           state_steps: Sequence[Tensor], foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
           capturable: bool = False, has_complex: bool = False, *, eps: float, beta1: float, beta2: float, lr: float,
           weight_decay: float) -> None:  # fmt: skip
    """One step of `Adamax` on lists: updates parameters, states and step counters in place."""
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
    }  # fmt: skip
    step_lists(Adamax, group, params, grads, {"exp_avg": exp_avgs, "exp_inf": exp_infs}, state_steps)
