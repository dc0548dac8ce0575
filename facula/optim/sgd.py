"""Define SGD, stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

from ._arguments import check_lr, check_non_negative
from ._rule_optimizer import RuleOptimizer, run_steps, step_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["SGD", "sgd"]


class SGD(RuleOptimizer):
    """Descend along the gradient, or along a momentum b.

    Formula:
        b = momentum * b + (1 - dampening) * g
        p -= lr * b  # nesterov: p -= lr * (g + momentum * b)

    The first b is g itself. Sparse gradients are accepted.

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        momentum: the factor of the last momentum in the next one.
        dampening: one minus the factor of the gradient in the momentum.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        nesterov: if True, look ahead along the momentum: use ``g + momentum * b``.
        maximize: if True, go up the gradient, not down.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        fused: accepted without effect: one kernel updates a parameter and its state in any case.

    Shapes: parameters p of any shape; with momentum, ``momentum_buffer`` in ``state[p]`` has the shape of p.

    Errors: ValueError for options out of range, or nesterov without momentum or with dampening.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     weight.square().sum().backward()
    ...     optimizer.step()
    >>> weight
    tensor([ 0.4600, -0.9200], requires_grad=True)
    """

    _later_options = {"nesterov": False, "foreach": None, "maximize": False, "differentiable": False, "fused": False}

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
        """Update all parameters that have a gradient; return the loss of the closure, or None."""
        loss = None if closure is None else self._evaluate(closure)
        for group in self.param_groups:  # the core steps a group at once, and returns the parameters that it does not step
            if group["differentiable"]:
                self._step_group(group)
            else:
                for param in _C._optim_sgd(group, self.state) or ():
                    if param.grad.layout is facula.strided:
                        self._step_group(group, [param])
                    else:
                        self._update_sparse(group, param, param.grad, self.state[param])
        return loss

    @staticmethod
    @facula.no_grad()
    def _update_sparse(group, param, grad, state):
        """Make a step with a sparse gradient, in ops; the buffer is sparse, too."""
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

    def _step_group(self, group, params=None):
        for param in group["params"] if params is None else params:  # in ops
            if param.grad is not None:
                state = self.state[param] if group["momentum"] else {}
                run_steps([self._update(group, param, param.grad, state, None)])

    def _update(self, group, param, grad, state, step):
        momentum, buffer, undamped = group["momentum"], None, 1 - group["dampening"]
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:  # the first time, the buffer is the gradient itself: no damping
                state["momentum_buffer"] = buffer = facula.zeros_like(param, memory_format=facula.preserve_format)
                undamped = 1.0
        lr, nesterov = group["lr"], float(group["nesterov"])
        return self._run("sgd", group, param, grad, (buffer,), (lr, momentum, undamped, nesterov))


def sgd(params: Sequence[Tensor], d_p_list: Sequence[Tensor], momentum_buffer_list: Sequence[Tensor | None],
        has_sparse_grad: bool = False, foreach: bool | None = None, fused: bool | None = None, grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None, *, weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool,
        maximize: bool) -> None:  # fmt: skip
    """Make one step of `SGD` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        d_p_list: their gradients, a list of tensors.
        momentum_buffer_list: the momenta, updated in place; None for those that have none yet, which are put into the list.
        has_sparse_grad: accepted without effect: sparse gradients are recognized.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        fused: accepted without effect: one kernel updates a parameter and its state in any case.
        grad_scale: a tensor that gradients are divided by first, or None.
        found_inf: a tensor; if it is not 0, the step is left out. None makes every step.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        momentum: the factor of the last momentum in the next one; 0 for none.
        lr: the learning rate, a number or a tensor of one element.
        dampening: one minus the factor of the gradient in the momentum.
        nesterov: if True, look ahead along the momentum.
        maximize: if True, go up the gradient, not down.

    Shapes: the lists have one length, and tensors at the same place one shape.

    Errors: RuntimeError for fused together with foreach.

    >>> from torch.optim.sgd import sgd
    >>> p, g, buffers = torch.ones(1), torch.ones(1), [None]
    >>> sgd([p], [g], buffers, weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False)
    >>> p, buffers
    (tensor([0.9000]), [tensor([1.])])
    """
    group = {
        "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
        "maximize": maximize, "foreach": foreach, "fused": fused, "differentiable": False,
    }  # fmt: skip
    lists = {"momentum_buffer": momentum_buffer_list if momentum else None}
    step_lists(SGD, group, params, d_p_list, lists, None, grad_scale, found_inf)
