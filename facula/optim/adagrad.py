"""Steps scaled by all squared gradients so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._functional import step_lists
from .optimizer import RuleOptimizer, check_lr, check_non_negative, step_counter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]


class Adagrad(RuleOptimizer):
    """``p -= lr * g / (sqrt(sum of g ** 2) + eps)``.

    Args:
        lr_decay: the rate is ``lr / (1 + steps * lr_decay)``.
        weight_decay: factor of the parameter added to its gradient.
        initial_accumulator_value: where the sum starts.
        foreach, fused: accepted; one kernel updates a parameter and its state, whatever they say.
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        check_lr("Adagrad", lr)
        check_non_negative(
            "Adagrad", lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps,
        )  # fmt: skip
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "fused": fused,
            },
        )  # fmt: skip
        # The sums exist from the beginning, so that they can be shared.
        for group in self.param_groups:
            for param in group["params"]:
                self._start(group, param)

    def _start(self, group, param):
        value = group["initial_accumulator_value"]
        if param.is_complex():
            value = complex(value, value)
        state = self.state[param]
        state["step"] = step_counter()
        state["sum"] = facula.zeros_like(param, memory_format=facula.preserve_format).fill_(value)
        return state

    def share_memory(self) -> None:
        """Moves the sums to memory that other processes see."""
        for state in self.state.values():
            state["sum"].share_memory_()

    @facula.no_grad()
    def _update_sparse(self, group, param, grad):
        """A step with a sparse gradient, in ops: of the rows that it has."""
        if group["weight_decay"]:
            got = group["weight_decay"]
            raise RuntimeError(f"Adagrad: weight_decay option is not compatible with sparse gradients, got {got}")
        state = self.state[param] or self._start(group, param)
        state["step"] += 1
        grad = (-grad if group["maximize"] else grad).coalesce()
        values, places = grad._values(), grad._indices()
        state["sum"].add_(facula.sparse_coo_tensor(places, values * values.conj(), grad.shape, is_coalesced=True))
        size = float(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        deviation = state["sum"].sparse_mask(grad)._values().sqrt() + group["eps"]
        param.add_(facula.sparse_coo_tensor(places, values / deviation, grad.shape, is_coalesced=True), alpha=-size)

    def _update(self, group, param, grad, state, step):
        lr = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        return self._run("adagrad", group, param, grad, (state["sum"],), (lr, group["eps"]))


def adagrad(params: Any, grads: Sequence[Tensor], state_sums: Sequence[Tensor], state_steps: Sequence[Tensor],
            fused: bool | None = None, grad_scale: Any = None, found_inf: Any = None, has_sparse_grad: bool = False,
            foreach: bool | None = None, differentiable: bool = False, has_complex: bool = False, *, lr: float,
            weight_decay: float, lr_decay: float, eps: float, maximize: bool) -> None:  # fmt: skip
    """One step of `Adagrad` on lists: updates parameters, sums and step counters in place."""
    group = {
        "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "foreach": foreach, "differentiable": differentiable, "fused": fused,
    }  # fmt: skip
    step_lists(Adagrad, group, params, grads, {"sum": state_sums}, state_steps, grad_scale, found_inf)
