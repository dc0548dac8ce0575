"""Define Rprop, whose steps follow from the signs of gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr
from ._rule_optimizer import RuleOptimizer, step_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


class Rprop(RuleOptimizer):
    """Make steps from the signs of gradients (Riedmiller, Braun 1993).

    Formula:
        s = min(s * eta_plus, s_max) if g * g_old > 0 else max(s * eta_minus, s_min) if g * g_old < 0 else s
        g = 0 if g * g_old < 0 else g
        p -= s * sign(g)
        g_old = g

    Each element has a step size, which grows while its gradient keeps its sign and shrinks when the sign changes.

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the first step size.
        etas: the factors of the step size where the sign changed (below 1) and where it stayed (above 1).
        step_sizes: the smallest and the largest step size.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.

    Shapes: parameters p of any shape; in ``state[p]``, ``prev`` and ``step_size`` have the shape of p, and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a sparse gradient.

    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([weight], lr=0.1)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     weight.square().sum().backward()
    ...     optimizer.step()
    >>> weight, optimizer.state[weight]["step_size"]
    (tensor([ 0.7800, -1.7800], requires_grad=True), tensor([0.1200, 0.1200]))
    """

    _state_names = ("prev",)

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, etas: Sequence[float] = (0.5, 1.2),
                 step_sizes: Sequence[float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:  # fmt: skip
        check_lr("Rprop", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Rprop: etas must be below and above 1, got {etas[0]} and {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _start(self, group, param):
        state = super()._start(group, param)
        lr = complex(group["lr"], group["lr"]) if param.is_complex() else group["lr"]
        state["step_size"] = facula.zeros_like(param).fill_(lr)
        return state

    def _update(self, group, param, grad, state, step):
        states, (minus, plus), (least, most) = (state["prev"], state["step_size"]), group["etas"], group["step_sizes"]
        return self._run("rprop", group, param, grad, states, (minus, plus, least, most), 0.0)


def rprop(params: Sequence[Tensor], grads: Sequence[Tensor], prevs: Sequence[Tensor], step_sizes: Sequence[Tensor],
          state_steps: Sequence[Tensor], foreach: bool | None = None, capturable: bool = False, maximize: bool = False,
          differentiable: bool = False, has_complex: bool = False, *, step_size_min: float, step_size_max: int, etaminus: float,
          etaplus: float) -> None:  # fmt: skip
    """Make one step of `Rprop` on lists.

    Args:
        params: the parameters, a list of tensors, which are updated in place.
        grads: their gradients, a list of tensors.
        prevs: the gradients before, replaced in place.
        step_sizes: the step size of each element, updated in place.
        state_steps: the number of steps so far, a list of tensors of one element, to which 1 is added.
        foreach: accepted without effect: one kernel updates a parameter and its state in any case.
        capturable: if True, a CUDA graph may capture a step, and a step on the CPU raises AssertionError.
        maximize: if True, go up the gradient, not down.
        differentiable: if True, record steps for gradients; the parameters are then results of ops.
        has_complex: accepted without effect: complex parameters are recognized.
        step_size_min: the smallest step size.
        step_size_max: the largest step size.
        etaminus: factor of a step size where the sign turned.
        etaplus: factor of a step size where the sign stayed.

    Shapes: the lists have one length, and tensors at the same place one shape; tensors of one element are ().

    Errors: RuntimeError for state_steps that are not tensors, for fused together with foreach or differentiable, and for a
    sparse gradient; AssertionError for capturable with parameters on the CPU, and for foreach together with differentiable.

    >>> from torch.optim.rprop import rprop
    >>> p, g, t = torch.ones(2), torch.tensor([1.0, -1.0]), torch.tensor(0.0)
    >>> before, size = torch.ones(2), torch.full((2,), 0.1)
    >>> rprop([p], [g], [before], [size], [t], step_size_min=1e-6, step_size_max=50, etaminus=0.5, etaplus=1.2)
    >>> p, before, size
    (tensor([0.8800, 1.0000]), tensor([1., 0.]), tensor([0.1200, 0.0500]))
    """
    group = {
        "etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max), "maximize": maximize,
        "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
    }  # fmt: skip
    step_lists(Rprop, group, params, grads, {"prev": prevs, "step_size": step_sizes}, state_steps)
