"""Define ASGD, averaged stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr, check_non_negative
from ._rule_optimizer import RuleOptimizer, counted, step_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["ASGD", "asgd"]


class ASGD(RuleOptimizer):
    """Descend along the gradient with a rate that decays, and average the parameters (Polyak, Juditsky 1992).

    Formula:
        eta = lr / (1 + lambd * lr * (t - 1)) ** alpha
        p -= eta * (g + lambd * p)
        a += (p - a) / max(1, t - 1 - t0)

    The state ``ax`` of a parameter is its average over the steps after t0, before that the parameter itself.

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        lambd: the decay term of the rate and of the parameter.
        alpha: the power of the rate's decay.
        t0: the step after which the average begins.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.

    Shapes: parameters p of any shape; in ``state[p]``, ``ax`` has the shape of p, ``eta`` and ``mu`` are (), and ``step`` is
    ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.ASGD([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight, optimizer.state[weight]["ax"]
    (tensor([ 0.8000, -1.6000], requires_grad=True), tensor([ 0.8000, -1.6000]))
    """

    _counters = ("step", "eta", "mu")

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:  # fmt: skip
        check_lr("ASGD", lr)
        check_non_negative("ASGD", weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _start(self, group, param):
        state = super()._start(group, param)
        state["eta"] = facula.zeros_like(state["step"]).fill_(float(group["lr"]))
        state["mu"] = facula.ones_like(state["step"])
        state["ax"] = facula.zeros_like(param, memory_format=facula.preserve_format)
        return state

    def _update(self, group, param, grad, state, step):
        eta, mu, lr, lambd = counted(group, state["eta"]), counted(group, state["mu"]), group["lr"], group["lambd"]
        shrink = 1 - lambd * eta
        prepared = self._run("asgd", group, param, grad, (state["ax"],), (shrink, eta, mu))
        next_eta = lr / (1 + lambd * lr * step) ** group["alpha"]
        if isinstance(step, facula.Tensor):
            state["eta"].copy_(next_eta)
            state["mu"].copy_(1 / (step - group["t0"]).clamp(min=1))
        else:
            state["eta"].fill_(float(next_eta))
            state["mu"].fill_(1 / max(1, step - group["t0"]))
        return prepared


def asgd(params: Sequence[Tensor], grads: Sequence[Tensor], axs: Sequence[Tensor], mus: Sequence[Tensor],
         etas: Sequence[Tensor], state_steps: Sequence[Tensor], foreach: bool | None = None, maximize: bool = False,
         differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *, lambd: float, lr: float,
         t0: float, alpha: float, weight_decay: float) -> None:  # fmt: skip
    """Make one step of `ASGD` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        axs: averages of the parameters, updated in place.
        mus: the share of the present values in them, tensors of one element.
        etas: the rates, tensors of one element.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        has_complex: accepted without effect: complex parameters are recognized.
        lambd: the decay term of the rate and of the parameter.
        lr: the learning rate, a number or a tensor of one element.
        t0: the step after which the average begins.
        alpha: the power of the rate's decay.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.asgd import asgd
    >>> p, g, ax, mu, eta, t = torch.ones(1), torch.ones(1), torch.zeros(1), torch.ones(1), torch.tensor(0.1), torch.tensor(0.0)
    >>> asgd([p], [g], [ax], [mu], [eta], [t], lambd=0.0, lr=0.1, t0=10, alpha=0.75, weight_decay=0.0)
    >>> p, ax, eta, t
    (tensor([0.9000]), tensor([0.9000]), tensor(0.1000), tensor(1.))
    """
    group = {
        "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "maximize": maximize,
        "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
    }  # fmt: skip
    step_lists(ASGD, group, params, grads, {"ax": axs, "mu": mus, "eta": etas}, state_steps)
