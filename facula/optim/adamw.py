"""Define AdamW, which is Adam with decoupled weight decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .adam import Adam, adam

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Make steps of `Adam` with decoupled weight decay: parameters shrink by themselves, not through the gradient (Loshchilov,
    Hutter 2019).

    Formula:
        p -= lr * weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        m_hat = m / (1 - beta1 ** t)
        v_hat = v / (1 - beta2 ** t)
        p -= lr * m_hat / (sqrt(v_hat) + eps)

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        betas: the decay rates of the averages of g and of g ** 2, each in [0, 1).
        eps: a number added to the divisor.
        weight_decay: the factor of the parameter that is subtracted from it at each step, times lr.
        amsgrad: if True, divide by the largest average of g ** 2 so far.
        maximize: if True, go up the gradient, not down.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        fused: accepted without effect: one kernel updates a parameter and its state in any case.

    Shapes: parameters p of any shape; in ``state[p]``, ``exp_avg`` and ``exp_avg_sq`` (with amsgrad also ``max_exp_avg_sq``)
    have the shape of p, and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.5)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.8500, -1.8000], requires_grad=True)
    """

    _later_options = {**Adam._later_options, "decoupled_weight_decay": True}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def adamw(params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor],
          max_exp_avg_sqs: Sequence[Tensor], state_steps: Sequence[Tensor], foreach: bool | None = None,
          capturable: bool = False, differentiable: bool = False, fused: bool | None = None, grad_scale: Tensor | None = None,
          found_inf: Tensor | None = None, has_complex: bool = False, *, amsgrad: bool, beta1: float, beta2: float, lr: float,
          weight_decay: float, eps: float, maximize: bool) -> None:  # fmt: skip
    """Make one step of `AdamW` on lists.

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
        amsgrad: if True, divide by the largest average of g ** 2 so far.
        beta1: the decay rate of the average of g.
        beta2: the decay rate of the average of g ** 2.
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: the factor of the parameter that is subtracted from it at each step, times lr.
        eps: a number added to the divisor.
        maximize: if True, go up the gradient, not down.

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.adamw import adamw
    >>> p, g, m, v, t = torch.ones(1), torch.ones(1), torch.zeros(1), torch.zeros(1), torch.tensor(0.0)
    >>> options = dict(amsgrad=False, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0.5, eps=1e-8, maximize=False)
    >>> adamw([p], [g], [m], [v], [], [t], **options)
    >>> p
    tensor([0.8500])
    """
    adam(
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach, capturable, differentiable, fused,
        grad_scale, found_inf, has_complex, True, amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr,
        weight_decay=weight_decay, eps=eps, maximize=maximize,
    )  # fmt: skip
