"""Define Adamax, which is Adam with the infinity norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._arguments import check_lr, check_non_negative, check_rates
from ._rule_optimizer import RuleOptimizer, step_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Adamax", "adamax"]


class Adamax(RuleOptimizer):
    """Make steps of `Adam` with the infinity norm (Kingma, Ba 2015).

    Formula:
        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, abs(g) + eps)
        p -= lr * m / ((1 - beta1 ** t) * u)

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        betas: the decay rates of the average of g and of the maximum of ``|g|``, each in [0, 1).
        eps: a number added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.

    Shapes: parameters p of any shape; in ``state[p]``, ``exp_avg`` and ``exp_inf`` have the shape of p, and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.9000, -1.9000], requires_grad=True)
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
        rest1, rate, eps = 1 - beta1, group["lr"] / (1 - beta1**step), group["eps"]
        return self._run("adamax", group, param, grad, (state["exp_avg"], state["exp_inf"]), (rest1, beta2, rate, eps))


def adamax(params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_infs: Sequence[Tensor],
           state_steps: Sequence[Tensor], foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
           capturable: bool = False, has_complex: bool = False, *, eps: float, beta1: float, beta2: float, lr: float,
           weight_decay: float) -> None:  # fmt: skip
    """Make one step of `Adamax` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        exp_avgs: averages of g, updated in place.
        exp_infs: decaying maxima of ``|g|``, updated in place.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        has_complex: accepted without effect: complex parameters are recognized.
        eps: a number added to the divisor.
        beta1: the decay rate of the average of g.
        beta2: decay rate of the maximum.
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.adamax import adamax
    >>> p, g, m, u, t = torch.ones(1), torch.ones(1), torch.zeros(1), torch.zeros(1), torch.tensor(0.0)
    >>> adamax([p], [g], [m], [u], [t], eps=1e-8, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.0)
    >>> p, m, u, t
    (tensor([0.9000]), tensor([0.1000]), tensor([1.]), tensor(1.))
    """
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
    }  # fmt: skip
    step_lists(Adamax, group, params, grads, {"exp_avg": exp_avgs, "exp_inf": exp_infs}, state_steps)
