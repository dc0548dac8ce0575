"""Checks of the options of optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from facula import Tensor

OPTIONS = {
    "params": "tensors, (name, tensor) pairs, or groups: dicts with ``params`` and options of their own.",
    "lr": "the learning rate, a number or a tensor of one element.",
    "betas": "decay rates of the averages of g and of g ** 2, each in [0, 1).",
    "eps": "added to the divisor.",
    "weight_decay": "the factor of the parameter that is added to its gradient.",
    "maximize": "whether steps go up the gradient, not down.",
    "foreach": "accepted; one kernel updates a parameter and its state, whatever it says.",
    "fused": "accepted; one kernel updates a parameter and its state, whatever it says.",
    "capturable": "whether a CUDA graph may capture a step; a step on the CPU then raises AssertionError.",
    "differentiable": "whether steps are recorded for gradients, for parameters that are results of ops.",
}
DECOUPLED = {
    "weight_decay": "the factor of the parameter that is added to its gradient, or, when decoupled, (times lr) taken from the "
    "parameter itself.",
    "decoupled_weight_decay": "whether weight_decay acts on the parameter and not on the gradient.",
}
LISTS = {
    **OPTIONS,
    "params": "the parameters, a list of tensors, which are updated in place.",
    "grads": "their gradients.",
    "d_p_list": "their gradients.",
    "state_steps": "how many steps there were, tensors of one element, to which 1 is added.",
    "exp_avgs": "averages of g, updated in place.",
    "exp_avg_sqs": "averages of g ** 2, updated in place.",
    "max_exp_avg_sqs": "the largest averages of g ** 2 so far, updated in place with amsgrad, else not looked at.",
    "exp_infs": "decaying maxima of ``|g|``, updated in place.",
    "square_avgs": "averages of g ** 2, updated in place.",
    "acc_deltas": "averages of squared steps, updated in place.",
    "state_sums": "sums of g ** 2, updated in place.",
    "axs": "averages of the parameters, updated in place.",
    "mus": "how much the present values count in them, tensors of one element.",
    "etas": "the rates, tensors of one element.",
    "mu_products": "products of the momenta so far, tensors of one element.",
    "grad_avgs": "averages of g, updated in place when centered.",
    "momentum_buffer_list": "the momenta, updated in place; None for those that have none yet, which are put into the list.",
    "prevs": "the gradients before, replaced in place.",
    "step_sizes": "the step size of each element, updated in place.",
    "beta1": "decay rate of the average of g.",
    "beta2": "decay rate of the average of g ** 2.",
    "grad_scale": "a tensor that gradients are divided by first, or None.",
    "found_inf": "a tensor; where it is not 0, nothing is done.",
    "has_complex": "accepted; complex parameters are seen without it.",
    "has_sparse_grad": "accepted; sparse gradients are seen without it.",
}


def check_non_negative(name: str, **options: Any) -> None:
    """Raise ValueError naming the optimizer for the first option below 0 (or NaN)."""
    for option, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"{name}: {option} must be at least 0, got {value}")


def check_rates(name: str, betas: tuple[float, float]) -> None:
    """Raise ValueError for decay rates outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"{name}: betas[{i}] must be in [0, 1), got {beta}")


def check_lr(name: str, lr: Tensor | float, foreach: bool | None = None, capturable: bool = True) -> None:
    """Raise ValueError for a negative learning rate, or a tensor that is not one number."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"{name}: a learning rate in a tensor is one element, got {lr.numel()}")
        if foreach and not capturable:
            raise ValueError(f"{name}: lr as a tensor does not go with foreach=True and capturable=False, got {lr}")
    if not 0.0 <= lr:
        raise ValueError(f"{name}: lr must be at least 0, got {lr}")


def check_flags(name: str, options: Mapping[str, Any]) -> None:
    for other in ("differentiable", "foreach"):
        if options.get("fused") and options.get(other):
            raise RuntimeError(f"{name}: fused and {other} exclude each other, got both")


def check_step(name: str, group: Mapping[str, Any], params: Any) -> None:
    """Raise AssertionError for options that a step of these parameters cannot have."""
    if group.get("capturable"):
        for param in params:
            if not param.is_cuda:
                place = str(param.device).upper()
                raise AssertionError(f"{name}: capturable=True is for parameters on an accelerator, got a step on the {place}")
    if group.get("foreach") and group.get("differentiable") and name != "SGD":
        raise AssertionError(f"{name}: a foreach step has no derivative, got foreach=True and differentiable=True")
