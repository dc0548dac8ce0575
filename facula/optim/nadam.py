"""Define NAdam, which is Adam with Nesterov momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr, check_non_negative, check_rates
from ._rule_optimizer import RuleOptimizer, counted, step_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["NAdam", "nadam"]


class NAdam(RuleOptimizer):
    """Make steps of `Adam` that look ahead along the first average, with a momentum that grows to betas[0] (Dozat 2016).

    Formula:
        mu_t = beta1 * (1 - 0.96 ** (t * momentum_decay) / 2)
        mu_next = beta1 * (1 - 0.96 ** ((t + 1) * momentum_decay) / 2)
        product *= mu_t
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        m_hat = mu_next * m / (1 - product * mu_next) + (1 - mu_t) * g / (1 - product)
        v_hat = v / (1 - beta2 ** t)
        p -= lr * m_hat / (sqrt(v_hat) + eps)

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        betas: the decay rates of the averages of g and of g ** 2, each in [0, 1).
        eps: a number added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient or, when decoupled, subtracted from the
            parameter itself, times lr.
        momentum_decay: the rate at which the momentum grows.
        decoupled_weight_decay: if True, apply weight_decay to the parameter and not to the gradient.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.

    Shapes: parameters p of any shape; in ``state[p]``, ``exp_avg`` and ``exp_avg_sq`` have the shape of p, ``mu_product`` is
    (), and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.NAdam([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.8944, -1.8944], requires_grad=True)
    """

    _state_names = ("exp_avg", "exp_avg_sq")
    _counters = ("step", "mu_product")
    _later_options = {**RuleOptimizer._later_options, "decoupled_weight_decay": False}

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
        product = state["mu_product"]
        if not group.get("differentiable"):
            product = counted(group, product)
        decoupled = group["decoupled_weight_decay"]
        states = (state["exp_avg"], state["exp_avg_sq"])
        shrink, rest1, correction, eps = 1 - lr * decay if decoupled else 1.0, 1 - beta1, 1 - beta2**step, group["eps"]
        rate_gradient, rate_average = lr * (1.0 - mu) / (1.0 - product), lr * mu_next / (1.0 - product * mu_next)
        numbers = (shrink, rest1, beta2, correction, eps, rate_gradient, rate_average)
        return self._run("nadam", group, param, grad, states, numbers, 0.0 if decoupled else decay)


def nadam(params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor],
          mu_products: Sequence[Tensor], state_steps: Sequence[Tensor], decoupled_weight_decay: bool = False,
          foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, has_complex: bool = False,
          maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float, momentum_decay: float,
          eps: float) -> None:  # fmt: skip
    """Make one step of `NAdam` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        exp_avgs: averages of g, updated in place.
        exp_avg_sqs: averages of g ** 2, updated in place.
        mu_products: products of the momenta so far, tensors of one element.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        decoupled_weight_decay: if True, apply weight_decay to the parameter and not to the gradient.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        has_complex: accepted without effect: complex parameters are recognized.
        maximize: if True, go up the gradient, not down.
        beta1: the decay rate of the average of g.
        beta2: the decay rate of the average of g ** 2.
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: the factor of the parameter that is added to its gradient or, when decoupled, subtracted from the
            parameter itself, times lr.
        momentum_decay: the rate at which the momentum grows.
        eps: a number added to the divisor.

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.nadam import nadam
    >>> p, g, m, v, product, t = (torch.full((1,), value) for value in (1.0, 1.0, 0.0, 0.0, 1.0, 0.0))
    >>> options = dict(beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.0, momentum_decay=4e-3, eps=1e-8)
    >>> nadam([p], [g], [m], [v], [product], [t], **options)
    >>> p, m, v, t
    (tensor([0.8944]), tensor([0.1000]), tensor([0.0100]), tensor([1.]))
    """
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
        "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
        "capturable": capturable, "differentiable": differentiable,
    }  # fmt: skip
    lists = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "mu_product": mu_products}
    step_lists(NAdam, group, params, grads, lists, state_steps)
