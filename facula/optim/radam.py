"""Define RAdam, which is Adam with a rectified adaptive rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr, check_non_negative, check_rates
from ._rule_optimizer import RuleOptimizer, step_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["RAdam", "radam"]


class RAdam(RuleOptimizer):
    """Make steps of `Adam` that are scaled by the second average only when enough steps make its variance known (Liu et al.
    2020).

    Formula:
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        m_hat = m / (1 - beta1 ** t)
        rho_inf = 2 / (1 - beta2) - 1
        rho_t = rho_inf - 2 * t * beta2 ** t / (1 - beta2 ** t)
        r = sqrt((rho_t - 4) * (rho_t - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho_t)) if rho_t > 5 else 0
        q = r * sqrt(1 - beta2 ** t) / (sqrt(v) + eps) if rho_t > 5 else 1
        p -= lr * m_hat * q

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        betas: the decay rates of the averages of g and of g ** 2, each in [0, 1).
        eps: a number added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient or, when decoupled, subtracted from the
            parameter itself, times lr.
        decoupled_weight_decay: if True, apply weight_decay to the parameter and not to the gradient.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.

    Shapes: parameters p of any shape; in ``state[p]``, ``exp_avg`` and ``exp_avg_sq`` have the shape of p, and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.RAdam([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    _state_names = ("exp_avg", "exp_avg_sq")
    _later_options = {**RuleOptimizer._later_options, "decoupled_weight_decay": False}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:  # fmt: skip
        check_lr("RAdam", lr)
        check_non_negative("RAdam", eps=eps, weight_decay=weight_decay)
        check_rates("RAdam", betas)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def _update(self, group, param, grad, state, step):
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        correction2 = 1 - beta2**step
        # Length of the approximated simple moving average, now and in the limit.
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / correction2
        rectified = 0.0
        on_device = isinstance(step, facula.Tensor)  # and nobody may look
        if limit > 5.0 and (on_device or length > 5.0):
            rectification = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            if on_device:  # both ways are computed, and NaN of the one that does not count is kept out
                rectified = facula.where(length > 5.0, (rectification.clamp(min=0) * correction2).sqrt(), 0.0)
            else:
                rectified = math.sqrt(rectification) * math.sqrt(correction2)
        decoupled = group["decoupled_weight_decay"]
        states = (state["exp_avg"], state["exp_avg_sq"])
        shrink, rest1, correction, eps = 1 - lr * decay if decoupled else 1.0, 1 - beta1, 1 - beta1**step, group["eps"]
        numbers = (shrink, rest1, beta2, correction, eps, lr, rectified)
        return self._run("radam", group, param, grad, states, numbers, 0.0 if decoupled else decay)


def radam(params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor],
          state_steps: Sequence[Tensor], decoupled_weight_decay: bool = False, foreach: bool | None = None,
          differentiable: bool = False, capturable: bool = False, has_complex: bool = False, maximize: bool = False, *,
          beta1: float, beta2: float, lr: float, weight_decay: float, eps: float) -> None:  # fmt: skip
    """Make one step of `RAdam` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        exp_avgs: averages of g, updated in place.
        exp_avg_sqs: averages of g ** 2, updated in place.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        decoupled_weight_decay: if True, apply weight_decay to the parameter and not to the gradient.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        has_complex: accepted without effect: complex parameters are recognized.
        maximize: if True, go up the gradient, not down.
        beta1: the decay rate of the average of g.
        beta2: the decay rate of the average of g ** 2.
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: the factor of the parameter that is added to its gradient or, when decoupled, subtracted from the
            parameter itself, times lr.
        eps: a number added to the divisor.

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.radam import radam
    >>> p, g, m, v, t = torch.ones(1), torch.ones(1), torch.zeros(1), torch.zeros(1), torch.tensor(0.0)
    >>> radam([p], [g], [m], [v], [t], beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.0, eps=1e-8)
    >>> p, m, v, t
    (tensor([0.9000]), tensor([0.1000]), tensor([0.0100]), tensor(1.))
    """
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "decoupled_weight_decay": decoupled_weight_decay, "foreach": foreach, "capturable": capturable,
        "differentiable": differentiable,
    }  # fmt: skip
    step_lists(RAdam, group, params, grads, {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}, state_steps)
