"""Define Adadelta, whose steps are in the parameter's own unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._arguments import check_lr, check_non_negative
from ._rule_optimizer import RuleOptimizer, step_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]


class Adadelta(RuleOptimizer):
    """Make steps in the parameter's own unit, from averages v of g ** 2 and u of the squares of earlier steps (Zeiler 2012).

    Formula:
        v = rho * v + (1 - rho) * g ** 2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d ** 2
        p -= lr * d

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the factor of each step.
        rho: the decay rate of both averages, in [0, 1].
        eps: a number added to both averages under their roots.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.

    Shapes: parameters p of any shape; in ``state[p]``, ``square_avg`` and ``acc_delta`` have the shape of p, and ``step`` is
    ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adadelta([weight])
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.9968, -1.9968], requires_grad=True)
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
        lr, rho, eps = group["lr"], group["rho"], group["eps"]
        return self._run("adadelta", group, param, grad, states, (lr, rho, eps))


def adadelta(params: Sequence[Tensor], grads: Sequence[Tensor], square_avgs: Sequence[Tensor], acc_deltas: Sequence[Tensor],
             state_steps: Sequence[Tensor], capturable: bool = False, foreach: bool | None = None, differentiable: bool = False,
             has_complex: bool = False, *, lr: float, rho: float, eps: float, weight_decay: float,
             maximize: bool) -> None:  # fmt: skip
    """Make one step of `Adadelta` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        square_avgs: averages of g ** 2, updated in place.
        acc_deltas: averages of squared steps, updated in place.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        has_complex: accepted without effect: complex parameters are recognized.
        lr: the learning rate, a number or a tensor of one element.
        rho: the decay rate of both averages.
        eps: a number added to both averages under their roots.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        maximize: if True, go up the gradient, not down.

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.adadelta import adadelta
    >>> p, g, v, u, t = torch.ones(1), torch.ones(1), torch.zeros(1), torch.zeros(1), torch.tensor(0.0)
    >>> adadelta([p], [g], [v], [u], [t], lr=1.0, rho=0.9, eps=1e-2, weight_decay=0.0, maximize=False)
    >>> p, t
    (tensor([0.6985]), tensor(1.))
    """
    group = {
        "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
    }  # fmt: skip
    step_lists(Adadelta, group, params, grads, {"square_avg": square_avgs, "acc_delta": acc_deltas}, state_steps)
