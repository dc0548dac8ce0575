"""Define Adafactor, which stores the averages of squared gradients by rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._arguments import check_lr, check_non_negative
from .optimizer import Optimizer, step_counter

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Tensor
    from facula.optim.optimizer import ParamsT

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Scale steps by an estimate of the average of g ** 2 that needs little memory (Shazeer, Stern 2018).

    For matrices the estimate is the product of a column and a row.

    Args:
        params: an iterable of parameters, of (name, parameter) pairs, or of groups: dicts with ``params`` and options of their
            own.
        lr: the largest relative step; steps also scale with the size of the parameter.
        beta2_decay: the averages move by ``step ** beta2_decay``; at most 0.
        eps: the smallest squares (None: the dtype's machine epsilon) and the smallest size of a parameter.
        d: the largest root mean square of a step before scaling, at least 1.
        weight_decay: the factor of the parameter that is subtracted from it at each step, times lr.
        foreach: accepted without effect.
        maximize: if True, go up the gradient, not down.

    Shapes: parameters p of any shape; in ``state[p]``, ``row_var`` (..., rows, 1) and ``col_var`` (..., 1, columns), or
    ``variance`` of the shape of a p of one dimension, and ``step`` is ().

    Errors: ValueError for options out of range; RuntimeError, at a step, for a complex parameter.

    >>> weight = torch.ones(3, 2, requires_grad=True)
    >>> optimizer = torch.optim.Adafactor([weight], lr=0.1)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight[0], [tuple(optimizer.state[weight][name].shape) for name in ("row_var", "col_var")]
    (tensor([0.9000, 0.9000], grad_fn=<SelectBackward0>), [(3, 1), (1, 2)])
    """

    _counters = ("step",)
    _later_options = {"foreach": None}

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 foreach: bool | None = None, maximize: bool = False) -> None:  # fmt: skip
        check_lr("Adafactor", lr)
        if beta2_decay > 0:
            raise ValueError(f"Adafactor: beta2_decay must be at most 0, got {beta2_decay}")
        check_non_negative("Adafactor", weight_decay=weight_decay, eps1=0.0 if eps[0] is None else eps[0], eps2=eps[1])
        if not d >= 1.0:
            raise ValueError(f"Adafactor: d must be at least 1, got {d}")
        super().__init__(
            params,
            {
                "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
                "foreach": foreach, "maximize": maximize,
            },
        )  # fmt: skip

    def _start(self, group, param):
        if param.is_complex():
            raise RuntimeError(f"Adafactor: complex parameters are not supported, got {param.dtype}")
        state = self.state[param]
        state["step"] = step_counter()
        if param.dim() > 1:
            shape = list(param.shape)
            state["row_var"] = facula.zeros([*shape[:-1], 1], dtype=param.dtype, device=param.device)
            state["col_var"] = facula.zeros([*shape[:-2], 1, shape[-1]], dtype=param.dtype, device=param.device)
        else:
            state["variance"] = facula.zeros_like(param, memory_format=facula.preserve_format)
        return state

    @facula.no_grad()
    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update all parameters that have a gradient; return the loss of the closure, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._update(group, param, self.state[param] or self._start(group, param))
        return loss

    def _update(self, group, param, state) -> None:
        grad = _wide(-param.grad if group["maximize"] else param.grad)
        lr, (eps1, eps2) = float(group["lr"]), group["eps"]
        eps1 = facula.finfo(param.dtype).eps if eps1 is None else eps1
        state["step"] += 1
        step = state["step"].item()
        weight = step ** group["beta2_decay"]
        size = _wide(param).norm().item() / param.numel() ** 0.5
        rate = max(eps2, size) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        square = grad * grad
        if grad.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(square.mean(-1, keepdim=True).to(row.dtype), weight)
            column.lerp_(square.mean(-2, keepdim=True).to(column.dtype), weight)
            row, column = _wide(row), _wide(column)
            estimate = row @ column / row.mean(-2, keepdim=True).clamp(min=eps1)
        else:
            estimate = _wide(state["variance"].lerp_(square.to(param.dtype), weight))
        update = grad * estimate.clamp(min=eps1 * eps1).rsqrt()
        bound = max(1.0, update.norm().item() / (update.numel() ** 0.5 * group["d"]))
        param.add_(update.to(param.dtype), alpha=-rate / bound)


def _wide(tensor):
    """Return a tensor in float32 at least: sums of squares leave the range of float16."""
    return tensor.float() if tensor.dtype in (facula.float16, facula.bfloat16) else tensor
