"""Steps from the signs of gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._functional import step_lists
from .optimizer import RuleOptimizer, check_lr

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


class Rprop(RuleOptimizer):
    """Each element has a step size that grows while its gradient keeps its sign, and shrinks when it turns.

    Args:
        lr: the first step size.
        etas: factors of the step size when the sign turned, and when it stayed.
        step_sizes: smallest and largest step size.
        foreach: accepted; one kernel updates a parameter and its state, whatever they say.
        capturable: for accelerators only; a step on the CPU raises AssertionError.
        differentiable: record the step, for parameters that are results of ops.
    """

    _state_names = ("prev",)

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, etas: Sequence[float] = (0.5, 1.2),
                 step_sizes: Sequence[float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        check_lr("Rprop", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Rprop: etas must be below and above 1, got {etas[0]} and {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _start(self, group, param):
        state = super()._start(group, param)
        lr = complex(group["lr"], group["lr"]) if param.is_complex() else group["lr"]
        state["step_size"] = facula.zeros_like(param).fill_(lr)
        return state

    def _update(self, group, param, grad, state, step):
        states = (state["prev"], state["step_size"])
        return self._run("rprop", group, param, grad, states, (*group["etas"], *group["step_sizes"]), 0.0)


def rprop(params: Any, grads: Sequence[Tensor], prevs: Sequence[Tensor], step_sizes: Sequence[Tensor],
          state_steps: Sequence[Tensor], foreach: bool | None = None, capturable: bool = False, maximize: bool = False,
          differentiable: bool = False, has_complex: bool = False, *, step_size_min: float, step_size_max: int, etaminus: float,
          etaplus: float) -> None:  # fmt: skip
    """One step of `Rprop` on lists: updates parameters, signs, step sizes and step counters in place."""
    group = {
        "etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max), "maximize": maximize,
        "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
    }  # fmt: skip
    step_lists(Rprop, group, params, grads, {"prev": prevs, "step_size": step_sizes}, state_steps)
