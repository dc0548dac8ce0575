"""Define RMSprop, which scales steps by a running average of squared gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr, check_non_negative
from ._rule_optimizer import RuleOptimizer, step_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(RuleOptimizer):
    """Scale steps by an average v of the squared gradient, optionally with momentum.

    Formula:
        v = alpha * v + (1 - alpha) * g ** 2
        b = momentum * b + g / (sqrt(v) + eps)
        p -= lr * b

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        alpha: the decay rate of the average of g ** 2.
        eps: a number added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        momentum: the factor of the last step in the next one.
        centered: if True, subtract the square of the average of g under the root, which leaves the variance.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.

    Shapes: parameters p of any shape; in ``state[p]``, ``square_avg`` (with momentum also ``momentum_buffer``, if centered also
    ``grad_avg``) has the shape of p, and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.RMSprop([weight], lr=0.01)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    _state_names = ("square_avg",)
    _later_options = {**RuleOptimizer._later_options, "momentum": 0, "centered": False}

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
        lr, alpha, eps, momentum = group["lr"], group["alpha"], group["eps"], group["momentum"]
        return self._run("rmsprop", group, param, grad, (state["square_avg"], buffer, average), (lr, alpha, eps, momentum))


def rmsprop(params: Sequence[Tensor], grads: Sequence[Tensor], square_avgs: Sequence[Tensor], grad_avgs: Sequence[Tensor],
            momentum_buffer_list: Sequence[Tensor], state_steps: Sequence[Tensor], foreach: bool | None = None,
            maximize: bool = False, differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *,
            lr: float, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool) -> None:  # fmt: skip
    """Make one step of `RMSprop` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        square_avgs: averages of g ** 2, updated in place.
        grad_avgs: averages of g, updated in place when centered.
        momentum_buffer_list: the momenta, updated in place; None for those that have none yet, which are put into the list.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        has_complex: accepted without effect: complex parameters are recognized.
        lr: the learning rate, a number or a tensor of one element.
        alpha: the decay rate of the average of g ** 2.
        eps: a number added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        momentum: the factor of the last step in the next one.
        centered: if True, subtract the square of the average of g under the root, which leaves the variance.

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.rmsprop import rmsprop
    >>> p, g, v, t = torch.ones(1), torch.ones(1), torch.zeros(1), torch.tensor(0.0)
    >>> options = dict(lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False)
    >>> rmsprop([p], [g], [v], [], [], [t], **options)
    >>> p, v, t
    (tensor([0.9000]), tensor([0.0100]), tensor(1.))
    """
    group = {
        "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay,
        "capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
    }  # fmt: skip
    lists = {
        "square_avg": square_avgs, "grad_avg": grad_avgs if centered else None,
        "momentum_buffer": momentum_buffer_list if momentum > 0 else None,
    }  # fmt: skip
    step_lists(RMSprop, group, params, grads, lists, state_steps)
