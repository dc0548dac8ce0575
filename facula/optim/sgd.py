"""Stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

from ._functional import step_lists
from .optimizer import RuleOptimizer, check_lr, check_non_negative

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["SGD", "sgd"]


class SGD(RuleOptimizer):
    """``p -= lr * g``, with momentum ``b = momentum * b + (1 - dampening) * g`` in the place of g.

    Args:
        weight_decay: factor of the parameter added to its gradient.
        nesterov: look ahead: use ``g + momentum * b``.
        maximize: ascend.
        foreach, fused: accepted; one kernel updates a parameter and its state, whatever they say.
        differentiable: record the step, for parameters that are results of ops.
    """

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        check_lr("SGD", lr)
        check_non_negative("SGD", momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"SGD: nesterov needs a momentum and no dampening, got momentum {momentum} and dampening {dampening}"
            )
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
                "fused": fused,
            },
        )  # fmt: skip

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Updates all parameters that have a gradient; returns the closure's loss, or None."""
        loss = None if closure is None else self._evaluate(closure)
        for group in self.param_groups:
            if group["differentiable"]:
                self._step_group(group)
            else:
                for param in _C._optim_sgd(group, self.state) or ():
                    self._update_sparse(group, param, param.grad, self.state[param])
        return loss

    @staticmethod
    @facula.no_grad()
    def _update_sparse(group, param, grad, state):
        """A step with a sparse gradient, in ops; the buffer is sparse, too."""
        grad = -grad if group["maximize"] else grad
        if group["weight_decay"]:
            grad = grad.add(param, alpha=group["weight_decay"])
        if group["momentum"]:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                state["momentum_buffer"] = buffer = grad.clone()
            else:
                buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        param.add_(grad, alpha=-float(group["lr"]))

    def _step_group(self, group):
        for param in group["params"]:  # in ops
            if param.grad is not None:
                self._update(group, param, param.grad, self.state[param] if group["momentum"] else {}, None)

    def _update(self, group, param, grad, state, step):
        momentum, buffer, undamped = group["momentum"], None, 1 - group["dampening"]
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:  # the first time, the buffer is the gradient itself: no damping
                state["momentum_buffer"] = buffer = facula.zeros_like(param, memory_format=facula.preserve_format)
                undamped = 1.0
        return self._run("sgd", group, param, grad, (buffer,), (group["lr"], momentum, undamped, float(group["nesterov"])))


def sgd(params: Any, d_p_list: Sequence[Tensor], momentum_buffer_list: Sequence[Tensor | None], has_sparse_grad: bool = False,
        foreach: bool | None = None, fused: bool | None = None, grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None, *, weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool,
        maximize: bool) -> None:  # fmt: skip
    """One step of `SGD` on lists: updates parameters and buffers in place; a buffer of None is put into its list."""
    group = {
        "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
        "maximize": maximize, "foreach": foreach, "fused": fused, "differentiable": False,
    }  # fmt: skip
    lists = {"momentum_buffer": momentum_buffer_list if momentum else None}
    step_lists(SGD, group, params, d_p_list, lists, None, grad_scale, found_inf)
