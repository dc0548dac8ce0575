"""Define Adam, which scales steps by running averages of the gradient and of its square."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

from ._arguments import check_lr, check_non_negative, check_rates
from ._rule_optimizer import RuleOptimizer, step_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Adam", "adam"]


class Adam(RuleOptimizer):
    """Scale steps by averages m of the gradient and v of its square (Kingma, Ba 2015).

    Formula:
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        m_hat = m / (1 - beta1 ** t)
        v_hat = v / (1 - beta2 ** t)
        p -= lr * m_hat / (sqrt(v_hat) + eps)

    Both averages begin at 0; at step t they are divided by what makes up for that.

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        betas: the decay rates of the averages of g and of g ** 2, each in [0, 1).
        eps: a number added to the divisor.
        weight_decay: the factor of the parameter that is added to its gradient or, when decoupled, subtracted from the
            parameter itself, times lr.
        amsgrad: if True, divide by the largest average of g ** 2 so far.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        fused: accepted without effect: one kernel updates a parameter and its state in any case.
        decoupled_weight_decay: if True, apply weight_decay to the parameter and not to the gradient.

    Shapes: parameters p of any shape; in ``state[p]``, ``exp_avg`` and ``exp_avg_sq`` (with amsgrad also ``max_exp_avg_sq``)
    have the shape of p, and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient (`SparseAdam` takes those).

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adam([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    _state_names = ("exp_avg", "exp_avg_sq")
    _later_options = {**RuleOptimizer._later_options, "amsgrad": False, "decoupled_weight_decay": False, "fused": None}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False) -> None:  # fmt: skip
        name = type(self).__name__
        check_lr(name, lr, foreach, capturable)
        check_non_negative(name, eps=eps, weight_decay=weight_decay)
        check_rates(name, betas)
        check_tensor_rates(name, betas, foreach, capturable)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
                "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    def _start(self, group, param):
        state = super()._start(group, param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = facula.zeros_like(param, memory_format=facula.preserve_format)
        return state

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update all parameters that have a gradient; return the loss of the closure, or None."""
        loss = None if closure is None else self._evaluate(closure)
        self._check_capture()
        for group in self.param_groups:
            if group["differentiable"] or group["capturable"]:
                self._step_group(group)
            else:
                # The core steps a group at once, and returns the parameters that it does not step.
                left = _C._optim_adam(group, self.state, self._start)
                if left:
                    self._step_group(group, left)
        return loss

    def _update(self, group, param, grad, state, step):
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        states = (state["exp_avg"], state["exp_avg_sq"], state["max_exp_avg_sq"] if group["amsgrad"] else None)
        shrink, rest1, rest2, eps = 1 - lr * decay if decoupled else 1.0, 1 - beta1, 1 - beta2, group["eps"]
        step_size, root_correction = lr / (1 - beta1**step), (1 - beta2**step) ** 0.5
        numbers = (shrink, rest1, beta2, step_size, root_correction, eps, rest2)
        return self._run("adam", group, param, grad, states, numbers, 0.0 if decoupled else decay)


def check_tensor_rates(name: str, betas: tuple[float, float], foreach: bool | None, capturable: bool) -> None:
    """Raise ValueError for decay rates in tensors that do not go together or with foreach=True."""
    in_tensors = [isinstance(beta, facula.Tensor) for beta in betas]
    if any(in_tensors) and not all(in_tensors):
        raise ValueError(f"{name}: betas must be both floats or both Tensors, got {betas}")
    if any(in_tensors) and foreach and not capturable:
        raise ValueError(f"{name}: betas as Tensors do not go with foreach=True and capturable=False, got {betas}")
    for i, beta in enumerate(betas):
        if in_tensors[i] and beta.numel() != 1:
            raise ValueError(f"{name}: betas[{i}] in a tensor is one element, got {beta.numel()}")


def adam(params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor],
         max_exp_avg_sqs: Sequence[Tensor], state_steps: Sequence[Tensor], foreach: bool | None = None,
         capturable: bool = False, differentiable: bool = False, fused: bool | None = None, grad_scale: Tensor | None = None,
         found_inf: Tensor | None = None, has_complex: bool = False, decoupled_weight_decay: bool = False, *, amsgrad: bool,
         beta1: float, beta2: float, lr: float, weight_decay: float, eps: float, maximize: bool) -> None:  # fmt: skip
    """Make one step of `Adam` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        exp_avgs: averages of g, updated in place.
        exp_avg_sqs: averages of g ** 2, updated in place.
        max_exp_avg_sqs: the largest averages of g ** 2 so far, updated in place with amsgrad, otherwise ignored.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        fused: accepted without effect: one kernel updates a parameter and its state in any case.
        grad_scale: a tensor that gradients are divided by first, or None.
        found_inf: a tensor; if it is not 0, the step is left out. None makes every step.
        has_complex: accepted without effect: complex parameters are recognized.
        decoupled_weight_decay: if True, apply weight_decay to the parameter and not to the gradient.
        amsgrad: if True, divide by the largest average of g ** 2 so far.
        beta1: the decay rate of the average of g.
        beta2: the decay rate of the average of g ** 2.
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: the factor of the parameter that is added to its gradient or, when decoupled, subtracted from the
            parameter itself, times lr.
        eps: a number added to the divisor.
        maximize: if True, go up the gradient, not down.

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.adam import adam
    >>> p, g, m, v, t = torch.ones(1), torch.ones(1), torch.zeros(1), torch.zeros(1), torch.tensor(0.0)
    >>> options = dict(amsgrad=False, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.0, eps=1e-8, maximize=False)
    >>> adam([p], [g], [m], [v], [], [t], **options)
    >>> p, m, v, t
    (tensor([0.9000]), tensor([0.1000]), tensor([0.0100]), tensor(1.))
    """
    group = {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
        "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
        "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
    }  # fmt: skip
    lists = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs if amsgrad else None}
    step_lists(Adam, group, params, grads, lists, state_steps, grad_scale, found_inf)
