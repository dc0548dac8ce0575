"""Steps in the parameter's own unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._functional import step_lists
from .optimizer import RuleOptimizer, check_lr, check_non_negative

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]


class Adadelta(RuleOptimizer):
    """Steps of ``sqrt(average of steps ** 2 + eps) / sqrt(average of g ** 2 + eps) * g``, times lr.

    Args:
        rho: decay rate of both averages.
        weight_decay: factor of the parameter added to its gradient.
        foreach: accepted; one kernel updates a parameter and its state, whatever they say.
        capturable: for accelerators only; a step on the CPU raises AssertionError.
        differentiable: record the step, for parameters that are results of ops.
    """

    _state_names = ("square_avg", "acc_delta")

    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
                 foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check_lr("Adadelta", lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Adadelta: rho must be in [0, 1], got {rho}")
        check_non_negative("Adadelta", eps=eps, weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
            },
        )  # fmt: skip

    def _update(self, group, param, grad, state, step):
        states = (state["square_avg"], state["acc_delta"])
        return self._run("adadelta", group, param, grad, states, (group["lr"], group["rho"], group["eps"]))


def adadelta(params: Any, grads: Sequence[Tensor], square_avgs: Sequence[Tensor], acc_deltas: Sequence[Tensor],
             state_steps: Sequence[Tensor], capturable: bool = False, foreach: bool | None = None, differentiable: bool = False,
             has_complex: bool = False, *, lr: float, rho: float, eps: float, weight_decay: float,
             maximize: bool) -> None:  # fmt: skip
    """One step of `Adadelta` on lists: updates parameters, averages and step counters in place."""
    group = {
        "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
    }  # fmt: skip
    step_lists(Adadelta, group, params, grads, {"square_avg": square_avgs, "acc_delta": acc_deltas}, state_steps)
