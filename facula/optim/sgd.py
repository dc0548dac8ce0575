"""Stochastic gradient descent."""

from __future__ import annotations

from facula import _C

from .optimizer import Optimizer, check_lr, check_non_negative

__all__ = ["SGD"]


class SGD(Optimizer):
    """``p -= lr * g``, with momentum ``b = momentum * b + (1 - dampening) * g`` in the place of g.

    Args:
        weight_decay: factor of the parameter added to its gradient.
        nesterov: look ahead: use ``g + momentum * b``.
        maximize: ascend.
        foreach, fused: accepted; every step is one fused pass.
    """

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
        maximize=False, foreach=None, differentiable=False, fused=None,
    ):  # fmt: skip
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

    def step(self, closure=None):
        """Updates all parameters that have a gradient; returns the closure's loss, or None."""
        loss = None if closure is None else self._evaluate(closure)
        for group in self.param_groups:
            _C._optim_sgd(group, self.state)
        return loss
