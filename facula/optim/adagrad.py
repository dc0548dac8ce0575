"""Define Adagrad, which scales steps by all squared gradients so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr, check_non_negative
from ._rule_optimizer import RuleOptimizer, step_lists
from .optimizer import step_counter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]


class Adagrad(RuleOptimizer):
    """Scale steps by the squares of all gradients so far (Duchi et al. 2011). Sparse gradients are accepted.

    Formula:
        s += g ** 2
        p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the learning rate, a number or a tensor of one element.
        lr_decay: the rate at step t is ``lr / (1 + (t - 1) * lr_decay)``.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        initial_accumulator_value: the first value of the sum.
        eps: a number added to the divisor.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        fused: accepted without effect: one kernel updates a parameter and its state in any case.

    Shapes: parameters p of any shape; in ``state[p]``, ``sum`` has the shape of p, and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError for a sparse gradient and weight_decay.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adagrad([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:  # fmt: skip
        check_lr("Adagrad", lr)
        check_non_negative(
            "Adagrad", lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps,
        )  # fmt: skip
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "fused": fused,
            },
        )  # fmt: skip
        # The sums exist from the beginning, so that they can be shared.
        for group in self.param_groups:
            for param in group["params"]:
                self._start(group, param)

    def _start(self, group, param):
        value = group["initial_accumulator_value"]
        if param.is_complex():
            value = complex(value, value)
        state = self.state[param]
        state["step"] = step_counter()
        state["sum"] = facula.zeros_like(param, memory_format=facula.preserve_format).fill_(value)
        return state

    def share_memory(self) -> None:
        """Move the sums to memory that other processes see, so that several can train one model.

        >>> optimizer = torch.optim.Adagrad([torch.zeros(2, requires_grad=True)])
        >>> optimizer.share_memory()
        >>> optimizer.state[optimizer.param_groups[0]["params"][0]]["sum"].is_shared()
        True
        """
        for state in self.state.values():
            state["sum"].share_memory_()

    @staticmethod
    @facula.no_grad()
    def _update_sparse(group, param, grad, state):
        """Make a step with a sparse gradient, in ops: of the rows that it has."""
        if group["weight_decay"]:
            got = group["weight_decay"]
            raise RuntimeError(f"Adagrad: sparse gradients need weight_decay=0, got {got}")
        grad = (-grad if group["maximize"] else grad).coalesce()
        values, places = grad._values(), grad._indices()
        state["sum"].add_(facula.sparse_coo_tensor(places, values * values.conj(), grad.shape, is_coalesced=True))
        size = float(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        deviation = state["sum"].sparse_mask(grad)._values().sqrt() + group["eps"]
        param.add_(facula.sparse_coo_tensor(places, values / deviation, grad.shape, is_coalesced=True), alpha=-size)

    def _update(self, group, param, grad, state, step):
        lr, eps = group["lr"] / (1 + (step - 1) * group["lr_decay"]), group["eps"]
        return self._run("adagrad", group, param, grad, (state["sum"],), (lr, eps))


def adagrad(params: Sequence[Tensor], grads: Sequence[Tensor], state_sums: Sequence[Tensor], state_steps: Sequence[Tensor],
            fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
            has_sparse_grad: bool = False, foreach: bool | None = None, differentiable: bool = False, has_complex: bool = False,
            *, lr: float, weight_decay: float, lr_decay: float, eps: float, maximize: bool) -> None:  # fmt: skip
    """Make one step of `Adagrad` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        state_sums: sums of g ** 2, updated in place.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        fused: accepted without effect: one kernel updates a parameter and its state in any case.
        grad_scale: a tensor that gradients are divided by first, or None.
        found_inf: a tensor; if it is not 0, the step is left out. None makes every step.
        has_sparse_grad: accepted without effect: sparse gradients are recognized.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        has_complex: accepted without effect: complex parameters are recognized.
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: the factor of the parameter that is added to its gradient (L2 penalty).
        lr_decay: the rate at step t is ``lr / (1 + (t - 1) * lr_decay)``.
        eps: a number added to the divisor.
        maximize: if True, go up the gradient, not down.

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable; AssertionError
    for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.adagrad import adagrad
    >>> p, g, total, t = torch.ones(1), torch.ones(1), torch.zeros(1), torch.tensor(0.0)
    >>> adagrad([p], [g], [total], [t], lr=0.1, weight_decay=0.0, lr_decay=0.0, eps=1e-10, maximize=False)
    >>> p, total, t
    (tensor([0.9000]), tensor([1.]), tensor(1.))
    """
    group = {
        "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "foreach": foreach, "differentiable": differentiable, "fused": fused,
    }  # fmt: skip
    step_lists(Adagrad, group, params, grads, {"sum": state_sums}, state_steps, grad_scale, found_inf)
