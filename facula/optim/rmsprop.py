"""Steps scaled by a running average of squared gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._functional import step_lists
from .optimizer import RuleOptimizer, check_lr, check_non_negative

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(RuleOptimizer):
    """``p -= lr * g / (sqrt(average of g ** 2) + eps)``, with momentum if wanted.

    Args:
        alpha: decay rate of the average.
        centered: subtract the squared average of g under the root.
        weight_decay: factor of the parameter added to its gradient.
        foreach: accepted; one kernel updates a parameter and its state, whatever they say.
        capturable: for accelerators only; a step on the CPU raises AssertionError.
        differentiable: record the step, for parameters that are results of ops.
    """

    _state_names = ("square_avg",)

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        check_lr("RMSprop", lr)
        check_non_negative("RMSprop", eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def _start(self, group, param):
        state = super()._start(group, param)
        if group["momentum"] > 0:
            state["momentum_buffer"] = facula.zeros_like(param, memory_format=facula.preserve_format)
        if group["centered"]:
            state["grad_avg"] = facula.zeros_like(param, memory_format=facula.preserve_format)
        return state

    def _update(self, group, param, grad, state, step):
        buffer = state["momentum_buffer"] if group["momentum"] > 0 else None
        average = state["grad_avg"] if group["centered"] else None
        numbers = (group["lr"], group["alpha"], group["eps"], group["momentum"])
        return self._run("rmsprop", group, param, grad, (state["square_avg"], buffer, average), numbers)


def rmsprop(params: Any, grads: Sequence[Tensor], square_avgs: Sequence[Tensor], grad_avgs: Sequence[Tensor],
            momentum_buffer_list: Sequence[Tensor], state_steps: Sequence[Tensor], foreach: bool | None = None,
            maximize: bool = False, differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *,
            lr: float, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool) -> None:  # fmt: skip
    """One step of `RMSprop` on lists: updates parameters, averages, buffers and step counters in place."""
    group = {
        "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay,
        "capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
    }  # fmt: skip
    lists = {
        "square_avg": square_avgs, "grad_avg": grad_avgs if centered else None,
        "momentum_buffer": momentum_buffer_list if momentum > 0 else None,
    }  # fmt: skip
    step_lists(RMSprop, group, params, grads, lists, state_steps)
